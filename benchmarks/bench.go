package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-run/holdfast/benchmarks/instant"
)

// organization is the one that `holdfast dev` makes.
const organization = "demo"

// bench is what the sections share.
type bench struct {
	table   table
	long    bool
	data    string // the folder of the stack
	work    string // ours
	environ []string
	floor   *instant.Server
	api     *api
	folders int // made so far; part of their names

	floorPlan, floorApply sample // filled by the section trivial, or when they are asked for
}

// newBench looks at the stack around this process and starts the server of the floor.
func newBench(ctx context.Context, long bool) (*bench, error) {
	b := &bench{long: long, data: os.Getenv("HOLDFAST_DATA")}
	if b.data == "" {
		return nil, errors.New("HOLDFAST_DATA is not set: run this as `holdfast dev -- PROGRAM`, or with make bench")
	}
	var err error
	if b.work, err = os.MkdirTemp("", "holdfast-bench-"); err != nil {
		return nil, err
	}
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "TF_") && !strings.HasPrefix(entry, "TFE_") && !strings.HasPrefix(entry, "HOLDFAST_") {
			b.environ = append(b.environ, entry)
		}
	}
	version, err := clientVersion(ctx)
	if err != nil {
		b.close()
		return nil, err
	}
	b.floor = instant.Start(version)
	if err := b.trust(); err != nil {
		b.close()
		return nil, err
	}
	b.api, err = newAPI(os.Getenv("TFE_ADDRESS"), os.Getenv("TFE_TOKEN"), os.Getenv("SSL_CERT_FILE"))
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) close() {
	if b.floor != nil {
		b.floor.Close()
	}
	_ = os.RemoveAll(b.work) // a temporary folder
}

// trust gives tofu one configuration for both servers, so that none is the slower for its
// certificate or its credentials.
func (b *bench) trust() error {
	bundle, err := os.ReadFile(os.Getenv("SSL_CERT_FILE"))
	if err != nil {
		return err
	}
	cli, err := os.ReadFile(os.Getenv("TF_CLI_CONFIG_FILE"))
	if err != nil {
		return err
	}
	certificates, configuration := filepath.Join(b.work, "bundle.pem"), filepath.Join(b.work, "tofu.rc")
	cli = fmt.Appendf(cli, "credentials %q {\n  token = \"none\"\n}\n", b.floor.Host())
	if err := errors.Join(
		os.WriteFile(certificates, append(bundle, b.floor.CertificatePEM()...), 0o600),
		os.WriteFile(configuration, cli, 0o600),
	); err != nil {
		return err
	}
	b.environ = append(b.environ, "SSL_CERT_FILE="+certificates, "TF_CLI_CONFIG_FILE="+configuration,
		"TF_CLI_ARGS=-no-color", "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1")
	return nil
}

func clientVersion(ctx context.Context) (string, error) {
	said, err := exec.CommandContext(ctx, "tofu", "version", "-json").Output()
	if err != nil {
		return "", fmt.Errorf("ask tofu for its version: %w", err)
	}
	var answer struct {
		Version string `json:"terraform_version"`
	}
	if err := json.Unmarshal(said, &answer); err != nil {
		return "", err
	}
	version, _, _ := strings.Cut(answer.Version, "-") // a workspace names releases
	return version, nil
}
