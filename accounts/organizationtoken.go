package accounts

import (
	"context"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
)

// CreateOrganizationToken makes the organization's token of a kind, OrganizationToken or
// AuditToken, in the place of the one before, and gives its plain text, which cannot be
// had again. Only for owners themselves.
func (s *Service) CreateOrganizationToken(ctx context.Context, actor authz.Actor, organization string, kind TokenKind, n NewToken) (plain string, token Token, err error) {
	if err := n.check(); err != nil {
		return "", Token{}, err
	}
	err = postgres.InTx(ctx, s.db, "accounts.create-organization-token", func(tx postgres.Tx) error {
		org, err := AllowedOrganization(ctx, tx, actor, authz.OrganizationTokens, organization)
		if err != nil {
			return err
		}
		if err := checkOrganizationKind(kind); err != nil {
			return err
		}
		if _, err := postgres.Values[bool](ctx, tx, queries.Get("OrganizationTokenEnd"), postgres.Args{"organization_id": org.ID, "kind": string(kind)}); err != nil {
			return err
		}
		plain, token, err = insertToken(ctx, tx, actor, Token{Kind: kind, Organization: org.ID}, n)
		if violates(err, "tokens_one_of_organization") { // somebody else made one at the same time
			return fault.New(fault.Conflict, "token_made", "Another token of this organization was made at the same time. Try again.")
		}
		return err
	})
	if err != nil {
		return "", Token{}, err
	}
	return plain, token, nil
}

func checkOrganizationKind(kind TokenKind) error {
	if kind != OrganizationToken && kind != AuditToken {
		return fault.New(fault.Malformed, "invalid_parameter", "An organization has no token of the kind %q. Leave token out, or say %s.", kind, AuditToken)
	}
	return nil
}

// OrganizationToken gives the organization's token of a kind. None is NotFound.
func (s *Service) OrganizationToken(ctx context.Context, actor authz.Actor, organization string, kind TokenKind) (token Token, err error) {
	err = postgres.InSnapshot(ctx, s.db, "accounts.organization-token", func(tx postgres.Tx) error {
		org, err := AllowedOrganization(ctx, tx, actor, authz.OrganizationTokens, organization)
		if err != nil {
			return err
		}
		if err := checkOrganizationKind(kind); err != nil {
			return err
		}
		token, err = postgres.One[Token](ctx, tx, queries.Get("OrganizationTokenOf"), postgres.Args{"organization_id": org.ID, "kind": string(kind)})
		if postgres.NoRow(err) {
			return fault.Missing("token of organization", organization)
		}
		return err
	})
	return token, err
}

// RevokeOrganizationToken ends the organization's token of a kind at once. None is NotFound.
func (s *Service) RevokeOrganizationToken(ctx context.Context, actor authz.Actor, organization string, kind TokenKind) error {
	return postgres.InTx(ctx, s.db, "accounts.revoke-organization-token", func(tx postgres.Tx) error {
		org, err := AllowedOrganization(ctx, tx, actor, authz.OrganizationTokens, organization)
		if err != nil {
			return err
		}
		if err := checkOrganizationKind(kind); err != nil {
			return err
		}
		counted, err := postgres.Value[bool](ctx, tx, queries.Get("OrganizationTokenEnd"), postgres.Args{"organization_id": org.ID, "kind": string(kind)})
		if postgres.NoRow(err) || (err == nil && !counted) {
			return fault.Missing("token of organization", organization)
		}
		if err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: org.ID, Actor: actor, Action: "token.revoked", ObjectKind: "organization", ObjectID: string(org.ID), Details: map[string]any{"kind": kind},
		})
	})
}
