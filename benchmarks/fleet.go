package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// pool is an agent pool with a token for its runners.
type pool struct{ id, token string }

// pool makes one, so that the runners of a section and the runner of the stack take
// nothing from each other.
func (b *bench) pool(ctx context.Context, name string) (p pool, err error) {
	d, err := b.api.read(ctx, http.MethodPost, "/api/v2/organizations/"+organization+"/agent-pools",
		fmt.Appendf(nil, `{"data":{"type":"agent-pools","attributes":{"name":%q}}}`, name))
	if err != nil {
		return p, err
	}
	p.id = d.Data.ID
	d, err = b.api.read(ctx, http.MethodPost, "/api/v2/agent-pools/"+p.id+"/authentication-tokens",
		[]byte(`{"data":{"type":"authentication-tokens","attributes":{"description":"benchmarks"}}}`))
	p.token = d.Data.Attributes.Token
	return p, err
}

// subject is a workspace of a pool with an uploaded configuration.
type subject struct {
	*bench
	workspace, configuration string
}

// subject makes one. A runner of the pool has polled before: a run needs somebody who has
// its version of OpenTofu.
func (b *bench) subject(ctx context.Context, p pool, name, configuration string) (s subject, err error) {
	s.bench = b
	d, err := b.api.read(ctx, http.MethodPost, "/api/v2/organizations/"+organization+"/workspaces",
		fmt.Appendf(nil, `{"data":{"type":"workspaces","attributes":{"name":%q,"execution-mode":"agent","agent-pool-id":%q}}}`, name, p.id))
	if err != nil {
		return s, err
	}
	s.workspace = d.Data.ID
	d, err = b.api.read(ctx, http.MethodPost, "/api/v2/workspaces/"+s.workspace+"/configuration-versions",
		[]byte(`{"data":{"type":"configuration-versions","attributes":{"auto-queue-runs":false}}}`))
	if err != nil {
		return s, err
	}
	s.configuration = d.Data.ID
	packed, err := pack(configuration)
	if err != nil {
		return s, err
	}
	_, err = b.api.do(ctx, http.MethodPut, d.Data.Attributes.ConfigurationURL, packed, io.Discard)
	return s, err
}

// run makes a run and gives its id.
func (s subject) run(ctx context.Context, message string, autoApply bool) (string, error) {
	d, err := s.api.read(ctx, http.MethodPost, "/api/v2/runs", fmt.Appendf(nil,
		`{"data":{"type":"runs","attributes":{"message":%q,"auto-apply":%t},"relationships":{"workspace":{"data":{"type":"workspaces","id":%q}},"configuration-version":{"data":{"type":"configuration-versions","id":%q}}}}}`,
		message, autoApply, s.workspace, s.configuration))
	return d.Data.ID, err
}

// pack makes the archive of a configuration of one file.
func pack(configuration string) ([]byte, error) {
	var packed bytes.Buffer
	squeezed := gzip.NewWriter(&packed)
	archive := tar.NewWriter(squeezed)
	if err := archive.WriteHeader(&tar.Header{Name: "main.tf", Mode: 0o600, Size: int64(len(configuration))}); err != nil {
		return nil, err
	}
	_, err := archive.Write([]byte(configuration))
	err = errors.Join(err, archive.Close(), squeezed.Close())
	return packed.Bytes(), err
}

// player speaks the runner protocol as holdfast-runner does, over a connection of its own,
// and executes nothing.
type player struct {
	http        *http.Client
	address, id string
	token       string // of the pool
	version     string // of the tofu that it says it has
}

// players makes some and lets each poll once, so that the server knows them.
func (b *bench) players(ctx context.Context, p pool, count int) ([]*player, error) {
	version, err := clientVersion(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]*player, count)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range all {
		all[i] = &player{http: b.api.client(true), address: b.api.address, id: string(ids.New[ids.Runner]()), token: p.token, version: version}
		group.Go(func() error {
			_, err := all[i].poll(ctx, 0)
			return err
		})
	}
	return all, group.Wait()
}

// dismiss ends the players: their records go, and what they were offered goes back.
func dismiss(ctx context.Context, players []*player) error {
	group, ctx := errgroup.WithContext(context.WithoutCancel(ctx))
	group.SetLimit(8)
	for _, p := range players {
		group.Go(func() error {
			defer p.http.CloseIdleConnections()
			return p.call(ctx, http.MethodDelete, wire.PathDeregister, p.id, p.token, nil, nil)
		})
	}
	return group.Wait()
}

// poll asks for work; nil is an answer without any.
func (p *player) poll(ctx context.Context, wait time.Duration) (*wire.Assignment, error) {
	var work wire.Assignment
	err := p.call(ctx, http.MethodPost, wire.PathPoll, "", p.token, wire.Poll{
		ProtocolVersion: wire.Version, OldestVersion: wire.OldestVersion, RunnerName: "player", RunnerID: p.id,
		WaitSeconds: int(wait / time.Second), TofuVersions: []string{p.version},
	}, &work)
	if err != nil || work.AttemptID == "" {
		return nil, err
	}
	return &work, nil
}

// session is an attempt that a player has accepted.
type session struct {
	*player
	attempt, token string
}

func (p *player) accept(ctx context.Context, work *wire.Assignment) (session, error) {
	if err := p.call(ctx, http.MethodPost, wire.PathReady, p.id, p.token, nil, nil); err != nil {
		return session{}, err
	}
	var opened wire.Session
	err := p.call(ctx, http.MethodPost, wire.PathAccept, work.AttemptID, p.token, wire.Accept{RunnerID: p.id, SandboxID: "sandbox-" + work.AttemptID}, &opened)
	return session{p, work.AttemptID, opened.Token}, err
}

// handOver gives the server the artifacts of a plan.
func (s session) handOver(ctx context.Context) error {
	for _, kind := range []string{wire.KindPlanJSON, wire.KindPlan} {
		path := strings.ReplaceAll(wire.PathArtifact, "{kind}", kind)
		if err := s.call(ctx, http.MethodPut, path, s.attempt, s.token, []byte(`{"format_version":"1.2"}`), nil); err != nil {
			return err
		}
	}
	return nil
}

// done reports a plan that finished without changes, after which the run has succeeded.
func (s session) done(ctx context.Context) error {
	return s.call(ctx, http.MethodPost, wire.PathDone, s.attempt, s.token, wire.Done{
		Outcome: wire.OutcomeFinished, TofuVersion: s.version, TofuDigest: strings.Repeat("0", 64), Plan: &wire.PlanSummary{},
	}, nil)
}

// call makes one call of the protocol. A body of bytes is sent as it is, another as JSON.
func (p *player) call(ctx context.Context, method, path, id, token string, body, into any) error {
	raw, isRaw := body.([]byte)
	if !isRaw && body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, p.address+strings.ReplaceAll(path, "{id}", id), bytes.NewReader(raw))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if isRaw {
		sum := sha256.Sum256(raw)
		r.Header.Set(wire.HeaderSHA256, hex.EncodeToString(sum[:]))
	}
	answer, err := p.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	switch {
	case err != nil:
		return err
	case answer.StatusCode >= 300:
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, said)
	case into == nil || answer.StatusCode == http.StatusNoContent:
		return nil
	}
	return json.Unmarshal(said, into)
}

// timed gives how long a call took.
func timed(call func() error) (time.Duration, error) {
	began := clock.Now()
	err := call()
	return clock.Since(began), err
}
