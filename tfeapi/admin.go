package tfeapi

import (
	"strings"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
)

// The few addresses of the site's administration that clients' own tests need.

// siteAdmin refuses anybody else as if there were nothing here.
func siteAdmin(r *request) error {
	if !authz.Can(r.actor, authz.OrganizationCreate, authz.Object{}) {
		return fault.New(fault.NotFound, "not_found", "There is nothing at this address for you. It is for site admins.")
	}
	return nil
}

// versionView is a version of OpenTofu that runs can have. Its id is the version.
type versionView struct {
	ID       string `jsonapi:"primary,terraform-versions"`
	Version  string `jsonapi:"attr,version"`
	Official bool   `jsonapi:"attr,official"`
	Enabled  bool   `jsonapi:"attr,enabled"`
	Beta     bool   `jsonapi:"attr,beta"`
}

func (*versionView) relations() relations { return nil }

// listVersions answers with the versions that the runners of all organizations have
// reported, the newest first.
func (s *server) listVersions(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	versions, err := s.Runs.Versions(r.ctx)
	if err != nil {
		return answer{}, err
	}
	items := make([]*versionView, 0, len(versions))
	for _, v := range versions {
		exact := r.query.Get("filter[version]")
		if (exact == "" || exact == v) && strings.Contains(v, r.query.Get("search[version]")) {
			items = append(items, &versionView{ID: v, Version: v, Enabled: true})
		}
	}
	total := len(items)
	return page(items[min(p.offset(), total):min(p.offset()+p.limit(), total)], p, total), nil
}

// adminOrganizationView is an organization as a site admin sees it. Nothing is kept
// for organizations with access to beta tools, so every one has it.
type adminOrganizationView struct {
	ID              string `jsonapi:"primary,organizations"`
	Name            string `jsonapi:"attr,name"`
	ExternalID      string `jsonapi:"attr,external-id"`
	AccessBetaTools bool   `jsonapi:"attr,access-beta-tools"`
	IsDisabled      bool   `jsonapi:"attr,is-disabled"`
	SSOEnabled      bool   `jsonapi:"attr,sso-enabled"`
	Region          string `jsonapi:"attr,region"`
}

func (*adminOrganizationView) relations() relations { return nil }

// updateAdminOrganization sets the region of the organization's runs. Access to beta tools
// it takes in the only way it can be. Clients send it without the type of the document.
func (s *server) updateAdminOrganization(r *request) (answer, error) {
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
	in, err := decodeUntyped[struct {
		AccessBetaTools Opt[bool]   `json:"access-beta-tools"`
		IsDisabled      Opt[bool]   `json:"is-disabled"`
		Region          Opt[string] `json:"region"`
	}](body)
	if err != nil {
		return answer{}, err
	}
	if !in.Attributes.AccessBetaTools.Or(true) || in.Attributes.IsDisabled.Or(false) {
		return answer{}, fault.New(fault.Invalid, "invalid_attribute", "An organization cannot be disabled or kept from beta tools on this server. To keep it from starting runs, suspend it.").At("/data/attributes")
	}
	st, err := s.Gates.Standing(r.ctx, r.actor, o.Name)
	if region := in.Attributes.Region.Pointer(); err == nil && region != nil {
		st, err = s.Gates.SetRegion(r.ctx, r.actor, o.Name, *region)
	}
	if err != nil {
		return answer{}, err
	}
	return ok(&adminOrganizationView{ID: o.Name, Name: o.Name, ExternalID: string(o.ID), AccessBetaTools: true, Region: st.Region}), nil
}
