package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/clock"
)

const memoryTolerance = 32_000_000 // bytes between the peaks at 1 MB and at 100 MB

// states measures states written and read through the API against plain objects of the same
// bytes in the same store, and what the server needs for them in memory.
func states(ctx context.Context, b *bench) error {
	store, err := artifacts.NewS3(artifacts.S3Config{
		Endpoint: os.Getenv("HOLDFAST_S3_ENDPOINT"), Bucket: os.Getenv("HOLDFAST_S3_BUCKET"), Region: os.Getenv("HOLDFAST_S3_REGION"),
		AccessKeyID: os.Getenv("HOLDFAST_S3_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("HOLDFAST_S3_SECRET_ACCESS_KEY"),
	})
	if err != nil {
		return err
	}
	server, err := b.process("server")
	if err != nil {
		return err
	}
	before, err := server.memory()
	if err != nil {
		return err
	}
	b.memory("before", before, "")
	var peaks []int64
	for _, size := range []struct {
		name      string
		bytes     int
		rounds    int
		workspace string
	}{{"1 MB", 1e6, 50, "states-1mb"}, {"100 MB", 100e6, 3, "states-100mb"}} {
		if err := server.forgetPeak(); err != nil {
			return err
		}
		workspace, err := b.api.lockedWorkspace(ctx, size.workspace)
		if err != nil {
			return err
		}
		w := &writer{bench: b, store: store, workspace: workspace}
		for _, kind := range []string{noise, realistic} {
			if err := w.measure(ctx, size.name, kind, size.bytes, size.rounds); err != nil {
				return err
			}
		}
		m, err := server.memory()
		if err != nil {
			return err
		}
		peaks = append(peaks, m.peak)
		goal := ""
		if len(peaks) == 2 {
			goal = b.table.judge("peak ±32 MB of that at 1 MB", max(peaks[1]-peaks[0], peaks[0]-peaks[1]) <= memoryTolerance)
		}
		b.memory("after states of "+size.name, m, goal)
	}
	return b.versionsPage(ctx, server, "states-1mb")
}

func (b *bench) memory(when string, m memory, goal string) {
	b.table.add(row{
		what: "server memory, " + when, n: 1, value: megabytes(m.now), spread: "peak " + megabytes(m.peak), goal: goal,
		command: "grep -E 'VmRSS|VmHWM' /proc/PID/status",
	})
}

// writer writes states into one workspace.
type writer struct {
	*bench
	store     *artifacts.S3
	workspace string
	serial    int
}

// times are those of one kind of state.
type times struct{ create, announce, upload, download, put, get sample }

// measure writes and reads states and plain objects in turns.
func (w *writer) measure(ctx context.Context, name, kind string, size, rounds int) error {
	body := newStateBody(kind, size)
	var t times
	for round := range rounds {
		w.serial++
		sum := body.number(w.serial)
		steps := []func() error{
			func() error { return w.create(ctx, body, sum, &t) },
			func() error { return w.plain(ctx, fmt.Sprintf("benchmarks/%s-%d", kind, w.serial), body, &t) },
		}
		for i := range steps {
			if err := steps[(i+round)%2](); err != nil {
				return err
			}
		}
	}
	what := "state of " + name + ", " + kind
	create, put := t.create.median(), t.put.median()
	rates := fmt.Sprintf("%.2f × the rate of plain puts", ratio(put, create))
	goal := ""
	if size < 10e6 {
		goal = w.table.judge(kind+" creates ≥ 0.6 × plain puts", ratio(put, create) >= 0.6)
	}
	w.table.time(what+": plain put", "PutObject", t.put, perSecond(t.put), "")
	w.table.time(what+": create", "POST state-versions; PUT hosted-state-upload-url; GET state-versions/ID", t.create, rates+", "+perSecond(t.create), goal)
	w.table.time("  of it POST", "POST workspaces/ID/state-versions", t.announce, "", "")
	w.table.time("  of it PUT", "PUT hosted-state-upload-url", t.upload, "", "")
	w.table.time(what+": plain get", "GetObject", t.get, perSecond(t.get), "")
	w.table.time(what+": download", "GET current-state-version; GET hosted-state-download-url", t.download,
		fmt.Sprintf("%.2f × the rate of plain gets, %s", ratio(t.get.median(), t.download.median()), perSecond(t.download)), "")
	return nil
}

func perSecond(s sample) string { return fmt.Sprintf("%.1f/s", 1/s.median().Seconds()) }

// create writes a state as tofu does, then reads it back.
func (w *writer) create(ctx context.Context, body *stateBody, sum string, t *times) error {
	began := clock.Now()
	version, err := w.api.read(ctx, http.MethodPost, "/api/v2/workspaces/"+w.workspace+"/state-versions", fmt.Appendf(nil,
		`{"data":{"type":"state-versions","attributes":{"serial":%d,"lineage":"bench","md5":%q,"force":false}}}`, w.serial, sum))
	if err != nil {
		return err
	}
	announced := clock.Now()
	if _, err := w.api.do(ctx, http.MethodPut, version.Data.Attributes.UploadURL, body.content, io.Discard); err != nil {
		return err
	}
	uploaded := clock.Now()
	if _, err := w.api.do(ctx, http.MethodGet, "/api/v2/state-versions/"+version.Data.ID, nil, io.Discard); err != nil {
		return err
	}
	t.create = append(t.create, clock.Since(began))
	t.announce = append(t.announce, announced.Sub(began))
	t.upload = append(t.upload, uploaded.Sub(announced))

	began = clock.Now()
	current, err := w.api.read(ctx, http.MethodGet, "/api/v2/workspaces/"+w.workspace+"/current-state-version", nil)
	if err != nil {
		return err
	}
	n, err := w.api.do(ctx, http.MethodGet, current.Data.Attributes.DownloadURL, nil, io.Discard)
	t.download = append(t.download, clock.Since(began))
	return whole(n, body, err)
}

// plain puts and gets the same bytes without Holdfast.
func (w *writer) plain(ctx context.Context, key string, body *stateBody, t *times) error {
	began := clock.Now()
	if err := w.store.Put(ctx, key, bytes.NewReader(body.content)); err != nil {
		return err
	}
	t.put = append(t.put, clock.Since(began))
	began = clock.Now()
	object, err := w.store.Get(ctx, key)
	if err != nil {
		return err
	}
	defer object.Close()
	n, err := io.Copy(io.Discard, object)
	t.get = append(t.get, clock.Since(began))
	return whole(n, body, err)
}

func whole(n int64, body *stateBody, err error) error {
	if err == nil && n != int64(len(body.content)) {
		err = fmt.Errorf("%d bytes came back of %d", n, len(body.content))
	}
	return err
}

// versionsPage measures the listing of 100 versions, whose bytes it has no need of.
func (b *bench) versionsPage(ctx context.Context, server process, workspace string) error {
	const rounds = 5
	store, err := b.process("s3")
	if err != nil {
		return err
	}
	if err := server.forgetPeak(); err != nil {
		return err
	}
	read, err := store.bytesRead()
	if err != nil {
		return err
	}
	var took sample
	var size int64
	for range rounds {
		began := clock.Now()
		if size, err = b.api.do(ctx, http.MethodGet, pageOfVersions(workspace), nil, io.Discard); err != nil {
			return err
		}
		took = append(took, clock.Since(began))
	}
	now, err := store.bytesRead()
	if err != nil {
		return err
	}
	m, err := server.memory()
	if err != nil {
		return err
	}
	const command = "GET state-versions?page[size]=100"
	b.table.time("page of 100 versions of 1 MB", command, took, fmt.Sprintf("an answer of %d kB", size/1000), "")
	b.table.add(row{
		what: "  what the store read for it", n: rounds, value: megabytes((now - read) / rounds),
		goal: b.table.judge("a page of versions never touches their bytes", (now-read)/rounds < 100_000), command: "grep rchar /proc/PID/io (of the store)",
	})
	b.memory("while they are listed", m, "")
	return nil
}

func pageOfVersions(workspace string) string {
	return "/api/v2/state-versions?filter%5Borganization%5D%5Bname%5D=" + organization +
		"&filter%5Bworkspace%5D%5Bname%5D=" + workspace + "&page%5Bsize%5D=100"
}
