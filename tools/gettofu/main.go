package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/opentofu/tofudl"
)

const (
	// connectLimit bounds each step of reaching a server: a closed network is noticed by it.
	connectLimit = 20 * time.Second
	// downloadLimit bounds the whole: a release is about 30 MB.
	downloadLimit = 5 * time.Minute
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gettofu VERSION FILE")
		os.Exit(2)
	}
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt) // until the process ends
	if err := get(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "gettofu:", err)
		os.Exit(1)
	}
}

// get writes the verified tofu of that version to file, whole or not at all.
// Its source is OpenTofu's own, with OpenTofu's signing key, unless options say otherwise.
func get(ctx context.Context, version, file string, options ...tofudl.ConfigOpt) error {
	ctx, cancel := context.WithTimeout(ctx, downloadLimit)
	defer cancel()

	dl, err := tofudl.New(append(options, tofudl.ConfigHTTPClient(impatientClient()))...)
	if err != nil {
		return err
	}
	tofu, err := dl.Download(ctx, tofudl.DownloadOptVersion(tofudl.Version(version)))
	if err != nil {
		return fmt.Errorf("download OpenTofu %s: %w", version, err)
	}
	return writeWhole(file, tofu)
}

// impatientClient gives up on a server that cannot be reached or does not begin to answer.
// Proxies from the environment are honoured.
func impatientClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: connectLimit}).DialContext,
		TLSHandshakeTimeout:   connectLimit,
		ResponseHeaderTimeout: connectLimit,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:     true,
	}}
}

// writeWhole writes an executable beside its final name and then gives it that name.
func writeWhole(file string, content []byte) error {
	part, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = part.Write(content)
	err = errors.Join(err, part.Chmod(0o755), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return nil
}
