package operator

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/cmd/holdfast/terminal"
)

const (
	verifyCurrent   = "current_state_verified"
	importEmergency = "import_emergency_state"
)

// policy prepares where a workspace's settings allow it; persons need not wait for it.
const policy = "policy"

// decision is what an operator says; what is left out follows from the evidence.
type decision struct {
	Resolution             string   `enum:"auto,current_state_verified,import_emergency_state" default:"auto" help:"What the state is in the end: ${enum}. auto is the one that is possible."`
	Reason                 string   `help:"Why the state can be trusted; it is kept in the audit log. Where nothing is in doubt there is one already."`
	EmergencyDigest        string   `placeholder:"SHA256" help:"The emergency state that is meant, where there are several."`
	ConfirmWriterNotProven bool     `help:"You have made sure that the writer has stopped, although nothing proves it."`
	ConfirmAuthorityLost   bool     `help:"You vouch for the current state of a workspace whose run the database has lost."`
	GiveUpUpload           []string `placeholder:"ID@TIME" help:"Give up this upload, which began at that time and whose bytes nobody has."`
	AcknowledgeStateLoss   bool     `help:"State that was in the uploads given up can be lost."`
	Abandon                bool     `help:"Give up the recovery that is prepared, and decide anew."`
}

// anew makes the request from the evidence.
func (d decision) anew(e evidence) (in request, err error) {
	in = request{
		Resolution: d.Resolution, Reason: d.reason(e), ConfirmRevokeAuthority: true, ConfirmAdvanceFence: true,
		ConfirmWriterNotProven: d.ConfirmWriterNotProven && !e.Writer.Proven, ConfirmAuthorityLost: d.ConfirmAuthorityLost && e.AuthorityLost,
		AcknowledgeStateLoss: d.AcknowledgeStateLoss,
	}
	if in.Overrides, err = d.overrides(); err != nil {
		return in, err
	}
	if e.CurrentState != nil {
		in.CurrentID, in.CurrentChecksum = &e.CurrentState.ID, e.CurrentState.Checksum
	}
	if d.Resolution == "auto" {
		if in.Resolution, err = onlyPossible(e); err != nil {
			return in, err
		}
	}
	one, err := d.emergency(e)
	if one != nil {
		in.EmergencyDigest, in.EmergencySize = &one.Digest, &one.Size
	}
	if in.Resolution == importEmergency && err != nil {
		return in, err
	}
	return in, nil
}

// onlyPossible refuses to choose between two: one of them gives up what the other keeps.
func onlyPossible(e evidence) (string, error) {
	if e.answer(verifyCurrent).Possible && e.answer(importEmergency).Possible {
		return "", errors.New("resolution_needed: the current state can be verified, and the emergency state can be imported: compare both and say which with --resolution")
	}
	if e.answer(importEmergency).Possible {
		return importEmergency, nil
	}
	return verifyCurrent, nil
}

// emergency is the emergency state that is meant, if any.
func (d decision) emergency(e evidence) (*emergency, error) {
	for _, s := range e.EmergencyStates {
		if s.Digest == d.EmergencyDigest {
			return &s, nil
		}
	}
	switch {
	case d.EmergencyDigest != "":
		return nil, fmt.Errorf("evidence_mismatch: no emergency state has the SHA-256 %q", d.EmergencyDigest)
	case len(e.EmergencyStates) > 1:
		return nil, fmt.Errorf("emergency_state_ambiguous: there are %d emergency states: say which with --emergency-digest", len(e.EmergencyStates))
	case len(e.EmergencyStates) == 1:
		return &e.EmergencyStates[0], nil
	}
	return nil, errors.New("emergency_state_missing: there is no emergency state")
}

// reason is what the operator says, or what says itself where nothing is in doubt.
func (d decision) reason(e evidence) string {
	switch {
	case strings.TrimSpace(d.Reason) != "":
		return d.Reason
	case e.Proven && len(e.Publications) == 0:
		return "The apply failed and nothing is in doubt: its runner reported the end, it published nothing, and no upload and no emergency state is left."
	case e.Proven:
		return fmt.Sprintf("The apply failed and nothing is in doubt: its runner reported the end, all it published is proven (%s), and no upload and no emergency state is left.", counted(len(e.Publications), "state"))
	}
	return ""
}

func (d decision) overrides() (list []override, err error) {
	for _, one := range d.GiveUpUpload {
		id, at, ok := strings.Cut(one, "@")
		if !ok || id == "" || at == "" {
			return nil, fmt.Errorf("--give-up-upload %q must be the id and the exact time of the upload, as in sv-…@2026-01-02T03:04:05.678901Z", terminal.Line(one))
		}
		list = append(list, override{Upload: id, ClaimedAt: at})
	}
	return list, nil
}

// again makes the request that the recovery was prepared with: the exact repeat completes
// it. d may name another reason where somebody else takes it over.
func (d decision) again(o operation) request {
	in := request{
		Resolution: o.Resolution, Reason: o.Reason, ConfirmRevokeAuthority: true, ConfirmAdvanceFence: true, ConfirmWriterNotProven: !o.WriterProven,
		AcknowledgeStateLoss: len(o.SupersededUploads) > 0, Overrides: o.SupersededUploads,
		CurrentID: o.CurrentID, CurrentChecksum: o.CurrentChecksum, EmergencyDigest: o.EmergencyDigest,
	}
	if o.EmergencyDigest != nil {
		in.EmergencySize = &o.EmergencySize
	}
	if strings.TrimSpace(d.Reason) != "" {
		in.Reason = d.Reason
	}
	return in
}

// lack is something that the server would refuse a request for.
type lack struct{ code, text string }

func (l lack) Error() string { return l.code + ": " + l.text }

// missing says what the server would refuse the request for, as far as the evidence tells.
func (d decision) missing(e evidence, in request) (list []lack) {
	add := func(code, text string, args ...any) { list = append(list, lack{code, fmt.Sprintf(text, args...)}) }
	if op := e.prepared(); op != nil && in.TakeOver && op.PrincipalID != policy && op.LeaseRemainingSeconds > 0 {
		add("recovery_lease_held", "%s has prepared it, and it is theirs until %s (%d seconds)", terminal.Line(op.PrincipalID), moment(op.LeaseExpiresAt), op.LeaseRemainingSeconds)
	}
	if a := e.answer(in.Resolution); !a.Possible {
		add(terminal.Line(a.Code), "%s", terminal.Line(a.Detail))
	}
	if strings.TrimSpace(in.Reason) == "" {
		add("reason_required", "say with --reason why the state can be trusted")
	}
	if !e.Writer.Proven && !in.ConfirmWriterNotProven {
		add("confirmation_required", "nothing proves that the writer has stopped: make sure, then say --confirm-writer-not-proven")
	}
	if e.AuthorityLost && !in.ConfirmAuthorityLost {
		add("confirmation_required", "nothing proves what the run has written: compare the current state with the real infrastructure, then say --confirm-authority-lost")
	}
	for _, u := range e.ClaimedUploads {
		if !givenUp(in.Overrides, u) {
			add("claimed_upload_unresolved", "the upload %s did not end: bring its bytes back, or say --give-up-upload %s@%s --acknowledge-state-loss", terminal.Line(u.ID), terminal.Line(u.ID), terminal.Line(text(u.ClaimedAt)))
		}
	}
	if len(in.Overrides) > 0 && !in.AcknowledgeStateLoss {
		add("confirmation_required", "state that was in the uploads given up can be lost: say --acknowledge-state-loss")
	}
	return list
}

func givenUp(list []override, u upload) bool {
	for _, o := range list {
		if o.Upload == u.ID && o.ClaimedAt == text(u.ClaimedAt) {
			return true
		}
	}
	return false
}
