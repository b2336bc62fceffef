package tfeapi

import (
	"strings"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
)

// featureSetView is a plan that a hosted product would sell. Here each organization has all
// that the server can do, so each name stands for the same, without limits.
type featureSetView struct {
	ID            string `jsonapi:"primary,feature-sets"`
	Identifier    string `jsonapi:"attr,identifier"`
	Name          string `jsonapi:"attr,name"`
	Description   string `jsonapi:"attr,description"`
	IsFreeTier    bool   `jsonapi:"attr,is-free-tier"`
	RunsCeiling   *int   `jsonapi:"attr,runs-ceiling"`
	AgentsCeiling *int   `jsonapi:"attr,agents-ceiling"`
}

func (*featureSetView) relations() relations { return nil }

// featureSets are the names that clients ask for.
var featureSets = []*featureSetView{
	newFeatureSet("free", "Free"), newFeatureSet("standard_entitlement", "Standard (entitlement)"), newFeatureSet("business", "Business"),
}

func newFeatureSet(identifier, name string) *featureSetView {
	return &featureSetView{
		ID: "fs-" + identifier, Identifier: identifier, Name: name, IsFreeTier: true,
		Description: "Everything this server can do, without limits, as in every other feature set.",
	}
}

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
	for _, f := range featureSets {
		if strings.Contains(strings.ToLower(f.Name), strings.ToLower(r.query.Get("q"))) {
			items = append(items, f)
		}
	}
	total := len(items)
	return page(items[min(p.offset(), total):min(p.offset()+p.limit(), total)], p, total), nil
}

// subscriptionView says what an organization has: no ceiling and no end, whatever was
// asked for.
type subscriptionView struct {
	ID            string  `jsonapi:"primary,subscriptions"`
	IsActive      bool    `jsonapi:"attr,is-active"`
	RunsCeiling   *int    `jsonapi:"attr,runs-ceiling"`
	AgentsCeiling *int    `jsonapi:"attr,agents-ceiling"`
	EndAt         *string `jsonapi:"attr,end-at"`
	organization  string
	featureSet    string
}

func (v *subscriptionView) relations() relations {
	return relations{"organization": ref{"organizations", v.organization}, "feature-set": ref{"feature-sets", v.featureSet}}
}

// subscribe takes the wish for a feature set, which changes nothing: the answer shows what
// the organization has anyway.
func (s *server) subscribe(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	o, err := s.Accounts.Organization(r.ctx, r.actor, r.vars["organization"])
	if err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decodeUntyped[struct{}](body)
	if err != nil {
		return answer{}, err
	}
	wanted, err := in.required("feature-set", "feature-sets")
	if err != nil {
		return answer{}, err
	}
	for _, f := range featureSets {
		if f.ID == wanted {
			if err := s.Accounts.Record(r.ctx, r.actor, authz.OrganizationUpdate, o, "organization.subscription-asked", map[string]any{"feature_set": f.Name}); err != nil {
				return answer{}, err
			}
			return ok(&subscriptionView{ID: "sub-" + string(o.ID), IsActive: true, organization: o.Name, featureSet: f.ID}), nil
		}
	}
	return answer{}, fault.Missing("feature set", wanted)
}
