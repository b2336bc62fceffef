package recovery

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/tests/stack"
)

// reply is an answer; the status is 0 when none came.
type reply struct {
	status int
	body   []byte
}

type resource struct {
	ID         string
	Attributes map[string]any
}

// one gives the answer's resource, after its status was compared.
func (r reply) one(t *testing.T, status int) resource {
	t.Helper()
	require.Equal(t, status, r.status, "%s", r.body)
	var document struct{ Data resource }
	require.NoError(t, json.Unmarshal(r.body, &document))
	return document.Data
}

func (r reply) id(t *testing.T, status int) string { t.Helper(); return r.one(t, status).ID }

// refusal demands an error of that status and code, and gives its text.
func (r reply) refusal(t *testing.T, status int, code string) string {
	t.Helper()
	require.Equal(t, status, r.status, "%s", r.body)
	var document struct {
		Errors []struct{ Code, Detail string }
	}
	require.NoError(t, json.Unmarshal(r.body, &document))
	require.Equal(t, code, document.Errors[0].Code, "%s", r.body)
	return document.Errors[0].Detail
}

// ask sends one request, once, as the site admin.
func (p *plant) ask(server, method, address string, body []byte) reply {
	p.Helper()
	if strings.HasPrefix(address, "/") {
		address = server + address
	}
	request, err := http.NewRequestWithContext(p.Context(), method, address, bytes.NewReader(body))
	require.NoError(p, err)
	request.Header.Set("Content-Type", "application/vnd.api+json")
	if !strings.Contains(address, "/links/") { // those carry their own permission
		request.Header.Set("Authorization", "Bearer "+shared.Token())
	}
	response, err := shared.HTTP.Do(request)
	if err != nil {
		return reply{}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return reply{}
	}
	return reply{response.StatusCode, text}
}

// call sends attributes to the shared server. What is made is of the type that its address ends in.
func (p *plant) call(method, address string, attributes map[string]any) reply {
	p.Helper()
	text, err := json.Marshal(map[string]any{"data": map[string]any{"type": path.Base(address), "attributes": attributes}})
	require.NoError(p, err)
	return p.ask(shared.Address(), method, address, text)
}

// document is the body of an action with those attributes.
func document(attributes map[string]any) []byte {
	text, err := json.Marshal(map[string]any{"data": map[string]any{"attributes": attributes}})
	if err != nil {
		panic(err) // texts and truths
	}
	return text
}

func (p *plant) read(address string) resource {
	p.Helper()
	return p.ask(shared.Address(), "GET", address, nil).one(p.T, 200)
}

// start queues a run of the configuration.
func (p *plant) start(configuration string, attributes map[string]any) (run string) {
	p.Helper()
	p.awaitRunner()
	version := p.call("POST", "/api/v2/workspaces/"+p.workspace+"/configuration-versions", map[string]any{"auto-queue-runs": false}).one(p.T, 201)
	require.Equal(p, 200, p.ask("", "PUT", version.Attributes["upload-url"].(string), packed(p.T, p.configuration(configuration))).status)
	related := func(kind, id string) any { return map[string]any{"data": map[string]any{"type": kind, "id": id}} }
	text, err := json.Marshal(map[string]any{"data": map[string]any{"type": "runs", "attributes": attributes, "relationships": map[string]any{
		"workspace": related("workspaces", p.workspace), "configuration-version": related("configuration-versions", version.ID),
	}}})
	require.NoError(p, err)
	return p.ask(shared.Address(), "POST", "/api/v2/runs", text).id(p.T, 201)
}

// apply queues a run that applies by itself.
func (p *plant) apply(configuration string) (run string) {
	p.Helper()
	return p.start(configuration, map[string]any{"auto-apply": true})
}

// over are the durable statuses that a run does not leave by itself.
var over = []string{"succeeded", "plan_failed", "policy_failed", "rejected", "canceled", "needs_recovery", "apply_failed", "apply_start_uncertain", "apply_interrupted"}

// ended waits for the end of a run and gives its attributes.
func (p *plant) ended(run string) (attributes map[string]any) {
	p.Helper()
	eventually(p.T, "the end of "+run, func() bool {
		attributes = p.read("/api/v2/runs/" + run).Attributes
		for _, status := range over {
			if attributes["durable-status"] == status {
				return true
			}
		}
		return false
	})
	return attributes
}

// held waits until a run has ended in that status and holds the workspace.
func (p *plant) held(run, status string) {
	p.Helper()
	attributes := p.ended(run)
	require.Equal(p, status, attributes["durable-status"], attributes["status-message"])
	require.Equal(p, true, p.read("/api/v2/workspaces/" + p.workspace).Attributes["recovery-held"], attributes["status-message"])
}

// planned plans the configuration and gives what tofu would do: name → actions. It is
// empty when everything is as the configuration says.
func (p *plant) planned(configuration string) map[string]string {
	p.Helper()
	run := p.start(configuration, map[string]any{"plan-only": true})
	attributes := p.ended(run)
	require.Equal(p, "succeeded", attributes["durable-status"], attributes["status-message"])
	var document struct {
		Data struct {
			Relationships struct {
				Plan struct{ Data struct{ ID string } }
			}
		}
	}
	require.NoError(p, json.Unmarshal(p.ask(shared.Address(), "GET", "/api/v2/runs/"+run, nil).body, &document))
	var plan struct {
		Changes []struct {
			Name   string
			Change struct{ Actions []string }
		} `json:"resource_changes"`
	}
	answer := p.ask(shared.Address(), "GET", "/api/v2/plans/"+document.Data.Relationships.Plan.Data.ID+"/json-output", nil)
	require.Equal(p, 200, answer.status, "%s", answer.body)
	require.NoError(p, json.Unmarshal(answer.body, &plan))
	changes := map[string]string{}
	for _, c := range plan.Changes {
		if what := strings.Join(c.Change.Actions, " "); what != "no-op" {
			changes[c.Name] = what
		}
	}
	return changes
}

// applyLog gives what tofu has printed so far.
func (p *plant) applyLog(run string) string {
	p.Helper()
	var document struct {
		Data struct {
			Relationships struct {
				Apply struct{ Data struct{ ID string } }
			}
		}
	}
	require.NoError(p, json.Unmarshal(p.ask(shared.Address(), "GET", "/api/v2/runs/"+run, nil).body, &document))
	link := p.read("/api/v2/applies/" + document.Data.Relationships.Apply.Data.ID).Attributes["log-read-url"].(string)
	return string(p.ask("", "GET", link, nil).body)
}

// known gives what the current state holds: name → id.
func (p *plant) known() map[string]string {
	p.Helper()
	found := map[string]string{}
	answer := p.ask(shared.Address(), "GET", "/api/v2/workspaces/"+p.workspace+"/current-state-version", nil)
	if answer.status == 404 {
		return found
	}
	link := answer.one(p.T, 200).Attributes["hosted-state-download-url"].(string)
	var file struct {
		Resources []struct {
			Name      string
			Instances []struct{ Attributes struct{ ID string } }
		}
	}
	require.NoError(p, json.Unmarshal(p.ask("", "GET", link, nil).body, &file))
	for _, r := range file.Resources {
		for _, i := range r.Instances {
			found[r.Name] = i.Attributes.ID
		}
	}
	return found
}

func (p *plant) evidence(run string) map[string]any {
	p.Helper()
	return p.read("/api/v2/runs/" + run + "/recovery").Attributes
}

// possible gives for each resolution the code for which it is refused, or "".
func possible(evidence map[string]any) map[string]string {
	codes := map[string]string{}
	for _, r := range evidence["resolutions"].([]any) {
		answer := r.(map[string]any)
		codes[answer["resolution"].(string)] = answer["code"].(string)
	}
	return codes
}

// stepUp lets the admin prove who he is; once serves all stories.
var stepUp = sync.OnceValue(func() (problem string) {
	password, err := os.ReadFile(filepath.Join(shared.Dir, "admin-password"))
	if err != nil {
		return err.Error()
	}
	cmd := exec.Command(program("holdfast"), "admin", "totp")
	cmd.Env = append(stack.PlainEnviron(), "HOLDFAST_ADMIN_TOTP_FILE="+shared.Environ["HOLDFAST_ADMIN_TOTP_FILE"])
	code, err := cmd.Output()
	if err != nil {
		return err.Error()
	}
	body, err := json.Marshal(map[string]string{"password": strings.TrimSpace(string(password)), "code": strings.TrimSpace(string(code))})
	if err != nil {
		return err.Error()
	}
	request, err := http.NewRequest("POST", shared.Address()+"/api/v2/account/actions/step-up", bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Authorization", "Bearer "+shared.Token())
	response, err := shared.HTTP.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != 200 {
		return string(text)
	}
	return ""
})

// ordinary are the attributes of a recovery in which nothing is in doubt.
func ordinary(resolution string, more ...map[string]any) map[string]any {
	attributes := map[string]any{"resolution": resolution, "reason": "compared with the ledger", "confirm-revoke-authority": true, "confirm-advance-fence": true}
	for _, m := range more {
		for name, value := range m {
			attributes[name] = value
		}
	}
	return attributes
}

func (p *plant) tryRecover(run, resolution string, more ...map[string]any) reply {
	p.Helper()
	require.Empty(p, stepUp())
	return p.call("POST", "/api/v2/runs/"+run+"/actions/recover", ordinary(resolution, more...))
}

// recover ends the recovery of a run, after which the workspace is free.
func (p *plant) recover(run, resolution string, more ...map[string]any) resource {
	p.Helper()
	op := p.tryRecover(run, resolution, more...).one(p.T, 200)
	require.Equal(p, "committed", op.Attributes["status"])
	require.Equal(p, false, p.read("/api/v2/workspaces/" + p.workspace).Attributes["locked"])
	require.Equal(p, "needs_recovery", p.read("/api/v2/runs/" + run).Attributes["durable-status"], "it stays history")
	return op
}
