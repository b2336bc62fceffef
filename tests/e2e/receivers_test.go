package e2e

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// outsider is somebody's server on this machine, which the stack's operator has allowed: it takes
// notifications, and answers run tasks with its verdict.
type outsider struct {
	url string

	mu      sync.Mutex
	verdict map[string]string // by stage; passed where there is none
	events  []string          // of notifications, in the order in which they came
	wrong   []string          // what it did not like
}

func newOutsider(t *testing.T, s *stack) *outsider {
	t.Helper()
	o := &outsider{verdict: map[string]string{}}
	var calling sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		o.mu.Lock()
		defer o.mu.Unlock()
		header := map[string]string{"/told": "X-TFE-Notification-Signature", "/asked": "X-TFC-Task-Signature"}[r.URL.Path]
		mac := hmac.New(sha512.New, []byte("the key"))
		mac.Write(body)
		if r.Header.Get(header) != hex.EncodeToString(mac.Sum(nil)) {
			o.wrong = append(o.wrong, "a signature of "+r.URL.Path)
		}
		if r.URL.Path == "/told" {
			var told struct{ Notifications []struct{ Event string } }
			if err := json.Unmarshal(body, &told); err != nil || len(told.Notifications) != 1 {
				o.wrong = append(o.wrong, string(body))
				return
			}
			o.events = append(o.events, told.Notifications[0].Event)
			return
		}
		var asked struct {
			Stage       string `json:"stage"`
			AccessToken string `json:"access_token"`
			CallbackURL string `json:"task_result_callback_url"`
			PlanJSON    string `json:"plan_json_api_url"`
		}
		if err := json.Unmarshal(body, &asked); err != nil {
			o.wrong = append(o.wrong, string(body))
			return
		}
		if asked.Stage == "test" {
			return
		}
		verdict := o.verdict[asked.Stage]
		calling.Go(func() {
			if asked.PlanJSON != "" {
				if got := o.call(s, "GET", asked.PlanJSON, asked.AccessToken, ""); got != http.StatusOK {
					o.note(fmt.Sprintf("the plan: status %d", got))
				}
			}
			if verdict == "" {
				verdict = "passed"
			}
			answer := fmt.Sprintf(`{"data":{"type":"task-results","attributes":{"status":%q,"message":"it costs 42"}}}`, verdict)
			if got := o.call(s, "PATCH", asked.CallbackURL, asked.AccessToken, answer); got != http.StatusOK {
				o.note(fmt.Sprintf("the callback of %s: status %d", asked.Stage, got))
			}
		})
	}))
	t.Cleanup(func() {
		server.Close()
		calling.Wait()
	})
	o.url = server.URL
	return o
}

func (o *outsider) call(s *stack, method, address, token, body string) int {
	req, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		return 0
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := s.http.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func (o *outsider) note(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wrong = append(o.wrong, what)
}

// told waits for as many events of a run as there must be, and gives them.
func (o *outsider) told(t *testing.T, many int) []string {
	t.Helper()
	eventually(t, "the notifications of the run", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.events) >= many
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	events := o.events
	o.events = nil
	return events
}

// TestOthersAreToldAndAsked: real tofu, a service that is asked before the apply is allowed, and a receiver that is
// told what becomes of it.
func TestOthersAreToldAndAsked(t *testing.T) {
	t.Parallel()
	f := newFolder(t, shared, `resource "terraform_data" "a" {}`)
	f.init()
	ws, other := f.current(), newOutsider(t, shared)
	organization := shared.environ["TF_CLOUD_ORGANIZATION"]
	task, err := shared.api.RunTasks.Create(ctx, organization, tfe.RunTaskCreateOptions{Name: "cost-checker", URL: other.url + "/asked", Category: "task", HMACKey: tfe.String("the key")})
	require.NoError(t, err)
	_, err = shared.api.WorkspaceRunTasks.Create(ctx, ws.ID, tfe.WorkspaceRunTaskCreateOptions{
		EnforcementLevel: tfe.Mandatory, RunTask: task, Stages: &[]tfe.Stage{tfe.PrePlan, tfe.PostPlan, tfe.PreApply},
	})
	require.NoError(t, err)
	_, err = shared.api.NotificationConfigurations.Create(ctx, ws.ID, tfe.NotificationConfigurationCreateOptions{
		DestinationType: tfe.NotificationDestination(tfe.NotificationDestinationTypeGeneric), Enabled: tfe.Bool(true), Name: tfe.String("hook"), Token: tfe.String("the key"), URL: tfe.String(other.url + "/told"),
		Triggers: []tfe.NotificationTriggerType{
			tfe.NotificationTriggerCreated, tfe.NotificationTriggerPlanning, tfe.NotificationTriggerNeedsAttention, tfe.NotificationTriggerApplying, tfe.NotificationTriggerCompleted, tfe.NotificationTriggerErrored,
		},
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"verification"}, other.told(t, 1))

	applied := f.tofu("apply", "-auto-approve")
	require.Equal(t, 0, applied.code, applied.said)
	assert.Contains(t, applied.said, "Apply complete! Resources: 1 added")
	for _, text := range []string{"Post-plan Tasks", "cost-checker", "Passed", "it costs 42"} {
		assert.Contains(t, applied.said, text)
	}
	assert.Equal(t, []string{"run.created", "run.planning", "run.applying", "run.succeeded"}, other.told(t, 4))

	t.Log("the service is against it")
	other.mu.Lock()
	other.verdict["post_plan"] = "failed"
	other.mu.Unlock()
	f.write("main.tf", `resource "terraform_data" "b" {}`)
	refused := f.tofu("apply", "-auto-approve")
	assert.Equal(t, 1, refused.code, refused.said)
	assert.Contains(t, refused.said, "it costs 42")
	assert.Equal(t, []string{"run.created", "run.planning", "run.policy_failed"}, other.told(t, 3))
	assert.Equal(t, "terraform_data.a\n", f.tofu("state", "list").stdout, "nothing was applied")
	assert.False(t, f.current().Locked)

	other.mu.Lock()
	defer other.mu.Unlock()
	assert.Empty(t, other.wrong)
}
