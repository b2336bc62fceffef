//go:build !nodev

package main

import (
	"context"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"

	"github.com/holdfast-run/holdfast/fault"
)

// devS3Cmd serves one bucket from a folder, for `holdfast dev` alone. Its key pair comes by
// the environment, because arguments can be read by everybody on the machine.
type devS3Cmd struct {
	Dir    string `required:"" type:"path" help:"Folder of the objects."`
	Listen string `required:"" help:"Address on 127.0.0.1."`
	Bucket string `required:"" help:"The bucket, made when missing."`
}

// Run serves until SIGINT or SIGTERM.
func (c devS3Cmd) Run(ctx context.Context) error {
	host, _, err := net.SplitHostPort(c.Listen)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return fault.New(fault.Invalid, "listen_address", "The S3 endpoint listens on loopback only, not on %q. Give 127.0.0.1:PORT.", c.Listen)
	}
	id, secret := os.Getenv("HOLDFAST_S3_ACCESS_KEY_ID"), os.Getenv("HOLDFAST_S3_SECRET_ACCESS_KEY")
	if id == "" || secret == "" {
		return fault.New(fault.Invalid, "s3_credentials", "Set HOLDFAST_S3_ACCESS_KEY_ID and HOLDFAST_S3_SECRET_ACCESS_KEY.")
	}
	objects, metadata := filepath.Join(c.Dir, "objects"), filepath.Join(c.Dir, "metadata")
	if err := os.MkdirAll(filepath.Join(objects, c.Bucket), 0o700); err != nil { // a folder is a bucket
		return err
	}
	storer, err := metadataStorer(objects, metadata)
	if err != nil {
		return err
	}
	opts := posix.PosixOpts{
		CopyObjectThreshold: 5 << 30, // S3's own limit; the zero value refuses every copy
		ValidateBucketNames: true,
	}
	opts.SetNewDirPerm(0o700)
	opts.SetNewFilePerm(0o600)
	if _, ok := storer.(meta.SideCar); ok {
		opts.SideCarDir = metadata
	}
	backend, err := posix.New(objects, storer, opts)
	if err != nil {
		return err
	}

	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return embedgw.RunVersityGW(ctx, backend, &embedgw.Config{
		RootUserAccess: id, RootUserSecret: secret, Region: "us-east-1",
		Ports: []string{c.Listen}, MaxConnections: 1024, MaxRequests: 1024, MultipartMaxParts: 10000,
		HealthPath: "/healthz", Quiet: true, KeepAlive: true,
	})
}

// metadataStorer keeps metadata in extended attributes where the file system has them, else
// in a folder of its own. A store that began with the folder stays with it.
func metadataStorer(objects, metadata string) (meta.MetadataStorer, error) {
	if _, err := os.Stat(metadata); os.IsNotExist(err) && (meta.XattrMeta{}).Test(objects) == nil {
		return meta.XattrMeta{}, nil
	}
	if err := os.MkdirAll(metadata, 0o700); err != nil {
		return nil, err
	}
	return meta.NewSideCar(metadata)
}
