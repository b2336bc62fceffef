package tfeapi

import (
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
)

// featureSetView is what an organization can be subscribed to.
type featureSetView struct {
	ID             string `jsonapi:"primary,feature-sets"`
	Identifier     string `jsonapi:"attr,identifier"`
	Name           string `jsonapi:"attr,name"`
	Description    string `jsonapi:"attr,description"`
	IsFreeTier     bool   `jsonapi:"attr,is-free-tier"`
	GlobalRunTasks bool   `jsonapi:"attr,global-run-tasks"`
	RunsCeiling    *int   `jsonapi:"attr,runs-ceiling"`
	AgentsCeiling  *int   `jsonapi:"attr,agents-ceiling"`
}

func (*featureSetView) relations() relations { return nil }

// featureSetNames are the names that clients search for.
var featureSetNames = map[accounts.FeatureSet]string{accounts.Free: "Free", accounts.Standard: "Standard (entitlement)", accounts.Business: "Business"}

func newFeatureSetView(f accounts.FeatureSet) *featureSetView {
	view := &featureSetView{
		ID: featureSetID(f), Identifier: string(f), Name: featureSetNames[f], IsFreeTier: f == accounts.Free, GlobalRunTasks: f != accounts.Free,
		Description: "Everything this server can do, without limits.",
	}
	if f == accounts.Free {
		view.Description = "Everything this server can do, without limits, but run tasks that all workspaces ask."
	}
	return view
}

func featureSetID(f accounts.FeatureSet) string { return "fs-" + string(f) }

// listFeatureSets is for site admins. q is a part of the name, in any case.
func (s *server) listFeatureSets(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	items := []*featureSetView{}
	for _, f := range accounts.FeatureSets {
		if strings.Contains(strings.ToLower(featureSetNames[f]), strings.ToLower(r.query.Get("q"))) {
			items = append(items, newFeatureSetView(f))
		}
	}
	total := len(items)
	return page(items[min(p.offset(), total):min(p.offset()+p.limit(), total)], p, total), nil
}

// subscriptionView says what an organization has. There are no ceilings.
type subscriptionView struct {
	ID            string     `jsonapi:"primary,subscriptions"`
	IsActive      bool       `jsonapi:"attr,is-active"`
	RunsCeiling   *int       `jsonapi:"attr,runs-ceiling"`
	AgentsCeiling *int       `jsonapi:"attr,agents-ceiling"`
	EndAt         *time.Time `jsonapi:"attr,end-at,iso8601"`
	organization  string
	featureSet    string
}

func (v *subscriptionView) relations() relations {
	return relations{"organization": ref{"organizations", v.organization}, "feature-set": ref{"feature-sets", v.featureSet}}
}

func subscriptionID(o accounts.Organization) string { return "sub-" + string(o.ID) }

func newSubscriptionView(o accounts.Organization) *subscriptionView {
	return &subscriptionView{ID: subscriptionID(o), IsActive: !o.FeatureSetEnded, EndAt: o.FeatureSetEndsAt, organization: o.Name, featureSet: featureSetID(o.FeatureSet)}
}

func (s *server) readSubscription(r *request) (answer, error) {
	o, err := s.Accounts.Organization(r.ctx, r.actor, r.vars["organization"])
	if err != nil {
		return answer{}, err
	}
	return s.subscriptionAnswer(r, o), nil
}

func (s *server) subscriptionAnswer(r *request, o accounts.Organization) answer {
	if r.includes()["feature-set"] {
		return ok(newSubscriptionView(o), newFeatureSetView(o.FeatureSet))
	}
	return ok(newSubscriptionView(o))
}

type subscriptionAttributes struct {
	EndAt Opt[time.Time] `json:"end-at"`
}

// subscribe gives an organization a feature set, until its end-at. Ceilings and limits that
// clients send are none: the answer says so.
func (s *server) subscribe(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decodeUntyped[subscriptionAttributes](body)
	if err != nil {
		return answer{}, err
	}
	wanted, err := in.required("feature-set", "feature-sets")
	if err != nil {
		return answer{}, err
	}
	for _, f := range accounts.FeatureSets {
		if featureSetID(f) == wanted {
			o, err := s.Accounts.Subscribe(r.ctx, r.actor, r.vars["organization"], f, in.Attributes.EndAt.Pointer())
			if err != nil {
				return answer{}, err
			}
			return s.subscriptionAnswer(r, o), nil
		}
	}
	return answer{}, fault.Missing("feature set", wanted)
}
