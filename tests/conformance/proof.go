package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/tests/stack"
)

// A proof serves for a quarter of an hour, and a test may take some minutes.
const proofLasts = 10 * time.Minute

// prover proves who the suite's user is, as a person would who works with its token: by the password
// and a code of the second factor that `holdfast dev` has enrolled for it. Some of the suite's
// requests are only served to a token that was stepped up.
type prover struct {
	holdfast string
	server   *stack.Stack
	mu       sync.Mutex
	at       time.Time
}

// prove does so when that is too long ago.
func (p *prover) prove(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.at.IsZero() && clock.Since(p.at) < proofLasts {
		return nil
	}
	password, err := os.ReadFile(filepath.Join(p.server.Dir, "admin-password"))
	if err != nil {
		return err
	}
	show := exec.CommandContext(ctx, p.holdfast, "admin", "totp", "--file", filepath.Join(p.server.Dir, "admin-totp"))
	show.Env = stack.PlainEnviron()
	code, err := show.Output()
	if err != nil {
		return fmt.Errorf("asking the second factor for its code: %w", err)
	}
	body, err := json.Marshal(map[string]any{"data": map[string]any{
		"attributes": map[string]string{"password": strings.TrimSpace(string(password)), "code": strings.TrimSpace(string(code))},
	}})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.server.Address()+"/api/v2/account/actions/step-up", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+p.server.Token())
	request.Header.Set("Content-Type", "application/vnd.api+json")
	response, err := p.server.HTTP.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(response.Body)
		return fmt.Errorf("the suite's user could not step up: %s\n%s", response.Status, said)
	}
	p.at = clock.Now()
	return nil
}
