package runner

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

const (
	groupToken   = "group-secret-4711"
	attemptToken = "attempt-secret-0815"

	bootstrapCapability = "bootstrap-secret-4242"
	emergencyCapability = "emergency-secret-1001"
)

// fakeServer speaks the runner protocol and the part of the TFE API that tofu needs
// for state, both in memory, for one attempt.
type fakeServer struct {
	t   *testing.T
	web *httptest.Server

	mu        sync.Mutex
	manifest  wire.Manifest
	variables wire.Variables
	inputs    map[string][]byte
	artifacts map[string][]byte
	log       []byte
	events    []byte   // the log of StreamJSON
	emergency []string // states that tofu could not publish

	jsonLog     bool // accept said that there would be one
	logPosts    int
	calls       []string // method and path, in order, without status polls
	sandbox     string
	accepted    wire.Accept
	polled      wire.Poll
	old         bool // it knows no bootstrap
	offered     bool
	owner       string // the organization of the run
	speculative bool   // its plan is never applied
	stop        bool
	done        *wire.Done
	ended       chan struct{} // closed when the attempt is done
	logged      chan struct{} // has an element when the log grew

	state    []byte // current state, nil for none
	serial   int64
	runOf    string // run named with the last state version
	pending  string
	workOps  []string // lock, unlock
	override func(w http.ResponseWriter, r *http.Request) bool
}

func newFakeServer(t *testing.T, m wire.Manifest, files map[string]string) *fakeServer {
	f := &fakeServer{
		t: t, inputs: map[string][]byte{wire.KindConfiguration: pack(t, files)}, artifacts: map[string][]byte{},
		ended: make(chan struct{}), logged: make(chan struct{}, 1),
	}
	m.AttemptID, m.RunID, m.OrganizationName, m.WorkspaceID, m.WorkspaceName = "att-1", "run-1", "demo", "ws-1", "app"
	if m.Phase == "" {
		m.Phase = "plan"
	}
	if m.TofuVersion == "" {
		m.TofuVersion = testTofu(t).version
	}
	m.Refresh = !m.RefreshOnly
	if m.InterruptSeconds == 0 {
		m.InterruptSeconds = 120 // only a tofu that cannot end takes as long
	}
	f.manifest = m
	f.web = httptest.NewUnstartedServer(f)
	f.web.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that a killed tofu leaves
	f.web.StartTLS()
	t.Cleanup(f.web.Close)
	return f
}

// next makes the server offer another attempt on the same workspace.
func (f *fakeServer) next(phase string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, _ := strconv.Atoi(strings.TrimPrefix(f.manifest.AttemptID, "att-"))
	f.manifest.AttemptID, f.manifest.Phase = fmt.Sprintf("att-%d", n+1), phase
	f.manifest.TofuDigest = testTofu(f.t).digest
	for _, kind := range []string{wire.KindPlan, wire.KindLockFile} {
		if b, ok := f.artifacts[kind]; ok {
			f.inputs[kind] = b
		}
	}
	f.artifacts, f.log, f.events, f.done, f.offered, f.calls = map[string][]byte{}, nil, nil, nil, false, nil
	f.ended = make(chan struct{})
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.override != nil && f.override(w, r) {
		return
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if rest, ok := strings.CutPrefix(r.URL.Path, "/runner/v1/"); ok {
		f.runnerCall(w, r, token, rest)
		return
	}
	f.tfeCall(w, r, token)
}

func (f *fakeServer) runnerCall(w http.ResponseWriter, r *http.Request, token, path string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	part := strings.Split(path, "/")
	verb := part[len(part)-1]
	want := attemptToken
	if verb == "poll" || verb == "ready" || verb == "accept" || r.Method == http.MethodDelete {
		want = groupToken
	}
	switch verb {
	case "bootstrap":
		want = bootstrapCapability
	case "emergency-state":
		want = emergencyCapability
	}
	if token != want {
		problem(w, 401, "unauthenticated", "no valid token")
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if verb != "status" && verb != "logs" && verb != "poll" {
		f.calls = append(f.calls, r.Method+" "+path)
	}
	switch {
	case verb == "emergency-state":
		sum := sha256.Sum256(body)
		if digest := hex.EncodeToString(sum[:]); digest != r.Header.Get(wire.HeaderSHA256) {
			problem(w, 422, "digest_mismatch", digest)
			return
		}
		f.emergency = append(f.emergency, string(body))
		answer(w, 200, wire.EmergencyKept{ID: "es-1", Size: int64(len(body))})
	case part[0] == "attempts" && part[1] != f.manifest.AttemptID: // repeats of an attempt that is done
		w.WriteHeader(204)
	case verb == "poll":
		var poll wire.Poll
		_ = json.Unmarshal(body, &poll)
		f.polled = poll
		if f.offered {
			f.mu.Unlock() // as a long poll would
			select {
			case <-r.Context().Done():
			case <-time.After(50 * time.Millisecond):
			}
			f.mu.Lock()
			w.WriteHeader(204)
			return
		}
		f.offered = true
		answer(w, 200, wire.Assignment{RunnerID: "agent-1", AttemptID: f.manifest.AttemptID, RunID: "run-1", Phase: f.manifest.Phase, ExpiresAt: time.Now().Add(time.Minute), OrganizationID: f.owner})
	case verb == "ready", r.Method == http.MethodDelete:
		w.WriteHeader(204)
	case verb == "accept":
		var accept wire.Accept
		_ = json.Unmarshal(body, &accept)
		f.sandbox, f.jsonLog = accept.SandboxID, accept.JSONLog
		f.manifest.Inputs, f.manifest.Outputs = nil, nil
		f.inputs[wire.KindVariables], _ = json.Marshal(f.variables)
		for kind, content := range f.inputs {
			sum := sha256.Sum256(content)
			f.manifest.Inputs = append(f.manifest.Inputs, wire.Transfer{
				Kind: kind, Method: "proxy", SHA256: hex.EncodeToString(sum[:]), URL: "/runner/v1/attempts/" + f.manifest.AttemptID + "/inputs/" + kind,
			})
		}
		if f.manifest.Phase == "plan" {
			for _, kind := range []string{wire.KindLockFile, wire.KindPlan, wire.KindPlanJSON, wire.KindPlanJSONRedacted, wire.KindCostEstimate} {
				if kind == wire.KindPlan && f.speculative {
					continue
				}
				f.manifest.Outputs = append(f.manifest.Outputs, wire.Transfer{Kind: kind, Method: "proxy", URL: "/runner/v1/attempts/" + f.manifest.AttemptID + "/artifacts/" + kind})
			}
		}
		f.accepted = accept
		if accept.Bootstrap && !f.old {
			answer(w, 200, wire.Session{BootstrapCapability: bootstrapCapability, BootstrapExpiresAt: time.Now().Add(time.Minute)})
			return
		}
		f.answerSession(w)
	case verb == "bootstrap":
		var in wire.Bootstrap
		_ = json.Unmarshal(body, &in)
		if want := (wire.Bootstrap{RunnerID: "agent-1", Phase: f.manifest.Phase, SandboxID: f.sandbox}); in != want {
			problem(w, 403, "capability_mismatch", fmt.Sprintf("%+v is not %+v", in, want))
			return
		}
		f.answerSession(w)
	case verb == "status":
		answer(w, 200, wire.Status{Stop: f.stop, NextPollSeconds: 1})
	case part[2] == "inputs":
		_, _ = w.Write(f.inputs[verb])
	case part[2] == "artifacts":
		if digest := sha256.Sum256(body); r.Header.Get(wire.HeaderSHA256) != hex.EncodeToString(digest[:]) {
			problem(w, 422, "bad_digest", "the bytes differ from the digest")
			return
		}
		f.artifacts[verb] = body
		w.WriteHeader(204)
	case verb == "logs":
		f.logPosts++
		log := &f.log
		if r.Header.Get(wire.HeaderLogStream) == wire.StreamJSON {
			log = &f.events
		}
		offset, _ := strconv.Atoi(r.Header.Get(wire.HeaderOffset))
		if digest := sha256.Sum256(body); r.Header.Get(wire.HeaderSHA256) != hex.EncodeToString(digest[:]) || offset > len(*log) || len(body) > 64<<10 {
			problem(w, 422, "bad_chunk", "the chunk does not fit")
			return
		}
		*log = append((*log)[:offset], body...)
		select {
		case f.logged <- struct{}{}:
		default:
		}
		answer(w, 200, wire.LogPosition{Next: int64(len(*log))})
	case verb == "apply-start":
		var start wire.ApplyStart
		_ = json.Unmarshal(body, &start)
		if start != (wire.ApplyStart{ManifestDigest: "digest-of-the-server", SandboxID: f.sandbox, TofuDigest: testTofu(f.t).digest}) {
			problem(w, 409, "other_authority", "the facts differ")
			return
		}
		answer(w, 200, wire.ApplyStarted{StartedAt: time.Now()})
	case verb == "state-confirmation":
		answer(w, 200, wire.StateConfirmed{StateVersionID: f.pending, SHA256: "sum", Serial: f.serial})
	case verb == "done":
		if f.done == nil {
			close(f.ended)
		}
		f.done = new(wire.Done)
		_ = json.Unmarshal(body, f.done)
		w.WriteHeader(204)
	default:
		problem(w, 404, "not_found", "no such call")
	}
}

// tfeCall is the state API as tofu's cloud backend uses it.
func (f *fakeServer) tfeCall(w http.ResponseWriter, r *http.Request, token string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	path := strings.TrimPrefix(r.URL.Path, "/api/v2/")
	if !strings.HasPrefix(path, "upload/") && token != attemptToken {
		w.WriteHeader(401)
		return
	}
	w.Header().Set("TFP-API-Version", "2.6")
	w.Header().Set("Content-Type", "application/vnd.api+json")
	w.Header().Set("X-Terraform-Snapshot-Interval", "60")
	stateVersion := func(status int) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"data":{"id":"sv-%d","type":"state-versions","attributes":{"serial":%d,"hosted-state-download-url":"%s/api/v2/download","hosted-state-upload-url":"%s/api/v2/upload/raw","hosted-json-state-upload-url":"%s/api/v2/upload/json"}}}`,
			f.serial, f.serial, f.web.URL, f.web.URL, f.web.URL)
	}
	switch {
	case path == "ping":
		w.WriteHeader(204)
	case path == "organizations/demo/entitlement-set":
		fmt.Fprint(w, `{"data":{"id":"demo","type":"entitlement-sets","attributes":{"operations":true,"state-storage":true}}}`)
	case path == "organizations/demo/workspaces/app", strings.HasPrefix(path, "workspaces/ws-1/actions/"):
		if op, ok := strings.CutPrefix(path, "workspaces/ws-1/actions/"); ok {
			f.workOps = append(f.workOps, op)
		}
		fmt.Fprintf(w, `{"data":{"id":"ws-1","type":"workspaces","attributes":{"name":"app","execution-mode":"remote","locked":true,"terraform-version":%q,"permissions":{"can-queue-run":true,"can-queue-apply":true,"can-update":true}}}}`, testTofu(f.t).version)
	case path == "workspaces/ws-1/current-state-version" && f.state == nil:
		w.WriteHeader(404)
		fmt.Fprint(w, `{"errors":[{"status":"404","title":"not found"}]}`)
	case path == "workspaces/ws-1/current-state-version":
		stateVersion(200)
	case path == "download":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(f.state)
	case path == "workspaces/ws-1/state-versions":
		var doc struct {
			Data struct {
				Attributes    struct{ Serial int64 }
				Relationships struct {
					Run struct{ Data struct{ ID string } }
				}
			}
		}
		_ = json.Unmarshal(body, &doc)
		f.serial, f.runOf, f.pending = doc.Data.Attributes.Serial, doc.Data.Relationships.Run.Data.ID, fmt.Sprintf("sv-%d", doc.Data.Attributes.Serial)
		stateVersion(201)
	case path == "upload/raw":
		f.state = body
	case path == "upload/json":
	case strings.HasPrefix(path, "state-versions/"):
		stateVersion(200)
	default:
		w.WriteHeader(404)
	}
}

func (f *fakeServer) answerSession(w http.ResponseWriter) {
	text, _ := json.Marshal(f.manifest)
	answer(w, 200, wire.Session{Token: attemptToken, Manifest: text, ManifestDigest: "digest-of-the-server", ExpiresAt: time.Now().Add(time.Hour),
		EmergencyCapability: emergencyCapability, EmergencyExpiresAt: time.Now().Add(2 * time.Hour)})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func problem(w http.ResponseWriter, status int, code, detail string) {
	answer(w, status, wire.Problem{Code: code, Detail: detail})
}

func (f *fakeServer) logText() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.log)
}

func (f *fakeServer) eventText() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.events)
}

// awaitLog waits until the shipped log contains text.
func (f *fakeServer) awaitLog(text string) {
	f.t.Helper()
	deadline := time.After(patience)
	for !strings.Contains(f.logText(), text) {
		select {
		case <-f.logged:
		case <-deadline:
			require.Failf(f.t, "not in the log", "%q is not in:\n%s", text, f.logText())
		}
	}
}

// config gives the configuration of a runner for this server.
func (f *fakeServer) config() Config {
	dir := f.t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	require.NoError(f.t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.web.Certificate().Raw}), 0o600))
	return Config{Address: f.web.URL, Token: groupToken, Dir: filepath.Join(dir, "runner"), TofuPath: testTofu(f.t).path, Name: "test", CAFile: ca, AllowMetadata: true,
		Isolation: IsolationExternal} // the tests look at processes and files of attempts; enclosure_test.go has the enclosed ones
}

var findTofu = sync.OnceValues(func() (binary, error) {
	path := os.Getenv("HOLDFAST_TEST_TOFU")
	if path == "" {
		path, _ = filepath.Abs("../bin/tofu")
	}
	if _, err := os.Stat(path); err != nil {
		path = ""
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			if info, err := os.Stat(filepath.Join(dir, "tofu")); err == nil && !info.IsDir() && path == "" {
				path = filepath.Join(dir, "tofu")
			}
		}
	}
	if path == "" {
		return binary{}, fmt.Errorf("no tofu: run `make tofu`, or name one with HOLDFAST_TEST_TOFU")
	}
	return inspect(context.Background(), path)
})

func testTofu(t *testing.T) binary {
	t.Helper()
	tofu, err := findTofu()
	if err != nil {
		t.Fatal(err)
	}
	return tofu
}

// pack makes a tar.gz of files.
func pack(t *testing.T, files map[string]string) []byte {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for _, name := range sortedKeys(files) {
		require.NoError(t, archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[name]))}))
		_, err := archive.Write([]byte(files[name]))
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	require.NoError(t, zip.Close())
	return out.Bytes()
}
