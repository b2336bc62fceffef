package tfeapi

import (
	"strings"
	"time"

	"github.com/google/jsonapi"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/registry"
)

// moduleView is a module on the wire.
type moduleView struct {
	ID              string                   `jsonapi:"primary,registry-modules"`
	Name            string                   `jsonapi:"attr,name"`
	Namespace       string                   `jsonapi:"attr,namespace"`
	Provider        string                   `jsonapi:"attr,provider"`
	RegistryName    string                   `jsonapi:"attr,registry-name"`
	NoCode          bool                     `jsonapi:"attr,no-code"`
	Status          string                   `jsonapi:"attr,status"`
	VersionStatuses []registry.VersionStatus `jsonapi:"attr,version-statuses"`
	Permissions     map[string]bool          `jsonapi:"attr,permissions"`
	CreatedAt       time.Time                `jsonapi:"attr,created-at,iso8601"`
	UpdatedAt       time.Time                `jsonapi:"attr,updated-at,iso8601"`
	related         relations
}

func (v *moduleView) relations() relations { return v.related }

// wireVersionStatus is the status of a module's version as clients know it.
func wireVersionStatus(status string) string {
	if status == registry.VersionFailed {
		return "reg_ingress_failed"
	}
	return status
}

func newModuleView(actor authz.Actor, m registry.Module) (*moduleView, error) {
	statuses, err := m.VersionStatuses()
	if err != nil {
		return nil, err
	}
	whole := "pending"
	for i := range statuses {
		if statuses[i].Status == registry.VersionOK {
			whole = "setup_complete"
		}
		statuses[i].Status = wireVersionStatus(statuses[i].Status)
	}
	manages := authz.Can(actor, authz.ModulesManage, authz.Object{Organization: m.Organization})
	view := &moduleView{
		ID: string(m.ID), Name: m.Name, Namespace: m.Namespace, Provider: m.Provider, RegistryName: string(m.Registry), NoCode: m.NoCode, Status: whole, VersionStatuses: statuses,
		Permissions: map[string]bool{"can-delete": manages, "can-resync": manages, "can-retry": manages}, CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt,
		related: relations{"organization": ref{"organizations", m.OrganizationName}},
	}
	if m.NoCode {
		view.related["no-code-modules"] = []ref{{"no-code-modules", "nocode-" + strings.TrimPrefix(view.ID, "mod-")}}
	}
	return view, nil
}

// moduleAnswer answers with a module.
func moduleAnswer(r *request, m registry.Module, err error, answerWith func(v view, included ...view) answer) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	view, err := newModuleView(r.actor, m)
	if err != nil {
		return answer{}, err
	}
	return answerWith(view), nil
}

func (s *server) listModules(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Registry.Modules(r.ctx, r.actor, r.vars["organization"], registry.ModuleFilter{
		Search: r.query.Get("q"), Provider: r.query.Get("filter[provider]"), Registry: registry.Name(r.query.Get("filter[registry_name]")), Organization: r.query.Get("filter[organization_name]"),
		Page: registry.Page{Limit: p.limit(), Offset: p.offset()},
	})
	if err != nil {
		return answer{}, err
	}
	items := make([]*moduleView, 0, len(list))
	for _, m := range list {
		view, err := newModuleView(r.actor, m)
		if err != nil {
			return answer{}, err
		}
		items = append(items, view)
	}
	return registryPage(items, p, total), nil
}

// registryPage is page for the lists of the registry, of which an empty one has no pages.
func registryPage[V view](items []V, p paging, total int, included ...view) answer {
	a := page(items, p, total, included...)
	if total == 0 {
		a.document.page.TotalPages = 0
	}
	return a
}

func (s *server) createModule(r *request) (answer, error) {
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct {
		Name         Opt[string] `json:"name"`
		Provider     Opt[string] `json:"provider"`
		RegistryName Opt[string] `json:"registry-name"`
		Namespace    Opt[string] `json:"namespace"`
		NoCode       Opt[bool]   `json:"no-code"`
	}](body, "registry-modules")
	if err != nil {
		return answer{}, err
	}
	a := in.Attributes
	m, err := s.Registry.CreateModule(r.ctx, r.actor, r.vars["organization"], registry.NewModule{
		Registry: registry.Name(a.RegistryName.Or("")), Namespace: a.Namespace.Or(""), Name: a.Name.Or(""), Provider: a.Provider.Or(""), NoCode: a.NoCode.Or(false),
	})
	return moduleAnswer(r, m, err, func(v view, _ ...view) answer { return created(v) })
}

// noVersionControl refuses what needs a connection to a host of repositories.
func noVersionControl() error {
	return fault.New(fault.Invalid, "vcs_unavailable", "This server has no connections to version control. Create the module without vcs-repo, then a version of it, and upload its archive.")
}

// connectModule is for a module whose versions come from a repository.
func (s *server) connectModule(*request) (answer, error) { return answer{}, noVersionControl() }

func (s *server) connectOrganizationModule(r *request) (answer, error) {
	org, err := s.Accounts.Organization(r.ctx, r.actor, r.vars["organization"])
	if err == nil {
		err = authz.Allow(r.actor, authz.ModulesManage, authz.Object{Organization: org.ID, Noun: "organization", Name: org.Name})
	}
	if err == nil {
		err = noVersionControl()
	}
	return answer{}, err
}

// moduleAddress is the one in the path.
func (r *request) moduleAddress() registry.ModuleAddress {
	return registry.ModuleAddress{Registry: registry.Name(r.vars["registry"]), Namespace: r.vars["namespace"], Name: r.vars["module"], Provider: r.vars["system"]}
}

// privateModuleAddress is the one in a path that says nothing of a registry.
func (r *request) privateModuleAddress() registry.ModuleAddress {
	return registry.ModuleAddress{Registry: registry.Private, Namespace: r.vars["organization"], Name: r.vars["module"], Provider: r.vars["system"]}
}

func (s *server) readModule(r *request) (answer, error) {
	m, err := s.Registry.ModuleAt(r.ctx, r.actor, r.vars["organization"], r.moduleAddress())
	return moduleAnswer(r, m, err, ok)
}

func (s *server) readModuleByID(r *request) (answer, error) {
	module, err := id[ids.RegistryModule](r)
	if err != nil {
		return answer{}, err
	}
	m, err := s.Registry.Module(r.ctx, r.actor, module)
	return moduleAnswer(r, m, err, ok)
}

func (s *server) updateModule(r *request) (answer, error) {
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct {
		NoCode     Opt[bool]           `json:"no-code"`
		VCSRepo    Opt[map[string]any] `json:"vcs-repo"`
		TestConfig Opt[struct {
			TestsEnabled bool `json:"tests-enabled"`
		}] `json:"test-config"`
	}](body, "registry-modules")
	if err != nil {
		return answer{}, err
	}
	bindings, err := registryBindings(in)
	if err != nil {
		return answer{}, err
	}
	if in.Attributes.VCSRepo.Set() {
		return answer{}, noVersionControl()
	}
	if in.Attributes.TestConfig.Or(struct {
		TestsEnabled bool `json:"tests-enabled"`
	}{}).TestsEnabled {
		return answer{}, fault.New(fault.Invalid, "module_tests_unavailable", "This server runs no tests of modules. Leave test-config out.")
	}
	m, err := s.Registry.UpdateModule(r.ctx, r.actor, r.vars["organization"], r.moduleAddress(), registry.ModuleChanges{NoCode: in.Attributes.NoCode.Pointer(), Bindings: bindings})
	return moduleAnswer(r, m, err, ok)
}

// registryBindings reads the pairs that an update says; nil when it says none.
func registryBindings[A any](in input[A]) (*[]registry.TagBinding, error) {
	list, given, err := relatedMany[bindingAttributes](in, "tag-bindings", "tag-bindings")
	if err != nil || !given {
		return nil, err
	}
	wanted := make([]registry.TagBinding, 0, len(list))
	for _, item := range list {
		wanted = append(wanted, registry.TagBinding{Key: item.Attributes.Key.Or(""), Value: item.Attributes.Value.Or("")})
	}
	return &wanted, nil
}

func pageOfBindings(r *request, pairs []registry.TagBinding, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	items := make([]view, 0, len(pairs))
	for _, b := range pairs {
		items = append(items, &bindingView{ID: string(b.ID), Key: b.Key, Value: b.Value})
	}
	return pageOf(r, items)
}

func (s *server) listModuleBindings(r *request) (answer, error) {
	module, err := id[ids.RegistryModule](r)
	if err != nil {
		return answer{}, err
	}
	pairs, err := s.Registry.ModuleBindings(r.ctx, r.actor, module)
	return pageOfBindings(r, pairs, err)
}

func (s *server) deleteModules(r *request) (answer, error) {
	return noContent(), s.Registry.DeleteModules(r.ctx, r.actor, r.vars["organization"], r.moduleAddress())
}

// deletePrivateModules is the older way to delete: it names no registry and means all.
func (s *server) deletePrivateModules(r *request) (answer, error) {
	address := r.privateModuleAddress()
	address.Registry = ""
	return noContent(), s.Registry.DeleteModules(r.ctx, r.actor, r.vars["organization"], address)
}

func (s *server) deleteModuleVersion(r *request) (answer, error) {
	return noContent(), s.Registry.DeleteModuleVersion(r.ctx, r.actor, r.vars["organization"], r.moduleAddress(), r.vars["version"])
}

func (s *server) deletePrivateModuleVersion(r *request) (answer, error) {
	return noContent(), s.Registry.DeleteModuleVersion(r.ctx, r.actor, r.vars["organization"], r.privateModuleAddress(), r.vars["version"])
}

// moduleVersionView is a version of a module on the wire.
type moduleVersionView struct {
	ID        string    `jsonapi:"primary,registry-module-versions"`
	Source    string    `jsonapi:"attr,source"`
	Status    string    `jsonapi:"attr,status"`
	Error     string    `jsonapi:"attr,error"`
	Version   string    `jsonapi:"attr,version"`
	CommitSHA string    `jsonapi:"attr,commit-sha"`
	CreatedAt time.Time `jsonapi:"attr,created-at,iso8601"`
	UpdatedAt time.Time `jsonapi:"attr,updated-at,iso8601"`
	module    ids.RegistryModule
	upload    string
}

func (v *moduleVersionView) relations() relations {
	return relations{"registry-module": ref{"registry-modules", string(v.module)}}
}

// JSONAPILinks has the address for the archive while that may come, for whoever may send it.
func (v *moduleVersionView) JSONAPILinks() *jsonapi.Links {
	if v.upload == "" {
		return &jsonapi.Links{}
	}
	return &jsonapi.Links{"upload": v.upload}
}

func (s *server) newModuleVersionView(actor authz.Actor, v registry.ModuleVersion) *moduleVersionView {
	view := &moduleVersionView{
		ID: string(v.ID), Source: "tfe-api", Status: wireVersionStatus(v.Status), Error: v.Error, Version: v.Version, CommitSHA: v.CommitSHA, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt, module: v.Module,
	}
	if v.Replaceable() && authz.Can(actor, authz.ModulesManage, authz.Object{Organization: v.Organization}) {
		view.upload = s.link(uploadModuleLink, view.ID, uploadUntil())
	}
	return view
}

// uploadUntil is when a link for uploading expires that is made now: at the end of an hour, so
// that a document reads the same for a while.
func uploadUntil() time.Time {
	return clock.Now().Truncate(uploadLinkLifetime).Add(2 * uploadLinkLifetime)
}

func (s *server) createModuleVersion(r *request) (answer, error) {
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct {
		Version   Opt[string] `json:"version"`
		CommitSHA Opt[string] `json:"commit-sha"`
	}](body, "registry-module-versions")
	if err != nil {
		return answer{}, err
	}
	v, err := s.Registry.CreateModuleVersion(r.ctx, r.actor, r.vars["organization"], r.privateModuleAddress(), in.Attributes.Version.Or(""), in.Attributes.CommitSHA.Or(""))
	if err != nil {
		return answer{}, err
	}
	return created(s.newModuleVersionView(r.actor, v)), nil
}

// readModuleVersion gives the version that the query names.
func (s *server) readModuleVersion(r *request) (answer, error) {
	v, err := s.Registry.ModuleVersionAt(r.ctx, r.actor, r.vars["organization"], r.moduleAddress(), r.query.Get("module_version"))
	if err != nil {
		return answer{}, err
	}
	return ok(s.newModuleVersionView(r.actor, v)), nil
}
