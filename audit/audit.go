package audit

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

//go:embed queries.sql
var queriesSQL string

// Queries are the package's statements; tests check them against the schema.
var Queries = postgres.ParseQueries(queriesSQL)

// Entry is one action. Organization is empty for an action on the whole site.
type Entry struct {
	Organization ids.Organization
	Actor        authz.Actor
	Action       string // such as "state.finalized"
	ObjectKind   string // such as "workspace"
	ObjectID     string
	Reason       string // what a person gave as the reason
	Details      map[string]any
}

// Append writes the entry in the caller's transaction, with its next statement.
func Append(ctx context.Context, tx postgres.Tx, e Entry) error {
	details := e.Details
	if details == nil {
		details = map[string]any{}
	}
	encoded, err := json.Marshal(details)
	if err != nil {
		return fmt.Errorf("audit %s: %w", e.Action, err)
	}
	var organization any
	if e.Organization != "" {
		organization = e.Organization
	}
	err = postgres.Later(ctx, tx, Queries.Get("Append"), postgres.Args{
		"id": ids.New[ids.AuditEntry](), "organization_id": organization,
		"actor_kind": string(e.Actor.Kind), "actor_id": e.Actor.ID(), "action": e.Action,
		"object_kind": e.ObjectKind, "object_id": e.ObjectID, "reason": e.Reason, "details": string(encoded), "request_id": requestOf(ctx),
	}, nil)
	if err != nil {
		return fmt.Errorf("audit %s: %w", e.Action, err)
	}
	return nil
}
