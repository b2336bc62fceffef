package tfeapi

import (
	"time"

	"github.com/google/jsonapi"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/registry"
)

// providerView is a provider on the wire.
type providerView struct {
	ID           string          `jsonapi:"primary,registry-providers"`
	Name         string          `jsonapi:"attr,name"`
	Namespace    string          `jsonapi:"attr,namespace"`
	RegistryName string          `jsonapi:"attr,registry-name"`
	Permissions  map[string]bool `jsonapi:"attr,permissions"`
	CreatedAt    time.Time       `jsonapi:"attr,created-at,iso8601"`
	UpdatedAt    time.Time       `jsonapi:"attr,updated-at,iso8601"`
	related      relations
}

func (v *providerView) relations() relations { return v.related }

func newRegistryProviderView(actor authz.Actor, p registry.Provider) *providerView {
	return &providerView{
		ID: string(p.ID), Name: p.Name, Namespace: p.Namespace, RegistryName: string(p.Registry), CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
		Permissions: map[string]bool{"can-delete": managesProviders(actor, p.Organization)},
		related: relations{
			"organization":               ref{"organizations", p.OrganizationName},
			"registry-provider-versions": memberRefs("registry-provider-versions", p.Versions),
		},
	}
}

func managesProviders(actor authz.Actor, org ids.Organization) bool {
	return authz.Can(actor, authz.ProvidersManage, authz.Object{Organization: org})
}

// providerIncludes gives the versions of providers, for a request that asked for them.
func (s *server) providerIncludes(r *request, of []registry.Provider) (included []view, err error) {
	if !r.includes()["registry-provider-versions"] {
		return nil, nil
	}
	versions, err := s.Registry.ShowProviderVersions(r.ctx, of)
	if err != nil {
		return nil, err
	}
	for _, v := range versions {
		included = append(included, s.newProviderVersionView(r.actor, v))
	}
	return included, nil
}

func (s *server) providerAnswer(r *request, p registry.Provider, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	included, err := s.providerIncludes(r, []registry.Provider{p})
	if err != nil {
		return answer{}, err
	}
	return ok(newRegistryProviderView(r.actor, p), included...), nil
}

func (s *server) listProviders(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Registry.Providers(r.ctx, r.actor, r.vars["organization"], registry.ProviderFilter{
		Search: r.query.Get("q"), Registry: registry.Name(r.query.Get("filter[registry_name]")), Organization: r.query.Get("filter[organization_name]"), Page: registry.Page{Limit: p.limit(), Offset: p.offset()},
	})
	if err != nil {
		return answer{}, err
	}
	included, err := s.providerIncludes(r, list)
	if err != nil {
		return answer{}, err
	}
	items := make([]*providerView, 0, len(list))
	for _, provider := range list {
		items = append(items, newRegistryProviderView(r.actor, provider))
	}
	return registryPage(items, p, total, included...), nil
}

func (s *server) createProvider(r *request) (answer, error) {
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct {
		Name         Opt[string] `json:"name"`
		Namespace    Opt[string] `json:"namespace"`
		RegistryName Opt[string] `json:"registry-name"`
	}](body, "registry-providers")
	if err != nil {
		return answer{}, err
	}
	a := in.Attributes
	p, err := s.Registry.CreateProvider(r.ctx, r.actor, r.vars["organization"], registry.ProviderAddress{Registry: registry.Name(a.RegistryName.Or("")), Namespace: a.Namespace.Or(""), Name: a.Name.Or("")})
	if err != nil {
		return answer{}, err
	}
	return created(newRegistryProviderView(r.actor, p)), nil
}

// providerAddress is the one in the path.
func (r *request) providerAddress() registry.ProviderAddress {
	return registry.ProviderAddress{Registry: registry.Name(r.vars["registry"]), Namespace: r.vars["namespace"], Name: r.vars["provider"]}
}

func (s *server) readProvider(r *request) (answer, error) {
	p, err := s.Registry.ProviderAt(r.ctx, r.actor, r.vars["organization"], r.providerAddress())
	return s.providerAnswer(r, p, err)
}

func (s *server) readProviderByID(r *request) (answer, error) {
	provider, err := id[ids.RegistryProvider](r)
	if err != nil {
		return answer{}, err
	}
	p, err := s.Registry.Provider(r.ctx, r.actor, provider)
	return s.providerAnswer(r, p, err)
}

// updateProvider takes documents without a type, as go-tfe sends them.
func (s *server) updateProvider(r *request) (answer, error) {
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decodeUntyped[struct{}](body)
	if err != nil {
		return answer{}, err
	}
	bindings, err := registryBindings(in)
	if err != nil {
		return answer{}, err
	}
	p, err := s.Registry.BindProvider(r.ctx, r.actor, r.vars["organization"], r.providerAddress(), bindings)
	return s.providerAnswer(r, p, err)
}

func (s *server) listProviderBindings(r *request) (answer, error) {
	provider, err := id[ids.RegistryProvider](r)
	if err != nil {
		return answer{}, err
	}
	pairs, err := s.Registry.ProviderBindings(r.ctx, r.actor, provider)
	return pageOfBindings(r, pairs, err)
}

func (s *server) deleteProvider(r *request) (answer, error) {
	return noContent(), s.Registry.DeleteProvider(r.ctx, r.actor, r.vars["organization"], r.providerAddress())
}

// providerVersionView is a version of a provider on the wire. signed is an extension.
type providerVersionView struct {
	ID                 string          `jsonapi:"primary,registry-provider-versions"`
	Version            string          `jsonapi:"attr,version"`
	KeyID              string          `jsonapi:"attr,key-id"`
	Protocols          []string        `jsonapi:"attr,protocols"`
	Permissions        map[string]bool `jsonapi:"attr,permissions"`
	ShasumsUploaded    bool            `jsonapi:"attr,shasums-uploaded"`
	ShasumsSigUploaded bool            `jsonapi:"attr,shasums-sig-uploaded"`
	Signed             bool            `jsonapi:"attr,signed"`
	CreatedAt          time.Time       `jsonapi:"attr,created-at,iso8601"`
	UpdatedAt          time.Time       `jsonapi:"attr,updated-at,iso8601"`
	links              jsonapi.Links
	related            relations
}

func (v *providerVersionView) relations() relations { return v.related }

// JSONAPILinks has the addresses of what was uploaded, and those for what is to come.
func (v *providerVersionView) JSONAPILinks() *jsonapi.Links { return &v.links }

func (s *server) newProviderVersionView(actor authz.Actor, v registry.ProviderVersion) *providerVersionView {
	manages := managesProviders(actor, v.Organization)
	view := &providerVersionView{
		ID: string(v.ID), Version: v.Version, KeyID: v.KeyID, Protocols: v.Protocols, ShasumsUploaded: v.HasShasums(), ShasumsSigUploaded: v.HasSignature(), Signed: v.Signed(),
		Permissions: map[string]bool{"can-delete": manages, "can-upload-asset": manages}, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt, links: jsonapi.Links{},
		related: relations{
			"registry-provider": ref{"registry-providers", string(v.Provider)},
			"platforms":         memberRefs("registry-provider-platforms", v.Platforms),
		},
	}
	if manages && !v.Signed() {
		view.links["shasums-upload"] = s.link(uploadShasumsLink, view.ID, uploadUntil())
		view.links["shasums-sig-upload"] = s.link(uploadSignatureLink, view.ID, uploadUntil())
	}
	if v.HasShasums() {
		view.links["shasums-download"] = s.Address + s.installLink(shasumsLink, view.ID)
	}
	if v.HasSignature() {
		view.links["shasums-sig-download"] = s.Address + s.installLink(signatureLink, view.ID)
	}
	return view
}

func (s *server) listProviderVersions(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Registry.ProviderVersions(r.ctx, r.actor, r.vars["organization"], r.providerAddress(), registry.Page{Limit: p.limit(), Offset: p.offset()})
	if err != nil {
		return answer{}, err
	}
	items := make([]*providerVersionView, 0, len(list))
	for _, v := range list {
		items = append(items, s.newProviderVersionView(r.actor, v))
	}
	return registryPage(items, p, total), nil
}

func (s *server) createProviderVersion(r *request) (answer, error) {
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decodeUntyped[struct {
		Version   Opt[string]   `json:"version"`
		KeyID     Opt[string]   `json:"key-id"`
		Protocols Opt[[]string] `json:"protocols"`
	}](body)
	if err != nil {
		return answer{}, err
	}
	a := in.Attributes
	v, err := s.Registry.CreateProviderVersion(r.ctx, r.actor, r.vars["organization"], r.providerAddress(), registry.NewProviderVersion{Version: a.Version.Or(""), KeyID: a.KeyID.Or(""), Protocols: a.Protocols.Or(nil)})
	if err != nil {
		return answer{}, err
	}
	return created(s.newProviderVersionView(r.actor, v)), nil
}

func (s *server) readProviderVersion(r *request) (answer, error) {
	v, err := s.Registry.ProviderVersionAt(r.ctx, r.actor, r.vars["organization"], r.providerAddress(), r.vars["version"])
	if err != nil {
		return answer{}, err
	}
	return ok(s.newProviderVersionView(r.actor, v)), nil
}

func (s *server) deleteProviderVersion(r *request) (answer, error) {
	return noContent(), s.Registry.DeleteProviderVersion(r.ctx, r.actor, r.vars["organization"], r.providerAddress(), r.vars["version"])
}

// platformView is a provider's version for one platform on the wire.
type platformView struct {
	ID                     string          `jsonapi:"primary,registry-provider-platforms"`
	OS                     string          `jsonapi:"attr,os"`
	Arch                   string          `jsonapi:"attr,arch"`
	Filename               string          `jsonapi:"attr,filename"`
	Shasum                 string          `jsonapi:"attr,shasum"`
	ProviderBinaryUploaded bool            `jsonapi:"attr,provider-binary-uploaded"`
	Permissions            map[string]bool `jsonapi:"attr,permissions"`
	links                  jsonapi.Links
	version                ids.RegistryProviderVersion
}

func (v *platformView) relations() relations {
	return relations{"registry-provider-version": ref{"registry-provider-versions", string(v.version)}}
}

// JSONAPILinks has the address of the package, or the one for it while it is to come.
func (v *platformView) JSONAPILinks() *jsonapi.Links { return &v.links }

func (s *server) newPlatformView(actor authz.Actor, p registry.Platform) *platformView {
	manages := managesProviders(actor, p.Organization)
	view := &platformView{
		ID: string(p.ID), OS: p.OS, Arch: p.Arch, Filename: p.Filename, Shasum: p.Shasum, ProviderBinaryUploaded: p.ObjectID != "", links: jsonapi.Links{}, version: p.Version,
		Permissions: map[string]bool{"can-delete": manages, "can-upload-asset": manages},
	}
	switch {
	case p.ObjectID != "":
		view.links["provider-binary-download"] = s.Address + s.installLink(packageLink, view.ID)
	case manages:
		view.links["provider-binary-upload"] = s.link(uploadPackageLink, view.ID, uploadUntil())
	}
	return view
}

func (s *server) listPlatforms(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Registry.Platforms(r.ctx, r.actor, r.vars["organization"], r.providerAddress(), r.vars["version"], registry.Page{Limit: p.limit(), Offset: p.offset()})
	if err != nil {
		return answer{}, err
	}
	items := make([]*platformView, 0, len(list))
	for _, platform := range list {
		items = append(items, s.newPlatformView(r.actor, platform))
	}
	return registryPage(items, p, total), nil
}

func (s *server) createPlatform(r *request) (answer, error) {
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decodeUntyped[struct {
		OS       Opt[string] `json:"os"`
		Arch     Opt[string] `json:"arch"`
		Filename Opt[string] `json:"filename"`
		Shasum   Opt[string] `json:"shasum"`
	}](body)
	if err != nil {
		return answer{}, err
	}
	a := in.Attributes
	p, err := s.Registry.CreatePlatform(r.ctx, r.actor, r.vars["organization"], r.providerAddress(), r.vars["version"], registry.NewPlatform{OS: a.OS.Or(""), Arch: a.Arch.Or(""), Filename: a.Filename.Or(""), Shasum: a.Shasum.Or("")})
	if err != nil {
		return answer{}, err
	}
	return created(s.newPlatformView(r.actor, p)), nil
}

func (s *server) readPlatform(r *request) (answer, error) {
	p, err := s.Registry.PlatformAt(r.ctx, r.actor, r.vars["organization"], r.providerAddress(), r.vars["version"], r.vars["os"], r.vars["arch"])
	if err != nil {
		return answer{}, err
	}
	return ok(s.newPlatformView(r.actor, p)), nil
}

func (s *server) deletePlatform(r *request) (answer, error) {
	return noContent(), s.Registry.DeletePlatform(r.ctx, r.actor, r.vars["organization"], r.providerAddress(), r.vars["version"], r.vars["os"], r.vars["arch"])
}
