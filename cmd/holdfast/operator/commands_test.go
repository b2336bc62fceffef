package operator

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// preparedBy is a recovery that is prepared and not committed.
func preparedBy(principal string, seconds int) attributes {
	return attributes{
		"id": "rcv-1", "status": "prepared", "resolution": "current_state_verified", "reason": "theirs", "principal-id": principal, "current-state-version-id": "sv-2",
		"current-state-checksum": "abcd", "emergency-state-digest": nil, "writer-proven-stopped": false, "superseded-uploads": []any{}, "lease-expires-at": "2026-01-02T03:19:05Z", "lease-remaining-seconds": seconds,
	}
}

// Every command rehearses: it says what would change, and changes nothing.
func TestNothingIsChangedWithoutApply(t *testing.T) {
	f := newFakeAPI(t)
	f.steppedUp = true
	f.evidence["run-a"] = ordinary()
	f.evidence["run-b"] = ordinary()
	f.evidence["run-b"]["operation"] = preparedBy("user-other", 0)
	f.list = []attributes{heldAs("run-a", true), heldAs("run-x", false)}
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"list"}, []string{"run-a  acme/app  held since 2026-01-02 03:04:05 UTC, apply_failed (apply_failed), 2 runs wait\n    proven, nothing is in doubt\n", "emergency_state: There is an emergency state."}},
		{[]string{"show", "run-a"}, []string{"state now     sv-2, serial 2, 3 resources, sha256 abcd", "has stopped", "log           | Error: no", "next          holdfast admin recover run-a --apply"}},
		{[]string{"run-a"}, []string{"would keep     sv-2", "from 4 to 5", "because: The apply failed and nothing is in doubt", "all it published is proven (1 state)", "Nothing was changed"}},
		{[]string{"commit", "run-a", "--reason", "mine"}, []string{"because: mine"}},
		{[]string{"propose", "run-a"}, []string{"would prepare", "nothing is freed yet"}},
		{[]string{"take-over", "run-b"}, []string{"would take     the recovery from user-other", "because: theirs"}},
		{[]string{"take-over", "run-b", "--abandon"}, []string{"would give up  the recovery rcv-1"}},
		{[]string{"--all-proven"}, []string{"proven     run-a", "skipped    run-x  acme/app  emergency_state", "Nothing was changed"}},
		{[]string{"run-a", "--json"}, []string{`"applied": false`, `"current-state-checksum": "abcd"`}},
	} {
		r := f.admin(&typed{}, c.args...)
		require.NoError(t, r.err, "%v: %s", c.args, r.out)
		for _, part := range c.says {
			assert.Contains(t, r.out, part, "%v", c.args)
		}
	}
	assert.Empty(t, f.sent)
	assert.Empty(t, f.stepUps)
	assert.Equal(t, map[string]bool{"Bearer secret-token": true}, f.tokensAsked)
}

// The ordinary failure: one command, and password and code once, because the server asks.
func TestAStepUpIsAskedForOnce(t *testing.T) {
	f := newFakeAPI(t)
	f.evidence["run-a"], f.evidence["run-b"] = ordinary(), ordinary()
	person := &typed{lines: []string{"s3cret", "123 456"}}
	r := f.admin(person, "run-a", "--apply")
	require.NoError(t, r.err)
	assert.Equal(t, []string{"Password of ada: ", "Code of your second factor, or a recovery code: "}, person.asked)
	assert.Equal(t, []attributes{{"password": "s3cret", "code": "123456"}}, f.stepUps)
	assert.Contains(t, r.out, "recovered     run-a by rcv-1\nstate now     sv-2")
	assert.Contains(t, r.out, "acme/app is free at epoch 5")
	assert.Contains(t, r.notes, "asks no more until 2026-01-02 03:19:05 UTC")
	assert.NotContains(t, r.out+r.notes, "s3cret")

	r = f.admin(person, "run-b", "--apply", "--reason", "looked at it")
	require.NoError(t, r.err)
	assert.Len(t, person.asked, 2, "one step-up serves for all that follows")
	assert.Equal(t, []sent{
		{"run-a", attributes{
			"resolution": "current_state_verified", "reason": "The apply failed and nothing is in doubt: its runner reported the end, all it published is proven (1 state), and no upload and no emergency state is left.",
			"confirm-revoke-authority": true, "confirm-advance-fence": true, "current-state-version-id": "sv-2", "current-state-checksum": "abcd",
		}},
		{"run-b", attributes{
			"resolution": "current_state_verified", "reason": "looked at it", "confirm-revoke-authority": true, "confirm-advance-fence": true, "current-state-version-id": "sv-2", "current-state-checksum": "abcd",
		}},
	}, f.sent)

	r = f.admin(person, "run-b", "--apply")
	require.NoError(t, r.err, "the repeat after a lost answer")
	assert.Len(t, f.sent, 2)
}

func TestAStepUpThatFails(t *testing.T) {
	f := newFakeAPI(t)
	f.evidence["run-a"] = ordinary()
	f.wrongCodes = 1
	r := f.admin(&typed{lines: []string{"wrong", "000000", "right", "123456"}}, "run-a", "--apply")
	require.ErrorContains(t, r.err, "step_up_failed: The password", "a script is not asked again")
	f.wrongCodes = 1
	r = f.admin(&typed{lines: []string{"wrong", "000000", "right", "AAAA-BBBB"}, interactive: true}, "run-a", "--apply")
	require.NoError(t, r.err)
	assert.Equal(t, attributes{"password": "right", "recovery-code": "AAAA-BBBB"}, f.stepUps[len(f.stepUps)-1])

	g := newFakeAPI(t)
	g.evidence["run-a"] = ordinary()
	r = g.admin(&typed{lines: []string{"", ""}}, "run-a", "--apply")
	require.ErrorContains(t, r.err, "step_up_required")
	assert.Empty(t, g.stepUps)

	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("from a file\n"), 0o600))
	r = g.admin(&typed{lines: []string{"654321"}}, "run-a", "--apply", "--password-file", file)
	require.NoError(t, r.err)
	assert.Equal(t, []attributes{{"password": "from a file", "code": "654321"}}, g.stepUps)
}

// What is not proven needs the operator's word, and no code is asked for before it is given.
func TestWhatOnlyTheOperatorCanSay(t *testing.T) {
	f := newFakeAPI(t)
	e := ordinary()
	e["proven"], e["doubt"] = false, attributes{"code": "writer_not_proven", "detail": "Nothing proves it."}
	e["writer"] = attributes{"proven-stopped": false, "how": "not-proven", "session-authority-ends-at": "2026-01-02T07:04:05Z"}
	e["claimed-uploads"] = []any{attributes{"id": "sv-3", "serial": 3, "claimed-at": "2026-01-02T03:04:05.678901Z"}}
	f.evidence["run-a"] = e
	for _, args := range [][]string{{"run-a", "--apply"}, {"run-a", "--apply", "--reason", "r"}, {"run-a", "--apply", "--reason", "r", "--confirm-writer-not-proven", "--give-up-upload", "sv-3@2026-01-02T03:04:05.678901Z"}} {
		person := &typed{}
		r := f.admin(person, args...)
		require.Error(t, r.err, args)
		assert.Regexp(t, "^(reason_required|confirmation_required): ", r.err.Error(), args)
		assert.Empty(t, person.asked)
	}
	r := f.admin(&typed{}, "run-a")
	for _, part := range []string{"reason_required", "--confirm-writer-not-proven", "--give-up-upload sv-3@2026-01-02T03:04:05.678901Z --acknowledge-state-loss"} {
		require.ErrorContains(t, r.err, part)
	}
	assert.Contains(t, r.out, "NOT PROVEN to have stopped; its authority ends by itself at 2026-01-02 07:04:05 UTC")
	assert.Empty(t, f.sent)

	f.steppedUp = true
	r = f.admin(&typed{}, "run-a", "--apply", "--reason", "r", "--confirm-writer-not-proven", "--give-up-upload", "sv-3@2026-01-02T03:04:05.678901Z", "--acknowledge-state-loss")
	require.NoError(t, r.err)
	assert.Equal(t, []any{true, true, []any{map[string]any{"state-upload-id": "sv-3", "claimed-at": "2026-01-02T03:04:05.678901Z"}}},
		[]any{f.sent[0].body["confirm-writer-not-proven"], f.sent[0].body["acknowledge-state-loss"], f.sent[0].body["claimed-upload-override"]})

	lost := ordinary()
	lost["proven"], lost["authority-lost"], lost["writer"] = false, true, e["writer"]
	f.evidence["run-l"] = lost
	r = f.admin(&typed{}, "run-l", "--apply", "--reason", "r", "--confirm-writer-not-proven")
	require.ErrorContains(t, r.err, "--confirm-authority-lost")
	r = f.admin(&typed{}, "run-l", "--apply", "--reason", "r", "--confirm-writer-not-proven", "--confirm-authority-lost")
	require.NoError(t, r.err)
	assert.Equal(t, []any{true, "sv-2", "abcd"}, []any{f.sent[1].body["confirm-authority-lost"], f.sent[1].body["current-state-version-id"], f.sent[1].body["current-state-checksum"]})
}

// Between an emergency state and the current one the operator chooses, never the program.
func TestAnEmergencyStateIsNamed(t *testing.T) {
	f := newFakeAPI(t)
	f.steppedUp = true
	e := ordinary()
	e["proven"], e["publications"] = false, []any{}
	e["resolutions"] = []any{attributes{"resolution": "current_state_verified", "possible": true}, attributes{"resolution": "import_emergency_state", "possible": true}}
	one := attributes{"id": "es-1", "digest": "d1", "size": 10, "serial": 4}
	e["emergency-states"] = []any{one}
	f.evidence["run-a"] = e
	r := f.admin(&typed{}, "run-a", "--apply", "--reason", "r")
	require.ErrorContains(t, r.err, "resolution_needed")
	r = f.admin(&typed{}, "run-a", "--resolution", "import_emergency_state", "--reason", "r")
	require.NoError(t, r.err)
	assert.Contains(t, r.out, "would make     the emergency state d1 current")
	r = f.admin(&typed{}, "run-a", "--apply", "--resolution", "import_emergency_state", "--reason", "r")
	require.NoError(t, r.err)
	assert.Equal(t, []any{"import_emergency_state", "d1", 10.0}, []any{f.sent[0].body["resolution"], f.sent[0].body["emergency-state-digest"], f.sent[0].body["emergency-state-size"]})

	e["required"], e["emergency-states"] = true, []any{one, attributes{"id": "es-2", "digest": "d2", "size": 20, "serial": 5}}
	r = f.admin(&typed{}, "run-a", "--apply", "--resolution", "import_emergency_state", "--reason", "r")
	require.ErrorContains(t, r.err, "emergency_state_ambiguous")
	r = f.admin(&typed{}, "run-a", "--apply", "--resolution", "import_emergency_state", "--reason", "r", "--emergency-digest", "d2")
	require.NoError(t, r.err)
	assert.Equal(t, "d2", f.sent[1].body["emergency-state-digest"])
}

// What this user has prepared is completed by the very request it was prepared with; what
// somebody else has is theirs until it is taken over.
func TestWhatIsPrepared(t *testing.T) {
	f := newFakeAPI(t)
	f.steppedUp = true
	f.evidence["run-a"] = ordinary()
	r := f.admin(&typed{}, "propose", "run-a", "--apply", "--reason", "r")
	require.NoError(t, r.err)
	assert.Contains(t, r.out, "it is yours until 2026-01-02 03:19:05 UTC")
	assert.Equal(t, true, f.sent[0].body["prepare-only"])

	f.evidence["run-a"]["operation"] = preparedBy("user-me", 800)
	f.evidence["run-a"]["proven"] = false
	r = f.admin(&typed{}, "commit", "run-a", "--apply")
	require.NoError(t, r.err)
	assert.Equal(t, attributes{
		"resolution": "current_state_verified", "reason": "theirs", "confirm-revoke-authority": true, "confirm-advance-fence": true, "confirm-writer-not-proven": true,
		"current-state-version-id": "sv-2", "current-state-checksum": "abcd",
	}, f.sent[1].body)

	f.evidence["run-b"] = ordinary()
	f.evidence["run-b"]["operation"] = preparedBy("user-other", 800)
	r = f.admin(&typed{}, "run-b", "--apply")
	require.ErrorContains(t, r.err, "recovery_lease_held: user-other has prepared")
	r = f.admin(&typed{}, "take-over", "run-b")
	require.ErrorContains(t, r.err, "recovery_lease_held")
	assert.Len(t, f.sent, 2)
	f.evidence["run-b"]["operation"] = preparedBy("user-other", 0)
	r = f.admin(&typed{}, "take-over", "run-b", "--apply", "--reason", "they left")
	require.NoError(t, r.err)
	assert.Equal(t, []any{true, "they left", "sv-2", nil}, []any{f.sent[2].body["takeover"], f.sent[2].body["reason"], f.sent[2].body["current-state-version-id"], f.sent[2].body["abandon-operation"]})

	f.evidence["run-c"] = ordinary()
	f.evidence["run-c"]["operation"] = preparedBy("policy", 800)
	r = f.admin(&typed{}, "take-over", "run-c", "--apply", "--abandon", "--reason", "mine")
	require.NoError(t, r.err, "nobody waits for the policy")
	assert.Equal(t, []any{true, "rcv-1"}, []any{f.sent[3].body["takeover"], f.sent[3].body["abandon-operation"]})
	f.evidence["run-d"] = ordinary()
	r = f.admin(&typed{}, "take-over", "run-d", "--apply")
	require.ErrorContains(t, r.err, "nothing_prepared")
}

// The whole list in one go: what is proven is recovered, what is not is skipped and said,
// and what fails makes the end an error.
func TestAllThatIsProven(t *testing.T) {
	f := newFakeAPI(t)
	f.evidence["run-a"], f.evidence["run-b"], f.evidence["run-d"] = ordinary(), ordinary(), ordinary()
	f.evidence["run-d"]["proven"], f.evidence["run-d"]["doubt"] = false, attributes{"code": "recovery_in_progress", "detail": "Somebody was quicker."}
	foreign := heldAs("run-f", true)
	foreign["permissions"] = attributes{"can-recover": false}
	f.list = []attributes{heldAs("run-a", true), heldAs("run-x", false), foreign, heldAs("run-d", true), heldAs("run-b", true)}
	person := &typed{lines: []string{"s3cret", "123456"}}
	r := f.admin(person, "--all-proven", "--apply")
	require.NoError(t, r.err, r.out)
	assert.Equal(t, []string{
		"recovered  run-a  acme/app  by rcv-1, the state is sv-2",
		"skipped    run-x  acme/app  emergency_state: There is an emergency state.",
		"skipped    run-f  acme/app  not yours to recover",
		"skipped    run-d  acme/app  recovery_in_progress: Somebody was quicker.",
		"recovered  run-b  acme/app  by rcv-1, the state is sv-2",
	}, strings.Split(strings.TrimSpace(r.out), "\n"))
	assert.Len(t, person.asked, 2)
	assert.Len(t, f.stepUps, 1)

	f.evidence["run-a"]["required"], f.evidence["run-b"]["required"] = true, true
	f.refuse["run-a"] = attributes{"code": "evidence_mismatch", "detail": "It has changed."}
	f.list = []attributes{heldAs("run-a", true), heldAs("run-b", true)}
	r = f.admin(person, "--all-proven", "--apply", "--json", "--organization", "acme")
	require.ErrorContains(t, r.err, "1 of 2 held workspaces could not be recovered")
	var outcomes []outcome
	require.NoError(t, json.Unmarshal([]byte(r.out), &outcomes))
	assert.Equal(t, []outcome{
		{"run-a", "acme/app", "failed", "evidence_mismatch: It has changed."}, {"run-b", "acme/app", "recovered", "by rcv-1, the state is sv-2"},
	}, outcomes, "the walk goes on")

	f.list = nil
	r = f.admin(person, "--all-proven")
	require.NoError(t, r.err)
	assert.Equal(t, "No workspace waits for a recovery.\n", r.out)
}

func TestWhatIsNoCommand(t *testing.T) {
	f := newFakeAPI(t)
	for _, args := range [][]string{
		{}, {"run-a", "--all-proven"}, {"run-a", "--organization", "acme"}, {"--all-proven", "--confirm-writer-not-proven"}, {"--all-proven", "--abandon"}, {"../users"}, {"run-../x"}, {"show"}, {"run-a", "--resolution", "x"}, {"run-a", "--give-up-upload", "sv-1"},
	} {
		f.evidence["run-a"] = ordinary()
		r := f.admin(&typed{}, args...)
		assert.Error(t, r.err, args)
	}
	assert.Empty(t, f.sent)
}

// A refusal of the API is told by its code and its detail.
func TestARefusalIsTold(t *testing.T) {
	f := newFakeAPI(t)
	f.steppedUp = true
	f.evidence["run-a"] = ordinary()
	f.refuse["run-a"] = attributes{"code": "predecessor_moved", "detail": "It has\nmoved.\x1b]0;owned\x07"}
	r := f.admin(&typed{}, "run-a", "--apply")
	require.EqualError(t, r.err, "predecessor_moved: It has moved.")
	assert.Empty(t, r.out)
	r = f.admin(&typed{}, "show", "run-unknown")
	require.EqualError(t, r.err, "not_found: There is no such thing.")
}

const nasty = "\x1b]0;owned\x07\x1b[31mred\u202egpj\u200b\nnext  holdfast admin recover run-2 --apply\x9b2J\U000E0041\r"

// poison puts what acts on a terminal into every text.
func poison(v any) any {
	switch v := v.(type) {
	case string:
		return v + nasty
	case attributes:
		out := attributes{}
		for name, value := range v {
			out[name] = poison(value)
		}
		return out
	case []any:
		out := []any{}
		for _, value := range v {
			out = append(out, poison(value))
		}
		return out
	}
	return v
}

// Whatever somebody wrote anywhere: the terminal is shown nothing that acts, and no line
// that looks like one of ours.
func TestForeignTextCannotAct(t *testing.T) {
	f := newFakeAPI(t)
	f.steppedUp = true
	e := ordinary()
	e["claimed-uploads"] = []any{attributes{"id": "sv-3", "serial": 3, "claimed-at": "then"}}
	e["unclaimed-uploads"] = []any{attributes{"id": "sv-4", "serial": 3, "expires-at": "then"}}
	e["emergency-states"] = []any{attributes{"id": "es-1", "digest": "d1", "size": 10, "obstacle": "o"}}
	e["operation"] = preparedBy("user-other", 0)
	e["doubt"], e["proven"] = attributes{"code": "c", "detail": "d"}, false
	f.evidence["run-a"] = poison(e).(attributes)
	f.evidence["run-a"]["operation"].(attributes)["status"] = "prepared"
	h := poison(heldAs("run-a", false)).(attributes)
	f.list = []attributes{h}
	f.refuse["run-a"] = poison(attributes{"code": "c", "detail": "d"}).(attributes)
	for _, args := range [][]string{{"show", "run-a"}, {"list"}, {"--all-proven"}, {"take-over", "run-a"}, {"take-over", "run-a", "--abandon", "--reason", "r"}, {"run-a"}, {"take-over", "run-a", "--apply"}, {"show", "run-a", "--json"}, {"list", "--json"}} {
		r := f.admin(&typed{}, args...)
		said := r.out + r.notes
		if r.err != nil {
			said += r.err.Error()
		}
		require.NotEmpty(t, said)
		for _, c := range said {
			assert.False(t, c != '\n' && (unicode.IsControl(c) || unicode.Is(unicode.Cf, c)), "%v: %U in %q", args, c, said)
		}
		for line := range strings.SplitSeq(said, "\n") {
			assert.NotRegexp(t, "^next  holdfast admin recover run-2", line, "%v", args)
		}
	}
}
