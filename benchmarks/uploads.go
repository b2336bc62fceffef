package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-run/holdfast/clock"
)

const (
	uploadsAtOnce = 8
	uploadSize    = 90_000_000  // bytes of each
	uploadMemory  = 100_000_000 // bytes that they may cost together (PL-07)
)

// uploads measures what the server needs in memory for large uploads that come at once.
func uploads(ctx context.Context, b *bench) error {
	archive, err := bulkArchive(uploadSize)
	if err != nil {
		return err
	}
	state := newStateBody(realistic, uploadSize)
	sum := state.number(1)
	var configurations, states []string
	for i := range uploadsAtOnce {
		workspace, err := b.api.lockedWorkspace(ctx, fmt.Sprintf("uploads-%d", i))
		if err != nil {
			return err
		}
		cv, err := b.api.read(ctx, http.MethodPost, "/api/v2/workspaces/"+workspace+"/configuration-versions",
			[]byte(`{"data":{"type":"configuration-versions","attributes":{"auto-queue-runs":false}}}`))
		if err != nil {
			return err
		}
		version, err := b.api.read(ctx, http.MethodPost, "/api/v2/workspaces/"+workspace+"/state-versions", fmt.Appendf(nil,
			`{"data":{"type":"state-versions","attributes":{"serial":1,"lineage":"bench","md5":%q,"force":false}}}`, sum))
		if err != nil {
			return err
		}
		configurations = append(configurations, cv.Data.Attributes.ConfigurationURL)
		states = append(states, version.Data.Attributes.UploadURL)
	}
	if err := b.uploadAtOnce(ctx, "configurations", configurations, archive); err != nil {
		return err
	}
	return b.uploadAtOnce(ctx, "states", states, state.content)
}

// uploadAtOnce puts the same bytes to all the addresses at once.
func (b *bench) uploadAtOnce(ctx context.Context, what string, addresses []string, content []byte) error {
	server, err := b.process("server")
	if err != nil {
		return err
	}
	if err := server.forgetPeak(); err != nil {
		return err
	}
	before, err := server.memory()
	if err != nil {
		return err
	}
	began := clock.Now()
	all, ctx := errgroup.WithContext(ctx)
	for _, address := range addresses {
		all.Go(func() error {
			_, err := b.api.do(ctx, http.MethodPut, address, content, io.Discard)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	took := clock.Since(began)
	after, err := server.memory()
	if err != nil {
		return err
	}
	b.table.time(fmt.Sprintf("%d %s of 90 MB at once", len(addresses), what), "PUT to each upload address", sample{took},
		fmt.Sprintf("%.0f MB/s", float64(len(addresses)*len(content))/1e6/took.Seconds()), "")
	b.memory("growth of the peak by "+what, memory{now: after.now - before.now, peak: after.peak - before.peak},
		b.table.judge(what+" at once cost < 100 MB (PL-07)", after.peak-before.peak < uploadMemory))
	return nil
}

// bulkArchive is a configuration of a file of this many bytes that nothing compresses.
func bulkArchive(size int64) ([]byte, error) {
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.NoCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(zip)
	if err := archive.WriteHeader(&tar.Header{Name: "bulk", Mode: 0o644, Size: size}); err != nil {
		return nil, err
	}
	if _, err := io.CopyN(archive, rand.NewChaCha8([32]byte{}), size); err != nil {
		return nil, err
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
