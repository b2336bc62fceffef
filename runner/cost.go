package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

const (
	costPatience  = 2 * time.Minute // that the cost command may take
	longestCosts  = 5 << 20         // bytes of its output
	costPlanName  = "PLAN_JSON"     // variable that names the plan to it
	costVariables = "INFRACOST_"    // beginning of the variables of the runner's own that it gets
)

// estimateCost has the operator's command put a price on the finished plan, where there is one and the server wants to
// know. Whatever goes wrong here is said with the estimate; the plan is good all the same.
func (a *attempt) estimateCost() *wire.CostEstimate {
	if _, wanted := find(a.manifest.Outputs, wire.KindCostEstimate); !wanted || a.costCommand == "" || a.stop.why() != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(a.working, costPatience)
	defer cancel()
	failed := func(err error) *wire.CostEstimate {
		a.log.Printf("\nWarning: the cost of this plan is not known: %s", err)
		return &wire.CostEstimate{Error: err.Error()}
	}
	printed, err := runCostCommand(ctx, a.costCommand, a.sandbox.planJSON(), a.sandbox.tmp, os.Environ())
	if err != nil {
		return failed(err)
	}
	estimate, err := readCosts(printed)
	if err != nil {
		return failed(err)
	}
	path := filepath.Join(a.sandbox.tmp, "costs.json")
	if err := os.WriteFile(path, printed, 0o600); err != nil {
		return failed(err)
	}
	if err := a.upload(a.working, wire.KindCostEstimate, path); err != nil {
		return failed(errors.New("what the cost command printed could not be sent"))
	}
	return &estimate
}

// runCostCommand gives what the command prints. It is the operator's, so it runs outside of the enclosure, with a
// small environment in which nothing of the run's is but the plan's path.
func runCostCommand(ctx context.Context, command, plan, tmp string, own []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = tmp, costEnvironment(own, plan, tmp), ownGroup()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with all that it started
	cmd.WaitDelay = time.Second
	out := &limited{most: longestCosts}
	cmd.Stdout = out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, errors.New("the cost command took too long, or the run was stopped")
	case out.over: // which ends the command by a broken pipe
		return nil, errors.New("the cost command printed more than 5 MiB")
	case errors.As(err, &exit):
		return nil, fmt.Errorf("the cost command ended with exit code %d", exit.ExitCode())
	case err != nil:
		return nil, errors.New("the cost command could not be run")
	}
	return out.kept, nil
}

// limited keeps what is written to it, and fails when that becomes too much.
type limited struct {
	kept []byte // no bytes.Buffer: that would be read into past Write
	most int
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if l.over = l.over || len(l.kept)+len(p) > l.most; l.over {
		return 0, errors.New("too much output")
	}
	l.kept = append(l.kept, p...)
	return len(p), nil
}

// costEnvironment is what the command sees of the runner's own: how to find programs, the way out to the network, and
// what is meant for it.
func costEnvironment(own []string, plan, tmp string) []string {
	env := []string{costPlanName + "=" + plan, "TMPDIR=" + tmp}
	for _, entry := range own {
		name, _, _ := strings.Cut(entry, "=")
		switch strings.ToUpper(name) {
		case "PATH", "HOME", "LANG", "TZ", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR":
			env = append(env, entry)
		default:
			if strings.HasPrefix(name, costVariables) {
				env = append(env, entry)
			}
		}
	}
	return env
}

// readCosts reads Infracost's JSON. A price that it does not know counts as nothing.
func readCosts(printed []byte) (wire.CostEstimate, error) {
	var doc struct {
		Currency string  `json:"currency"`
		Total    *string `json:"totalMonthlyCost"`
		Past     *string `json:"pastTotalMonthlyCost"`
		Summary  struct {
			Detected  int `json:"totalDetectedResources"`
			Supported int `json:"totalSupportedResources"`
		} `json:"summary"`
	}
	wrong := errors.New("the cost command did not print Infracost's JSON (infracost breakdown --format json)")
	if json.Unmarshal(printed, &doc) != nil || doc.Total == nil && doc.Currency == "" {
		return wire.CostEstimate{}, wrong
	}
	amount := func(text *string) (*big.Rat, bool) {
		if text == nil || *text == "" {
			return new(big.Rat), true
		}
		if strings.ContainsAny(*text, "/eE") || len(*text) > 40 {
			return nil, false
		}
		return new(big.Rat).SetString(*text)
	}
	proposed, ok := amount(doc.Total)
	prior, ok2 := amount(doc.Past)
	if !ok || !ok2 || doc.Summary.Detected < 0 || doc.Summary.Supported < 0 || doc.Summary.Supported > doc.Summary.Detected {
		return wire.CostEstimate{}, wrong
	}
	return wire.CostEstimate{
		Currency: doc.Currency, Proposed: proposed.FloatString(2), Prior: prior.FloatString(2), Delta: new(big.Rat).Sub(proposed, prior).FloatString(2),
		Resources: doc.Summary.Detected, Matched: doc.Summary.Supported,
	}, nil
}
