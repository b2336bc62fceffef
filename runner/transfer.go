package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// find gives the transfer of a kind.
func find(transfers []wire.Transfer, kind string) (wire.Transfer, bool) {
	for _, t := range transfers {
		if t.Kind == kind {
			return t, true
		}
	}
	return wire.Transfer{}, false
}

// checkTransfer refuses what this version of the runner cannot move.
func checkTransfer(t wire.Transfer) error {
	if t.Method != "proxy" || !strings.HasPrefix(t.URL, "/") {
		return fmt.Errorf("the server wants %q moved by %q, which this runner does not know; update the runner", t.Kind, t.Method)
	}
	return nil
}

// download gets an input into a new file at path and checks its digest where the
// server named one.
func (a *attempt) download(ctx context.Context, kind, path string) error {
	t, ok := find(a.manifest.Inputs, kind)
	if !ok {
		return fmt.Errorf("the server named no input %q", kind)
	}
	if err := checkTransfer(t); err != nil {
		return err
	}
	err := a.server.do(ctx, request{method: http.MethodGet, path: t.URL, token: a.session.Token, limit: moveLimit}, func(resp *http.Response) error {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		hash := sha256.New()
		if _, err := io.Copy(io.MultiWriter(file, hash), resp.Body); err != nil {
			return err
		}
		if sum := hex.EncodeToString(hash.Sum(nil)); t.SHA256 != "" && sum != t.SHA256 {
			return fmt.Errorf("the input %q has the SHA-256 %s, the manifest says %s%w", kind, sum, t.SHA256, errFinal)
		}
		return file.Close()
	})
	if err != nil {
		return fmt.Errorf("get the input %q: %w", kind, err)
	}
	return nil
}

// upload puts the file at path as an artifact, if the manifest wants that kind.
func (a *attempt) upload(ctx context.Context, kind, path string) error {
	t, ok := find(a.manifest.Outputs, kind)
	if !ok {
		return nil
	}
	if err := checkTransfer(t); err != nil {
		return err
	}
	digest, err := digestOf(path)
	if err != nil {
		return err
	}
	err = a.server.do(ctx, request{
		method: http.MethodPut, path: t.URL, token: a.session.Token, limit: moveLimit,
		header: map[string]string{wire.HeaderSHA256: digest, "Content-Type": "application/octet-stream"},
		body: func() (io.ReadCloser, int64, error) {
			file, err := os.Open(path)
			if err != nil {
				return nil, 0, err
			}
			info, err := file.Stat()
			if err != nil {
				_ = file.Close()
				return nil, 0, err
			}
			return file, info.Size(), nil
		},
	}, nil)
	if err != nil {
		return fmt.Errorf("hand over the artifact %q: %w", kind, err)
	}
	return nil
}

// digestOf gives the SHA-256 of a file, hex.
func digestOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
