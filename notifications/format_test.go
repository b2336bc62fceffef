package notifications

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func aRun() Event {
	return Event{
		ConfigurationName: "hook", Trigger: NeedsAttention, OrganizationName: "acme", WorkspaceName: "shop", RunID: "run-1", RunMessage: "<!channel> a & b", RunCreatedBy: "ada",
		FromStatus: "policy_passed", ToStatus: "awaiting_approval", By: "holdfast", URL: "https://tofu.test/app/acme/shop/runs/run-1",
	}
}

func TestSlackAndTeams(t *testing.T) {
	t.Parallel()
	var s Service
	body, err := s.body(Slack, aRun())
	require.NoError(t, err)
	var slack struct {
		Text   string
		Blocks []struct {
			Type string
			Text struct{ Type, Text string }
		}
	}
	require.NoError(t, json.Unmarshal(body, &slack))
	assert.Equal(t, "Run Needs Attention: acme/shop", slack.Text)
	require.Len(t, slack.Blocks, 1)
	assert.Equal(t, "mrkdwn", slack.Blocks[0].Text.Type)
	assert.Equal(t, "*Run Needs Attention*\nWorkspace: acme/shop\nRun: run-1\nMessage: &lt;!channel&gt; a &amp; b\nCreated by: ada\nEvent: run.approval_pending by holdfast\n<https://tofu.test/app/acme/shop/runs/run-1|Open the run>", slack.Blocks[0].Text.Text)

	body, err = s.body(MicrosoftTeams, aRun())
	require.NoError(t, err)
	var teams struct {
		Type        string
		Attachments []struct {
			ContentType string
			Content     struct {
				Type, Version string
				Body          []struct {
					Type, Text string
					Facts      []struct{ Title, Value string }
				}
				Actions []struct{ Type, URL string }
			}
		}
	}
	require.NoError(t, json.Unmarshal(body, &teams))
	require.Equal(t, "message", teams.Type)
	card := teams.Attachments[0]
	assert.Equal(t, "application/vnd.microsoft.card.adaptive", card.ContentType)
	assert.Equal(t, "AdaptiveCard", card.Content.Type)
	assert.Equal(t, "Run Needs Attention", card.Content.Body[0].Text)
	assert.Equal(t, "<!channel> a & b", card.Content.Body[1].Facts[2].Value)
	assert.Equal(t, aRun().URL, card.Content.Actions[0].URL)

	body, err = s.body(Slack, Event{ConfigurationName: "hook", Trigger: Verification})
	require.NoError(t, err)
	assert.Contains(t, string(body), "Verification of hook")
	assert.NotContains(t, string(body), "Workspace")
}

// TestEveryStepHasItsTrigger: each durable status, with the event's name.
func TestEveryStepHasItsTrigger(t *testing.T) {
	t.Parallel()
	reference, err := os.ReadFile("../docs/events.md")
	require.NoError(t, err)
	for _, c := range []struct{ from, to, triggers, event string }{
		{"dispatch_pending", "queued", "run:created", "run.created"},
		{"plan_failed", "queued", "run:created", "run.requeued"},
		{"canceled", "queued", "run:created", "run.requeued"},
		{"dispatch_pending", "awaiting_approval", "run:created run:needs_attention", "run.created"},
		{"queued", "planning", "run:planning", "run.planning"},
		{"planning", "plan_complete", "", ""},
		{"plan_complete", "policy_evaluating", "", ""},
		{"policy_evaluating", "policy_passed", "", ""},
		{"policy_passed", "awaiting_approval", "run:needs_attention", "run.approval_pending"},
		{"awaiting_approval", "applying", "run:applying", "run.applying"},
		{"applying", "succeeded", "run:completed", "run.succeeded"},
		{"policy_passed", "succeeded", "run:completed", "run.succeeded"},
		{"planning", "plan_failed", "run:errored", "run.plan_failed"},
		{"queued", "plan_credentials_required", "run:errored", "run.plan_credentials_required"},
		{"policy_evaluating", "policy_failed", "run:errored", "run.policy_failed"},
		{"awaiting_approval", "rejected", "run:errored", "run.rejected"},
		{"awaiting_approval", "expired", "run:errored", "run.expired"},
		{"queued", "canceled", "run:errored", "run.canceled"},
		{"applying", "apply_failed", "run:errored", "run.apply_failed"},
		{"applying", "apply_start_uncertain", "run:errored", "run.apply_start_uncertain"},
		{"applying", "apply_interrupted", "run:errored", "run.apply_interrupted"},
		{"applying", "needs_recovery", "run:errored", "run.needs_recovery"},
	} {
		var names []string
		for _, trigger := range triggersOf(c.from, c.to, false) {
			names = append(names, string(trigger))
		}
		assert.Equal(t, c.triggers, strings.Join(names, " "), c)
		if len(names) > 0 {
			assert.Equal(t, c.event, Event{Trigger: Trigger(names[0]), FromStatus: c.from, ToStatus: c.to}.Name(), c)
			assert.Regexp(t, "(?m)^\\|[^|]*`"+c.event+"`.*\\| `"+names[0]+"` \\|", string(reference), "the reference has a row for it (EV-05)")
		}
	}
	assert.Empty(t, triggersOf("apply_failed", "needs_recovery", true), "the run had ended: an operator recovers it")
	assert.Equal(t, "run.approval_pending", Event{Trigger: NeedsAttention, FromStatus: "dispatch_pending", ToStatus: "awaiting_approval"}.Name())
}
