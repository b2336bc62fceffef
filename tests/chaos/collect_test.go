package chaos

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-tfe"
)

// collect gathers what has become of the workspaces, after everything is mended: rows from the
// database, and the bytes of all states as the servers give them out.
func (s *stack) collect(places []place) (o outcome, err error) {
	api, err := s.api(s.proxy.calm())
	if err != nil {
		return o, err
	}
	for _, p := range places {
		e, err := s.endOf(api, p)
		if err != nil {
			return o, fmt.Errorf("workspace %s: %w", p.name, err)
		}
		o.places = append(o.places, e)
	}
	s.history.mu.Lock()
	o.history = append(o.history, s.history.events...)
	s.history.mu.Unlock()
	o.leaks, err = s.leaks(places)
	return o, err
}

func (s *stack) endOf(api *tfe.Client, p place) (e end, err error) {
	e = end{id: p.id, name: p.name}
	type fence struct {
		Occupied, Held bool
		Current        string
	}
	fences, err := query[fence](s, `select f.holder_kind is not null as occupied, f.recovery_held as held, coalesce(c.state_version_id, '') as current
		from workspace_fences f left join current_states c on c.workspace_id = f.workspace_id where f.workspace_id = $1`, p.id)
	if err != nil || len(fences) != 1 {
		return e, errors.Join(err, fmt.Errorf("%d fences", len(fences)))
	}
	e.occupied, e.held, e.current = fences[0].Occupied, fences[0].Held, fences[0].Current
	if err := s.runsOf(&e); err != nil {
		return e, err
	}
	if err := s.statesOf(api, &e); err != nil {
		return e, err
	}
	e.ledger, err = readLedger(p.ledger)
	return e, err
}

func (s *stack) runsOf(e *end) error {
	type row struct {
		ID, Status, Reason string
		Sequence, Epoch    int64
		PlanOnly, Released bool
		Starts             int
		Admitted, Finished *time.Time
		GaveBack           *time.Time
	}
	rows, err := query[row](s, `select r.id, r.durable_status as status, r.durable_reason as reason, r.queue_seq as sequence, coalesce(r.fence_epoch, 0) as epoch,
		r.plan_only, r.fence_released_at is not null as released, r.admitted_at as admitted, r.finished_at as finished, r.fence_released_at as gave_back,
		(select count(*) from attempts a where a.run_id = r.id and a.apply_started_at is not null) as starts
		from runs r where r.workspace_id = $1 order by r.queue_seq`, e.id)
	at := func(t *time.Time) time.Time {
		if t == nil {
			return time.Time{}
		}
		return *t
	}
	for _, r := range rows {
		e.runs = append(e.runs, ran{
			id: r.ID, status: r.Status, reason: r.Reason, sequence: r.Sequence, planOnly: r.PlanOnly, released: r.Released, epoch: r.Epoch,
			applyStarts: r.Starts, admitted: at(r.Admitted), finished: at(r.Finished), gaveBack: at(r.GaveBack),
		})
	}
	return err
}

func (s *stack) statesOf(api *tfe.Client, e *end) error {
	type row struct {
		ID, Base, Lineage string
		Serial, Epoch     int64
	}
	rows, err := query[row](s, `select id, coalesce(base_version_id, '') as base, lineage, serial, epoch from state_versions
		where workspace_id = $1 and status = 'finalized' order by serial`, e.id)
	if err != nil {
		return err
	}
	for _, r := range rows {
		read, err := api.StateVersions.Read(ctx, r.ID)
		if err != nil {
			return fmt.Errorf("read state %s: %w", r.ID, err)
		}
		content, err := api.StateVersions.Download(ctx, read.DownloadURL)
		if err != nil {
			return fmt.Errorf("download state %s: %w", r.ID, err)
		}
		sum := sha256.Sum256(content)
		e.versions = append(e.versions, version{id: r.ID, base: r.Base, lineage: r.Lineage, serial: r.Serial, epoch: r.Epoch, sha256: hex.EncodeToString(sum[:])})
		if r.ID == e.current {
			if e.objects, err = objectsIn(content); err != nil {
				return err
			}
		}
	}
	return nil
}

// objectsIn lists the ids of the provider's objects in a state.
func objectsIn(content []byte) (ids []string, err error) {
	var state struct {
		Resources []struct {
			Mode      string
			Instances []struct{ Attributes struct{ ID string } }
		}
	}
	if err := json.Unmarshal(content, &state); err != nil {
		return nil, err
	}
	for _, r := range state.Resources {
		for _, instance := range r.Instances {
			if r.Mode == "managed" {
				ids = append(ids, instance.Attributes.ID)
			}
		}
	}
	return ids, nil
}

// readLedger reads what a provider did. A process that was killed while it wrote leaves no half
// line: a line is one write.
func readLedger(file string) (deeds []deed, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range bytes.Lines(text) {
		var d deed
		if err := json.Unmarshal(line, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		deeds = append(deeds, d)
	}
	return deeds, err
}

// leaks looks for everything secret in the logs of all processes, and in those of the runs.
func (s *stack) leaks(places []place) (found []string, err error) {
	secrets := s.history.allSecrets()
	for _, name := range []string{"TFE_TOKEN", "HOLDFAST_S3_SECRET_ACCESS_KEY"} {
		secrets[s.environ[name]] = name
	}
	runnerToken, err := os.ReadFile(s.tokenFile())
	if err != nil {
		return nil, err
	}
	secrets[strings.TrimSpace(string(runnerToken))] = "the runner group's token"
	files, err := filepath.Glob(s.logFile("*"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found = append(found, secretsIn(filepath.Base(file), text, secrets)...)
	}
	for _, p := range places {
		logs, err := s.runLogs(p)
		if err != nil {
			return nil, err
		}
		found = append(found, secretsIn("runs of "+p.name, logs, secrets)...)
	}
	return found, nil
}

func secretsIn(where string, text []byte, secrets map[string]string) (found []string) {
	for secret, what := range secrets {
		if secret != "" && bytes.Contains(text, []byte(secret)) {
			found = append(found, where+": "+what)
		}
	}
	return found
}

// runLogs are the logs of all plans and applies of a workspace, as people read them.
func (s *stack) runLogs(p place) ([]byte, error) {
	api, err := s.api(s.proxy.calm())
	if err != nil {
		return nil, err
	}
	list, err := api.Runs.List(ctx, p.id, &tfe.RunListOptions{ListOptions: tfe.ListOptions{PageSize: 100}})
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	for _, r := range list.Items {
		plan, err := api.Plans.Read(ctx, r.Plan.ID)
		if err != nil {
			return nil, err
		}
		apply, err := api.Applies.Read(ctx, r.Apply.ID)
		if err != nil {
			return nil, err
		}
		for _, link := range []string{plan.LogReadURL, apply.LogReadURL} {
			if err := s.readLog(&all, link); err != nil {
				return nil, err
			}
		}
	}
	return all.Bytes(), nil
}

// readLog reads a log in both its forms, through the calm door.
func (s *stack) readLog(into io.Writer, link string) error {
	link = strings.Replace(link, s.proxy.url(), s.proxy.calm(), 1)
	for _, form := range []map[string]string{{}, {"X-Terraform-Integration": "cloud"}} {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, link+"?limit=10000000", nil)
		if err != nil {
			return err
		}
		for name, value := range form {
			request.Header.Set(name, value)
		}
		response, err := s.client(time.Minute).Do(request)
		if err != nil {
			return err
		}
		_, err = io.Copy(into, response.Body)
		_ = response.Body.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
