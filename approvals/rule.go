package approvals

import (
	"slices"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

// Mode says who may give the approval that a rule asks for (G-09).
type Mode string

// The modes, the strictest first.
const (
	Manual    Mode = "manual"    // a person, each time: auto-apply approves nothing
	Requester Mode = "requester" // auto-apply is the requester's own recorded decision (amendment 22)
	Automatic Mode = "policy"    // the server, where policies were asked and allowed, nothing is destroyed and it is no production
)

var strictest = []Mode{Manual, Requester, Automatic}

// Rule is what must be fulfilled before a plan is applied. Its JSON is kept on the run.
type Rule struct {
	Mode             Mode         `json:"mode"`               // empty: nothing was said
	Required         int          `json:"required-approvals"` // 0 is 1
	ExcludeRequester bool         `json:"exclude-requester"`
	Reviewers        [][]ids.Team `json:"reviewer-teams"` // a reviewer belongs to one team of each list
	Production       bool         `json:"production"`

	names map[ids.Team]string // of reviewers, for words
}

// And gives the rule that holds where both do: of each part the stricter. So a place can
// ask for more than what is around it, and never for less.
func (r Rule) And(other Rule) Rule {
	both := Rule{
		Mode: r.Mode, Required: max(r.Required, other.Required), ExcludeRequester: r.ExcludeRequester || other.ExcludeRequester,
		Reviewers: slices.Clone(r.Reviewers), Production: r.Production || other.Production,
	}
	for _, mode := range strictest {
		if r.Mode == mode || other.Mode == mode {
			both.Mode = mode
			break
		}
	}
	for _, list := range other.Reviewers {
		if !slices.ContainsFunc(both.Reviewers, func(l []ids.Team) bool { return slices.Equal(l, list) }) {
			both.Reviewers = append(both.Reviewers, list)
		}
	}
	return both
}

// Settled fills in what nobody said: one approval, given by hand in production and by the
// requester elsewhere.
func (r Rule) Settled() Rule {
	r.Required = max(r.Required, 1)
	switch {
	case r.Mode == "" && r.Production, r.Mode == Automatic && r.Production:
		r.Mode = Manual
	case r.Mode == "":
		r.Mode = Requester
	}
	return r
}

// TakesAutoApply tells whether a run's auto-apply is a decision of its requester.
func (r Rule) TakesAutoApply() bool { return r.Settled().Mode != Manual }

// TakesPolicy tells whether an allow of the policies is all that the rule asks for. It takes no
// person's place where the rule asks for several or for certain ones.
func (r Rule) TakesPolicy() bool {
	s := r.Settled()
	return s.Mode == Automatic && !s.Production && s.Required == 1 && len(s.Reviewers) == 0
}

// Vote is an approval as the rule judges it.
type Vote struct {
	Reviewer      ids.User // empty: the policy
	Requester     ids.User
	RequesterTeam ids.Team // whose token asked for the run, if one did
	Source        Source
	Teams         []ids.Team // of the reviewer, when it decided
}

// Counts tells whether a vote counts.
func (r Rule) Counts(v Vote) bool {
	switch v.Source {
	case ByPolicy:
		return r.TakesPolicy()
	case AutoApply:
		if !r.TakesAutoApply() {
			return false
		}
	}
	return !(r.ExcludeRequester && v.byRequester()) && r.reviewedBy(v.Teams)
}

// byRequester tells whether somebody decides about what it asked for itself. Who belongs to a
// team may have used its token.
func (v Vote) byRequester() bool {
	return v.Reviewer == v.Requester || (v.RequesterTeam != "" && slices.Contains(v.Teams, v.RequesterTeam))
}

func (r Rule) reviewedBy(teams []ids.Team) bool {
	for _, list := range r.Reviewers {
		if !slices.ContainsFunc(list, func(t ids.Team) bool { return slices.Contains(teams, t) }) {
			return false
		}
	}
	return true
}

// Missing is how many more votes the rule asks for.
func (r Rule) Missing(votes []Vote) int {
	missing := r.Settled().Required
	for _, v := range votes {
		if r.Counts(v) {
			missing--
		}
	}
	return max(missing, 0)
}

// MayApprove refuses an approval that would not count, and says why. All are Forbidden:
// "person_required" (AP-17), "forbidden" without the right to act on production (AR-10),
// "separate_approver_required" (AR-08) and "reviewer_required". The right to apply is the
// caller's to check.
func (r Rule) MayApprove(actor authz.Actor, object authz.Object, v Vote) error {
	if err := r.mayDecide(actor); err != nil {
		return err
	}
	if r.Production {
		if err := authz.Allow(actor, authz.ProductionAct, object); err != nil {
			return err
		}
	}
	switch {
	case r.ExcludeRequester && v.byRequester():
		return fault.New(fault.Forbidden, "separate_approver_required",
			"%s was asked for by you, or by a team of yours, and must be approved by somebody else: it waits for %s. It stays open until somebody decides.", object.Name, r.Words())
	case !r.reviewedBy(v.Teams):
		return r.reviewerRequired(object)
	}
	return nil
}

// MayReject is MayApprove for a rejection: it takes no right to act on production, and whoever asked
// for the run may take it back.
func (r Rule) MayReject(actor authz.Actor, object authz.Object, v Vote) error {
	if v.Reviewer != "" && v.Reviewer == v.Requester {
		return nil
	}
	if err := r.mayDecide(actor); err != nil {
		return err
	}
	if !r.reviewedBy(v.Teams) {
		return r.reviewerRequired(object)
	}
	return nil
}

func (r Rule) mayDecide(actor authz.Actor) error {
	if r.Asks() && !actor.IsPerson() {
		return fault.New(fault.Forbidden, "person_required", "The workspace has an approval rule, so a person decides, with a token of its own; this is the token of a %s.", actor.Kind)
	}
	return nil
}

func (r Rule) reviewerRequired(object authz.Object) error {
	return fault.New(fault.Forbidden, "reviewer_required", "%s is decided about by the reviewers that its approval rule names, and you are none of them: it waits for %s. It stays open until one of them decides.", object.Name, r.Words())
}
