package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/tests/stack"
)

// acquaintedServer is the word behind tests in alone.txt whose invitations go to people who have an
// account there already, with a second factor: such a test skips itself where they have none.
const acquaintedServer = "acquainted"

// acquaintance makes those people. It stands before the server, lets everything through as it is,
// and has whoever is invited by e-mail sign up first, as people do.
type acquaintance struct {
	holdfast string
	server   *stack.Stack
}

// listen stands before the server until the listener is closed.
func (a *acquaintance) listen() (net.Listener, error) {
	target, err := url.Parse(a.server.Address())
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{Transport: a.server.HTTP.Transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	return serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && path.Base(r.URL.Path) == "organization-memberships" {
			if err := a.acquaint(r); err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
}

// acquaint makes the person whom the request invites, and leaves the request as it was.
func (a *acquaintance) acquaint(r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var invitation struct {
		Data struct{ Attributes struct{ Email string } }
	}
	if err := json.Unmarshal(body, &invitation); err != nil {
		return err
	}
	name, password := "invited-"+strings.ToLower(rand.Text()[:8]), rand.Text()
	token, err := operate(r.Context(), a.holdfast, a.server, "", "users", "create", name, "--email", invitation.Data.Attributes.Email)
	if err != nil {
		return err
	}
	if _, err := operate(r.Context(), a.holdfast, a.server, password, "users", "set-password", name); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(token), "\n")
	return a.enrol(r.Context(), lines[len(lines)-1], password)
}

// enrol sets up a second factor as its owner does: with the password, and a first code.
func (a *acquaintance) enrol(ctx context.Context, token, password string) error {
	var begun struct {
		Data struct{ Attributes struct{ Secret string } }
	}
	if err := a.send(ctx, token, "/api/v2/account/totp", map[string]string{"password": password}, &begun); err != nil {
		return err
	}
	code, err := accounts.CurrentCode(begun.Data.Attributes.Secret, clock.Now())
	if err != nil {
		return err
	}
	return a.send(ctx, token, "/api/v2/account/totp/actions/confirm", map[string]string{"code": code}, nil)
}

func (a *acquaintance) send(ctx context.Context, token, target string, attributes map[string]string, into any) error {
	body, err := json.Marshal(map[string]any{"data": map[string]any{"type": "totp-factors", "attributes": attributes}})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.server.Address()+target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/vnd.api+json")
	response, err := a.server.HTTP.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("POST %s: %s\n%s", target, response.Status, said)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(said, into)
}

// operate runs `holdfast admin` on the server's host and gives what it prints.
func operate(ctx context.Context, holdfast string, server *stack.Stack, input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, holdfast, append([]string{"admin"}, args...)...)
	command.Env = stack.PlainEnviron()
	for variable, value := range server.Environ {
		command.Env = append(command.Env, variable+"="+value)
	}
	command.Stdin = strings.NewReader(input)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("holdfast admin %s: %w\n%s", strings.Join(args[:2], " "), err, said.String())
	}
	return string(out), nil
}
