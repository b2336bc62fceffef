package chaos

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-tfe"
)

// place is a workspace and what its configuration names.
type place struct {
	id, name string
	ledger   string // what its provider really made
	gate     string // nothing is made before this file exists; "" is no gate
	secret   string // value of a sensitive variable
}

// newPlace makes a workspace with a sensitive variable. It happens in calm.
func (s *stack) newPlace(name, mode string) (p place, err error) {
	api, err := s.api(s.proxy.calm())
	if err != nil {
		return p, err
	}
	w, err := api.Workspaces.Create(ctx, "demo", tfe.WorkspaceCreateOptions{Name: &name, ExecutionMode: &mode})
	if err != nil {
		return p, err
	}
	p = place{id: w.ID, name: name, ledger: filepath.Join(s.dir, "ledgers", name), secret: "the-secret-of-" + name + "-" + randomText(16)}
	if err := os.MkdirAll(filepath.Dir(p.ledger), 0o755); err != nil {
		return p, err
	}
	s.history.secret(p.secret, "the value of a sensitive variable")
	_, err = api.Variables.Create(ctx, p.id, tfe.VariableCreateOptions{
		Key: tfe.String("password"), Value: &p.secret, Category: tfe.Category(tfe.CategoryTerraform), Sensitive: tfe.Bool(true),
	})
	return p, err
}

func randomText(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	text := make([]byte, n)
	for i := range text {
		text[i] = letters[rand.IntN(len(letters))]
	}
	return string(text)
}

// configuration makes the things 1 to n, each slow enough that things can break meanwhile. What
// an earlier run has made is there already.
func (p place) configuration(n int, delay time.Duration) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%q", fmt.Sprintf("thing-%d", i+1)))
	}
	gate := ""
	if p.gate != "" {
		gate = fmt.Sprintf("gate = %q", p.gate)
	}
	return fmt.Sprintf(`
terraform {
  required_providers {
    fault = { source = "holdfast-run/fault" }
  }
}
provider "fault" { ledger = %q }
variable "password" {
  type      = string
  sensitive = true
}
resource "fault_slow" "thing" {
  for_each     = toset([%s])
  name         = each.key
  value        = sha256(var.password)
  create_delay = %q
  %s
}
output "things" { value = [for t in fault_slow.thing : t.name] }
output "password" {
  value     = var.password
  sensitive = true
}
`, p.ledger, strings.Join(names, ", "), delay.String(), gate)
}

func archive(configuration string) (*bytes.Buffer, error) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	tape := tar.NewWriter(zip)
	err := tape.WriteHeader(&tar.Header{Name: "main.tf", Mode: 0o644, Size: int64(len(configuration))})
	if err == nil {
		_, err = tape.Write([]byte(configuration))
	}
	return &packed, errors.Join(err, tape.Close(), zip.Close())
}

// newRun asks for a run over api, which may be behind the storm: each call is repeated until the
// server says yes. A repeated question for a run of one configuration gets the same run.
func (s *stack) newRun(api *tfe.Client, p place, configuration, message string, auto bool) (*tfe.Run, error) {
	packed, err := archive(configuration)
	if err != nil {
		return nil, err
	}
	var version *tfe.ConfigurationVersion
	if err := again(func() (err error) {
		version, err = api.ConfigurationVersions.Create(ctx, p.id, tfe.ConfigurationVersionCreateOptions{AutoQueueRuns: tfe.Bool(false)})
		return err
	}); err != nil {
		return nil, fmt.Errorf("create a configuration version: %w", err)
	}
	if err := again(func() error {
		err := api.ConfigurationVersions.UploadTarGzip(ctx, version.UploadURL, bytes.NewReader(packed.Bytes()))
		if err == nil {
			return nil
		}
		now, readErr := api.ConfigurationVersions.Read(ctx, version.ID)
		if readErr == nil && now.Status == tfe.ConfigurationUploaded {
			return nil // only the answer was lost
		}
		return err
	}); err != nil {
		return nil, fmt.Errorf("upload a configuration: %w", err)
	}
	var run *tfe.Run
	held := false
	err = again(func() (err error) {
		run, err = api.Runs.Create(ctx, tfe.RunCreateOptions{
			Workspace: &tfe.Workspace{ID: p.id}, ConfigurationVersion: version, AutoApply: &auto, Message: &message,
		})
		if err != nil && s.isHeld(p) {
			held = true // it takes no new runs
			return nil
		}
		return err
	})
	switch {
	case held:
		return nil, errHeld
	case err != nil:
		return nil, fmt.Errorf("create a run: %w", err)
	}
	s.history.add(event{Kind: "run", Run: run.ID, Workspace: p.id, What: message})
	return run, nil
}

// errHeld says that a workspace is held for recovery, and so refuses new runs.
var errHeld = errors.New("the workspace is held for recovery")

func (s *stack) isHeld(p place) bool {
	n, err := s.number("select count(*) from workspace_fences where workspace_id = $1 and recovery_held", p.id)
	return err == nil && n == 1
}

// again repeats a call that fails, for as long as an outage may last.
func again(call func() error) (err error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(500 * time.Millisecond) {
		if err = call(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// confirm says yes to a run as soon as it can be said.
func (s *stack) confirm(api *tfe.Client, run string) error {
	return again(func() error {
		r, err := api.Runs.Read(ctx, run)
		switch {
		case err != nil:
			return err
		case r.Actions != nil && r.Actions.IsConfirmable:
			return api.Runs.Apply(ctx, run, tfe.RunApplyOptions{})
		case r.Status == tfe.RunPending, r.Status == tfe.RunPlanQueued, r.Status == tfe.RunPlanning, r.Status == tfe.RunPlanned, r.Status == "fetching", r.Status == "queuing", r.Status == "plan_queued":
			return errors.New("not yet")
		}
		return nil // it is on its way, or over
	})
}

// stateWriter works like a tofu on somebody's machine: it locks, announces a state, uploads it,
// unlocks, over and over. Which of its states were acknowledged the proxy has seen.
func (s *stack) stateWriter(p place, seed uint64, stop <-chan struct{}) error {
	api, err := s.api(s.proxy.url())
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 77))
	lineage := fmt.Sprintf("%08x-0000-4000-8000-%012x", r.Uint32(), r.Uint64()>>16)
	for serial := int64(1); ; {
		select {
		case <-stop:
			return nil
		case <-time.After(time.Duration(100+r.IntN(900)) * time.Millisecond):
		}
		// The lock is ours also when only the answer was lost: nobody else is here.
		_, _ = api.Workspaces.Lock(ctx, p.id, tfe.WorkspaceLockOptions{Reason: tfe.String("a writer")})
		content := fmt.Sprintf(`{"version":4,"terraform_version":"1.10.0","serial":%d,"lineage":%q,"outputs":{},"resources":[],"check_results":null,"padding":%q}`,
			serial, lineage, strings.Repeat(randomText(61), 1+r.IntN(200)))
		sum := md5.Sum([]byte(content))
		digest := hex.EncodeToString(sum[:])
		_, err := api.StateVersions.Upload(ctx, p.id, tfe.StateVersionUploadOptions{
			StateVersionCreateOptions: tfe.StateVersionCreateOptions{Lineage: &lineage, MD5: &digest, Serial: &serial}, RawState: []byte(content),
		})
		if err == nil {
			serial++
		} else if current, readErr := api.StateVersions.ReadCurrent(ctx, p.id); readErr == nil {
			serial = current.Serial + 1 // the upload may have arrived all the same
		}
		_, _ = api.Workspaces.Unlock(ctx, p.id)
	}
}
