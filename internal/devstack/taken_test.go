//go:build linux

package devstack

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
)

// Between the choice of a port and its use somebody else may take it.
func TestAPortThatIsTakenMeanwhile(t *testing.T) {
	programs := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(programs, "holdfast")))
	for _, name := range []string{"holdfast-runner", "tofu"} {
		require.NoError(t, os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755))
	}
	run := func(listen string) (addresses []string, said string, code int, err error) {
		output, err := os.Create(filepath.Join(t.TempDir(), "output"))
		require.NoError(t, err)
		defer output.Close()
		code, err = Run(t.Context(), Options{
			Dir: filepath.Join(t.TempDir(), "data"), Listen: listen, Command: []string{"sh", "-c", `echo "$TFE_ADDRESS"`},
			Executable: filepath.Join(programs, "holdfast"), Environ: os.Environ(), Stdin: os.Stdin, Stdout: output, Stderr: os.Stderr,
			Bootstrap: func(_ context.Context, env map[string]string, _ Credentials) (Credentials, error) {
				addresses = append(addresses, env["HOLDFAST_LISTEN"])
				if len(addresses) == 1 {
					thief, err := net.Listen("tcp", env["HOLDFAST_LISTEN"])
					require.NoError(t, err)
					t.Cleanup(func() { _ = thief.Close() })
				}
				return Credentials{UserToken: "u", AdminPassword: "p", AdminTOTP: "t", RunnerToken: "r"}, nil
			},
			RunnerConnected: func(context.Context, map[string]string) error { return nil },
		})
		content, readErr := os.ReadFile(output.Name())
		require.NoError(t, readErr)
		return addresses, string(content), code, err
	}

	addresses, said, code, err := run("")
	require.NoError(t, err)
	assert.Zero(t, code)
	require.Len(t, addresses, 2)
	assert.NotEqual(t, addresses[0], addresses[1])
	_, port, err := net.SplitHostPort(addresses[1])
	require.NoError(t, err)
	assert.Equal(t, "https://localhost:"+port+"\n", said)

	free, err := choosePorts(filepath.Join(t.TempDir(), "ports"), "server")
	require.NoError(t, err)
	addresses, _, code, err = run(net.JoinHostPort("127.0.0.1", strconv.Itoa(free["server"])))
	assert.Equal(t, 1, code)
	assert.Len(t, addresses, 1, "an address that was asked for is not exchanged")
	assert.True(t, fault.HasCode(err, "service_failed") || fault.HasCode(err, "listen_address"), "%v", err)
}
