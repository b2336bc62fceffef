package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/scim"
)

// How site admins set up an identity provider. It speaks with package scimapi itself.

func (s *server) scimRoutes() []route {
	const (
		admin   = "/api/v2/admin/"
		mapping = admin + "teams/{id}/scim-group-mapping"
	)
	return []route{
		{method: get, path: admin + "scim-settings", handle: s.readSCIMSettings},
		{method: patch, path: admin + "scim-settings", handle: s.updateSCIMSettings},
		{method: del, path: admin + "scim-settings", handle: s.turnSCIMOff},
		{method: get, path: admin + "scim-tokens", handle: s.listSCIMTokens},
		{method: post, path: admin + "scim-tokens", handle: s.createSCIMToken},
		{method: get, path: admin + "scim-tokens/{id}", handle: s.readSCIMToken},
		{method: get, path: admin + "scim-groups", handle: s.listSCIMGroups},
		{method: post, path: mapping, handle: s.linkTeam},
		{method: patch, path: mapping, handle: s.pauseLink},
		{method: del, path: mapping, handle: s.unlinkTeam},
		{method: get, path: admin + "saml-settings", handle: s.readSAML},
		{method: patch, path: admin + "saml-settings", handle: s.updateSAML},
		{method: post, path: admin + "saml-settings/actions/revoke-old-certificate", handle: s.revokeOldCertificate},
	}
}

// scimSettingsView are the site's. SiteAdminGroupConfirmed is false while the group makes
// nobody a site admin yet.
type scimSettingsView struct {
	ID                      string  `jsonapi:"primary,scim-settings"`
	Enabled                 bool    `jsonapi:"attr,enabled"`
	Paused                  bool    `jsonapi:"attr,paused"`
	SiteAdminGroupID        *string `jsonapi:"attr,site-admin-group-scim-id"`
	SiteAdminGroupName      *string `jsonapi:"attr,site-admin-group-display-name"`
	SiteAdminGroupConfirmed bool    `jsonapi:"attr,site-admin-group-confirmed"`
}

func (*scimSettingsView) relations() relations { return nil }

func scimSettingsAnswer(found scim.Settings, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return ok(&scimSettingsView{
		ID: "scim", Enabled: found.Enabled, Paused: found.Paused, SiteAdminGroupID: textOrNull(string(found.SiteAdminGroup)),
		SiteAdminGroupName: textOrNull(found.SiteAdminGroupName), SiteAdminGroupConfirmed: found.Confirmed,
	}), nil
}

func (s *server) readSCIMSettings(r *request) (answer, error) {
	return scimSettingsAnswer(s.SCIM.Settings(r.ctx, r.actor))
}

func (s *server) updateSCIMSettings(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decodeUntyped[struct {
		Enabled        Opt[bool]   `json:"enabled"`
		Paused         Opt[bool]   `json:"paused"`
		SiteAdminGroup Opt[string] `json:"site-admin-group-scim-id"`
	}](body)
	if err != nil {
		return answer{}, err
	}
	change := scim.SettingsChange{Enabled: in.Attributes.Enabled.Pointer(), Paused: in.Attributes.Paused.Pointer()}
	if group := textOrEmpty(in.Attributes.SiteAdminGroup); group != nil {
		id := ids.SCIMGroup(*group)
		change.SiteAdminGroup = &id
	}
	return scimSettingsAnswer(s.SCIM.ChangeSettings(r.ctx, r.actor, change))
}

func (s *server) turnSCIMOff(r *request) (answer, error) {
	return noContent(), s.SCIM.TurnOff(r.ctx, r.actor)
}

func newSCIMTokenView(t accounts.SCIMToken) *tokenView {
	return &tokenView{
		ID: string(t.ID), CreatedAt: t.CreatedAt, LastUsedAt: t.LastUsedAt, ExpiredAt: &t.ExpiresAt, Description: &t.Description,
		related: relations{"created-by": optional("users", t.CreatedBy)},
	}
}

func (s *server) listSCIMTokens(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	list, err := s.Accounts.SCIMTokens(r.ctx, r.actor)
	if err != nil {
		return answer{}, err
	}
	items := make([]view, 0, len(list))
	for _, t := range list {
		items = append(items, newSCIMTokenView(t))
	}
	return pageOf(r, items)
}

func (s *server) createSCIMToken(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	n, err := readNewToken(r)
	if err != nil {
		return answer{}, err
	}
	plain, token, err := s.SCIM.CreateToken(r.ctx, r.actor, n)
	if err != nil {
		return answer{}, err
	}
	drawn := newSCIMTokenView(token)
	drawn.Token = &plain
	return created(drawn), nil
}

func (s *server) readSCIMToken(r *request) (answer, error) {
	token, err := id[ids.Token](r)
	if err != nil {
		return answer{}, fault.Missing("authentication token", r.vars["id"])
	}
	t, err := s.Accounts.SCIMToken(r.ctx, r.actor, token)
	return ok(newSCIMTokenView(t)), err
}

// scimGroupView is a group that a team can follow.
type scimGroupView struct {
	ID   string `jsonapi:"primary,scim-groups"`
	Name string `jsonapi:"attr,name"`
}

func (*scimGroupView) relations() relations { return nil }

func (s *server) listSCIMGroups(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.SCIM.GroupNames(r.ctx, r.actor, r.query.Get("q"), scim.Page{Limit: p.limit(), Offset: p.offset()})
	items := make([]*scimGroupView, 0, len(list))
	for _, g := range list {
		items = append(items, &scimGroupView{ID: string(g.ID), Name: g.DisplayName})
	}
	return page(items, p, total), err
}

// mappingOf reads what a request says about a link, and of which team.
func mappingOf(r *request) (team ids.Team, group Opt[string], paused Opt[bool], err error) {
	if err = siteAdmin(r); err != nil {
		return team, group, paused, err
	}
	if team, err = id[ids.Team](r); err != nil {
		return team, group, paused, err
	}
	body, err := r.body()
	if err != nil {
		return team, group, paused, err
	}
	in, err := decode[struct {
		Group  Opt[string] `json:"scim-group-id"`
		Paused Opt[bool]   `json:"scim-sync-paused"`
	}](body, "scim-group-mappings")
	return team, in.Attributes.Group, in.Attributes.Paused, err
}

func (s *server) linkTeam(r *request) (answer, error) {
	team, group, _, err := mappingOf(r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.SCIM.LinkTeam(r.ctx, r.actor, team, ids.SCIMGroup(group.Or("")))
}

func (s *server) pauseLink(r *request) (answer, error) {
	team, _, paused, err := mappingOf(r)
	if err != nil {
		return answer{}, err
	}
	if !paused.Set() {
		return answer{}, accounts.Invalid("scim-sync-paused", "SCIM sync paused must be true or false")
	}
	return noContent(), s.SCIM.PauseLink(r.ctx, r.actor, team, paused.Value)
}

func (s *server) unlinkTeam(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	team, err := id[ids.Team](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.SCIM.UnlinkTeam(r.ctx, r.actor, team)
}

// teamViews draws teams, with as many statements for many as for one.
func (s *server) teamViews(r *request, teams ...accounts.Team) ([]*teamView, error) {
	list := make([]ids.Team, 0, len(teams))
	for _, t := range teams {
		list = append(list, t.ID)
	}
	links, on, err := s.SCIM.Links(r.ctx, list)
	if err != nil {
		return nil, err
	}
	drawn := make([]*teamView, 0, len(teams))
	for _, t := range teams {
		v := newTeamView(r.actor, t)
		if link, linked := links[t.ID]; on {
			v.SCIMLinked = &linked
			if linked {
				v.SCIMSyncPaused, v.SCIMGroupName, v.SCIMUpdatedAt = &link.Paused, &link.GroupName, &link.UpdatedAt
			}
		}
		drawn = append(drawn, v)
	}
	return drawn, nil
}

func (s *server) teamAnswer(r *request, t accounts.Team, included ...view) (answer, error) {
	drawn, err := s.teamViews(r, t)
	if err != nil {
		return answer{}, err
	}
	return ok(drawn[0], included...), nil
}

// samlView shows what is known of the identity provider. Nobody signs in by SAML here, so
// what would switch that is off.
type samlView struct {
	ID                     string `jsonapi:"primary,saml-settings"`
	Enabled                bool   `jsonapi:"attr,enabled"`
	Debug                  bool   `jsonapi:"attr,debug"`
	AuthnRequestsSigned    bool   `jsonapi:"attr,authn-requests-signed"`
	WantAssertionsSigned   bool   `jsonapi:"attr,want-assertions-signed"`
	TeamManagementEnabled  bool   `jsonapi:"attr,team-management-enabled"`
	OldIDPCert             string `jsonapi:"attr,old-idp-cert"`
	IDPCert                string `jsonapi:"attr,idp-cert"`
	SLOEndpointURL         string `jsonapi:"attr,slo-endpoint-url"`
	SSOEndpointURL         string `jsonapi:"attr,sso-endpoint-url"`
	AttrUsername           string `jsonapi:"attr,attr-username"`
	AttrGroups             string `jsonapi:"attr,attr-groups"`
	AttrSiteAdmin          string `jsonapi:"attr,attr-site-admin"`
	SiteAdminRole          string `jsonapi:"attr,site-admin-role"`
	SessionTimeout         int    `jsonapi:"attr,sso-api-token-session-timeout"`
	ACSConsumerURL         string `jsonapi:"attr,acs-consumer-url"`
	MetadataURL            string `jsonapi:"attr,metadata-url"`
	Certificate            string `jsonapi:"attr,certificate"`
	PrivateKey             string `jsonapi:"attr,private-key"`
	SignatureSigningMethod string `jsonapi:"attr,signature-signing-method"`
	SignatureDigestMethod  string `jsonapi:"attr,signature-digest-method"`
	ProviderType           string `jsonapi:"attr,provider-type"`
}

func (*samlView) relations() relations { return nil }

func samlAnswer(f scim.SAML, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return ok(&samlView{
		ID: "saml", TeamManagementEnabled: f.TeamManagement, OldIDPCert: f.OldIDPCert, IDPCert: f.IDPCert, SLOEndpointURL: f.SLOEndpointURL, SSOEndpointURL: f.SSOEndpointURL,
		AttrUsername: f.AttrUsername, AttrGroups: f.AttrGroups, AttrSiteAdmin: f.AttrSiteAdmin, SiteAdminRole: f.SiteAdminRole, SessionTimeout: f.SessionTimeout,
		Certificate: f.Certificate, SignatureSigningMethod: f.SignatureSigningMethod, SignatureDigestMethod: f.SignatureDigestMethod, ProviderType: f.ProviderType,
	}), nil
}

func (s *server) readSAML(r *request) (answer, error) { return samlAnswer(s.SCIM.SAML(r.ctx, r.actor)) }

// updateSAML keeps what describes the identity provider. The switches of a sign-in that is not
// there stay off, and a private key that nothing would sign with is not kept.
func (s *server) updateSAML(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decodeUntyped[struct {
		TeamManagement         Opt[bool]   `json:"team-management-enabled"`
		IDPCert                Opt[string] `json:"idp-cert"`
		Certificate            Opt[string] `json:"certificate"`
		SLOEndpointURL         Opt[string] `json:"slo-endpoint-url"`
		SSOEndpointURL         Opt[string] `json:"sso-endpoint-url"`
		AttrUsername           Opt[string] `json:"attr-username"`
		AttrGroups             Opt[string] `json:"attr-groups"`
		AttrSiteAdmin          Opt[string] `json:"attr-site-admin"`
		SiteAdminRole          Opt[string] `json:"site-admin-role"`
		SessionTimeout         Opt[int]    `json:"sso-api-token-session-timeout"`
		SignatureSigningMethod Opt[string] `json:"signature-signing-method"`
		SignatureDigestMethod  Opt[string] `json:"signature-digest-method"`
		ProviderType           Opt[string] `json:"provider-type"`
	}](body)
	if err != nil {
		return answer{}, err
	}
	a := in.Attributes
	return samlAnswer(s.SCIM.ChangeSAML(r.ctx, r.actor, scim.SAMLChange{
		TeamManagement: a.TeamManagement.Pointer(), IDPCert: textOrEmpty(a.IDPCert), Certificate: textOrEmpty(a.Certificate), SLOEndpointURL: textOrEmpty(a.SLOEndpointURL), SSOEndpointURL: textOrEmpty(a.SSOEndpointURL),
		AttrUsername: textOrEmpty(a.AttrUsername), AttrGroups: textOrEmpty(a.AttrGroups), AttrSiteAdmin: textOrEmpty(a.AttrSiteAdmin), SiteAdminRole: textOrEmpty(a.SiteAdminRole),
		SessionTimeout: a.SessionTimeout.Pointer(), SignatureSigningMethod: a.SignatureSigningMethod.Pointer(), SignatureDigestMethod: a.SignatureDigestMethod.Pointer(), ProviderType: a.ProviderType.Pointer(),
	}))
}

func (s *server) revokeOldCertificate(r *request) (answer, error) {
	return samlAnswer(s.SCIM.RevokeOldCertificate(r.ctx, r.actor))
}

// provisioned is what a user's document says of it: nothing while SCIM is off.
func provisioned(standings map[ids.User]scim.Standing, user ids.User) (managed *bool, name *string, updated *time.Time) {
	standing, known := standings[user]
	if !known {
		return nil, nil, nil
	}
	if !standing.Managed {
		return &standing.Managed, nil, nil
	}
	return &standing.Managed, &standing.UserName, &standing.UpdatedAt
}

// withStanding says of the user whether an identity provider keeps it.
func (s *server) withStanding(r *request, v *userView, user ids.User) (*userView, error) {
	found, err := s.SCIM.Standings(r.ctx, []ids.User{user})
	v.IsSCIMManaged, v.SCIMUsername, v.SCIMUpdatedAt = provisioned(found, user)
	return v, err
}
