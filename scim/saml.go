package scim

import (
	"context"
	"slices"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/postgres"
)

// SAML is what is known of the identity provider. Nobody signs in by it, so it has no switch for
// that; TeamManagement alone acts.
type SAML struct {
	TeamManagement         bool // teams that follow a group are changed by the identity provider alone, not by hand too
	ProviderType           string
	IDPCert                string `db:"idp_cert"`
	OldIDPCert             string `db:"old_idp_cert"`
	Certificate            string
	SLOEndpointURL         string `db:"slo_endpoint_url"`
	SSOEndpointURL         string `db:"sso_endpoint_url"`
	AttrUsername           string
	AttrGroups             string
	AttrSiteAdmin          string
	SiteAdminRole          string
	SessionTimeout         int // seconds
	SignatureSigningMethod string
	SignatureDigestMethod  string
}

// SAMLChange says what changes; nil leaves as it is.
type SAMLChange struct {
	TeamManagement                                              *bool
	IDPCert, Certificate, SLOEndpointURL, SSOEndpointURL        *string
	AttrUsername, AttrGroups, AttrSiteAdmin, SiteAdminRole      *string
	SignatureSigningMethod, SignatureDigestMethod, ProviderType *string
	SessionTimeout                                              *int
}

var (
	providerTypes = []string{"okta", "entra", "saml", "unknown"}
	hashMethods   = []string{"SHA1", "SHA256"}
)

const maxCertificate = 16 << 10 // bytes; the other texts have fewer

func (c SAMLChange) check() error {
	for _, field := range []struct {
		attribute, name string
		value           *string
		limit           int
		among           []string
	}{
		{"idp-cert", "IdP certificate", c.IDPCert, maxCertificate, nil},
		{"certificate", "Certificate", c.Certificate, maxCertificate, nil},
		{"slo-endpoint-url", "Single log-out address", c.SLOEndpointURL, 2048, nil},
		{"sso-endpoint-url", "Single sign-on address", c.SSOEndpointURL, 2048, nil},
		{"attr-username", "Attribute of the username", c.AttrUsername, maxName, nil},
		{"attr-groups", "Attribute of the groups", c.AttrGroups, maxName, nil},
		{"attr-site-admin", "Attribute of site admins", c.AttrSiteAdmin, maxName, nil},
		{"site-admin-role", "Role of site admins", c.SiteAdminRole, maxName, nil},
		{"signature-signing-method", "Signature signing method", c.SignatureSigningMethod, maxName, hashMethods},
		{"signature-digest-method", "Signature digest method", c.SignatureDigestMethod, maxName, hashMethods},
		{"provider-type", "Provider type", c.ProviderType, maxName, providerTypes},
	} {
		if field.value == nil {
			continue
		}
		if field.among != nil && !slices.Contains(field.among, *field.value) {
			return accounts.Invalid(field.attribute, "%s must be one of %v", field.name, field.among)
		}
		if err := accounts.CheckText(field.attribute, field.name, *field.value, field.limit); err != nil {
			return err
		}
	}
	if c.SessionTimeout != nil && (*c.SessionTimeout < 0 || *c.SessionTimeout > 10*365*24*3600) {
		return accounts.Invalid("sso-api-token-session-timeout", "Session timeout must be from 0 seconds to ten years")
	}
	return nil
}

// SAML gives what is known, for site admins.
func (s *Service) SAML(ctx context.Context, actor authz.Actor) (found SAML, err error) {
	if err := allowSite(actor); err != nil {
		return SAML{}, err
	}
	err = postgres.InOneStatement(ctx, s.db, "scim.saml", func(tx postgres.Tx) error {
		found, err = postgres.One[SAML](ctx, tx, Queries.Get("SAML"), postgres.Args{})
		return err
	})
	return found, err
}

// ChangeSAML keeps what is said. The certificate of the identity provider that was there
// before stays beside a new one until RevokeOldCertificate.
func (s *Service) ChangeSAML(ctx context.Context, actor authz.Actor, c SAMLChange) (after SAML, err error) {
	err = s.onSettings(ctx, "scim.change-saml", actor, func(tx postgres.Tx, _ Settings) error {
		if err := c.check(); err != nil {
			return err
		}
		after, err = postgres.One[SAML](ctx, tx, Queries.Get("SAMLUpdate"), postgres.Args{
			"team_management": c.TeamManagement, "idp_cert": c.IDPCert, "certificate": c.Certificate, "slo_endpoint_url": c.SLOEndpointURL, "sso_endpoint_url": c.SSOEndpointURL,
			"attr_username": c.AttrUsername, "attr_groups": c.AttrGroups, "attr_site_admin": c.AttrSiteAdmin, "site_admin_role": c.SiteAdminRole,
			"signature_signing_method": c.SignatureSigningMethod, "signature_digest_method": c.SignatureDigestMethod, "provider_type": c.ProviderType, "session_timeout": c.SessionTimeout,
		})
		if err != nil {
			return err
		}
		if c.TeamManagement != nil {
			if err := settle(ctx, tx, actor); err != nil {
				return err
			}
		}
		return audit.Append(ctx, tx, entry(actor, "saml.settings-changed", "site", "saml", map[string]any{"team_management": after.TeamManagement, "provider_type": after.ProviderType}))
	})
	return after, err
}

// RevokeOldCertificate forgets the certificate before the last one.
func (s *Service) RevokeOldCertificate(ctx context.Context, actor authz.Actor) (after SAML, err error) {
	err = s.onSettings(ctx, "scim.revoke-old-certificate", actor, func(tx postgres.Tx, _ Settings) error {
		if after, err = postgres.One[SAML](ctx, tx, Queries.Get("SAMLForgetOld"), postgres.Args{}); err != nil {
			return err
		}
		return audit.Append(ctx, tx, entry(actor, "saml.old-certificate-revoked", "site", "saml", nil))
	})
	return after, err
}
