package dispatch

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// A session has two credentials, both derived and stored nowhere (AU-09): the bootstrap
// capability, which is short-lived and redeemed once, and the token, which is its
// redemption and lasts as long as the attempt has authority.
const (
	tokenPrefix     = "hfa_"
	bootstrapPrefix = "hfb_"
)

// Claims are what a credential says of itself, under the server's code: enough to know
// what it was for when the database does not.
type Claims struct {
	Attempt      ids.Attempt      `json:"att"`
	Run          ids.Run          `json:"run"`
	Organization ids.Organization `json:"org"`
	Workspace    ids.Workspace    `json:"ws"`
	Phase        authz.Phase      `json:"phase"`
	Sandbox      string           `json:"sbx"`
	Epoch        int64            `json:"epoch"`
	JTI          string           `json:"jti"`
}

func claimsOf(a Attempt) Claims {
	c := Claims{Attempt: a.ID, Run: a.RunID, Organization: a.OrganizationID, Workspace: a.WorkspaceID, Phase: a.Phase, Sandbox: a.SandboxID, JTI: a.JTI}
	if a.FenceEpoch != nil {
		c.Epoch = *a.FenceEpoch
	}
	return c
}

// Nonce names the one execution of an attempt (AU-15): whoever prepares it again comes
// to the same.
func Nonce(run ids.Run, attempt ids.Attempt) string {
	return InputDigest("execution/" + string(run) + "/" + string(attempt))
}

// Digest is that of everything an acceptance says: a repeat has the same.
func (by Acceptance) Digest() string {
	return InputDigest(by.Runner, by.Sandbox, by.JSONLog, by.Bootstrap, by.Release.Version, by.Release.Digest)
}

// InputDigest is the SHA-256, hex, of the parts as JSON, which keeps them apart.
func InputDigest(parts ...any) string {
	encoded, err := json.Marshal(parts)
	if err != nil {
		panic(err) // only for parts that no caller here has
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

func openSession(ctx context.Context, tx postgres.Tx, a Attempt, by Acceptance) error {
	redeemed := ""
	if !by.Bootstrap {
		redeemed = Redemption{Runner: by.Runner, Phase: a.Phase, Sandbox: by.Sandbox}.digest()
	}
	return postgres.Later(ctx, tx, Queries.Get("OpenSession"), postgres.Args{
		"jti": rand.Text(), "attempt_id": a.ID, "phase": string(a.Phase), "sandbox_id": by.Sandbox, "lifetime_seconds": by.Lifetime.Seconds(), "redemption_digest": redeemed,
	}, nil)
}

// Token gives the session token of a running attempt. It is derived, so the exact
// repeat of a redemption gives the same one.
func (s *Service) Token(a Attempt) string {
	return s.mint(tokenPrefix, claimsOf(a), *a.TokenExpiresAt)
}

func (s *Service) mint(prefix string, c Claims, expires time.Time) string {
	encoded, err := json.Marshal(c)
	if err != nil {
		panic(err) // a struct of texts and a number
	}
	body := base64.RawURLEncoding.EncodeToString(encoded)
	return prefix + body + "." + s.links.Mint(prefix+body, expires)
}

// read gives the claims of a credential that this installation has minted.
func (s *Service) read(prefix, token string) (c Claims, ok bool) {
	rest, ok := strings.CutPrefix(token, prefix)
	if !ok {
		return c, false
	}
	body, code, ok := strings.Cut(rest, ".")
	if !ok || !s.links.Minted(code, prefix+body) {
		return c, false
	}
	encoded, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil || json.Unmarshal(encoded, &c) != nil {
		return c, false
	}
	return c, true
}

// IsToken tells whether the text looks like a session token.
func IsToken(token string) bool { return strings.HasPrefix(token, tokenPrefix) }

// Identify gives the actor a session token stands for, as long as its attempt runs and
// its authority lasts. lost is set when the token was minted here and the database does
// not know its session: it has lost what it had acknowledged, and whoever asks must
// hold the workspace.
// Errors: Unauthenticated "unauthenticated", "session_ended" and "capability_expired".
func (s *Service) Identify(ctx context.Context, token string) (actor authz.Actor, lost *Claims, err error) {
	c, ok := s.read(tokenPrefix, token)
	if !ok {
		return actor, nil, fault.New(fault.Unauthenticated, "unauthenticated", "This attempt's token is not valid.")
	}
	err = postgres.InOneStatement(ctx, s.db, "dispatch.identify", func(tx postgres.Tx) error {
		row, known, err := session(ctx, tx, c)
		if err != nil {
			return err
		}
		switch {
		case !known:
			lost = &c
		case row.Status != Running:
			return fault.New(fault.Unauthenticated, "session_ended", "The attempt of this token has ended.")
		case !row.Live:
			return fault.New(fault.Unauthenticated, "capability_expired", "The authority of this attempt has ended.")
		}
		actor = authz.Actor{
			Kind: authz.AttemptActor, Name: string(row.RunID), Attempt: row.ID, Run: row.RunID, Organization: row.OrganizationID, Workspace: row.WorkspaceID,
			Phase: row.Phase, Sandbox: row.SandboxID, Epoch: row.FenceEpoch, Predecessor: row.PredecessorVersionID, Applying: row.Applying,
		}
		return nil
	})
	return actor, lost, err
}

type sessionRow struct {
	ID                   ids.Attempt
	OrganizationID       ids.Organization
	WorkspaceID          ids.Workspace
	RunID                ids.Run
	Phase                authz.Phase
	Status               Status
	SandboxID            string
	FenceEpoch           int64
	PredecessorVersionID ids.StateVersion
	Applying             bool
	Live                 bool
	JTI                  string `db:"jti"`
}

// session reads the row of a credential's session; known is false when the database has
// none that says the same.
func session(ctx context.Context, tx postgres.Tx, c Claims) (row sessionRow, known bool, err error) {
	row, err = postgres.One[sessionRow](ctx, tx, Queries.Get("Session"), postgres.Args{"id": c.Attempt})
	if postgres.NoRow(err) {
		return row, false, nil
	}
	if err != nil {
		return row, false, err
	}
	same := Claims{
		Attempt: row.ID, Run: row.RunID, Organization: row.OrganizationID, Workspace: row.WorkspaceID, Phase: row.Phase, Sandbox: row.SandboxID, Epoch: row.FenceEpoch, JTI: row.JTI,
	}
	return row, same == c, nil
}

// Authenticate is Identify for those who cannot hold a workspace: a session that the
// database does not know is RecoveryHeld "authority_lost" to them.
func (s *Service) Authenticate(ctx context.Context, token string) (authz.Actor, error) {
	actor, lost, err := s.Identify(ctx, token)
	if lost != nil {
		return authz.Actor{}, lost.Refusal()
	}
	return actor, err
}

// Refusal is the answer to a session that the database does not know.
func (c Claims) Refusal() error {
	return fault.New(fault.RecoveryHeld, "authority_lost", "The server handed out this session of %s and does not know it any more: its database has lost what it had acknowledged. Nothing is accepted, and the workspace is held until an operator has looked at it.", c.Run)
}

// IdentifyEnded gives the session that a token was made for, even when the attempt
// has ended: only a repeated report may use it. lost is as of Identify.
func (s *Service) IdentifyEnded(ctx context.Context, token string) (known Claims, lost *Claims, err error) {
	c, ok := s.read(tokenPrefix, token)
	if !ok {
		return Claims{}, nil, fault.New(fault.Unauthenticated, "unauthenticated", "This attempt's token is not valid.")
	}
	err = postgres.InOneStatement(ctx, s.db, "dispatch.identify-ended", func(tx postgres.Tx) error {
		_, known, err := session(ctx, tx, c)
		if err == nil && !known {
			lost = &c
		}
		return err
	})
	return c, lost, err
}

// Redemption is what a bootstrap capability is redeemed with: it must say what the
// capability is bound to.
type Redemption struct {
	Runner  ids.Runner
	Phase   authz.Phase
	Sandbox string
}

func (r Redemption) digest() string { return InputDigest(r.Runner, r.Phase, r.Sandbox) }

// Bootstrap gives the capability of an accepted attempt and its expiry. The exact
// repeat gives the same one.
func (s *Service) Bootstrap(ctx context.Context, tx postgres.Tx, a Attempt) (capability string, expires time.Time, err error) {
	row, err := bootstrap(ctx, tx, a.ID)
	if err != nil {
		return "", time.Time{}, err
	}
	return s.mint(bootstrapPrefix, claimsOf(a), row.BootstrapExpiresAt), row.BootstrapExpiresAt, nil
}

type bootstrapRow struct {
	JTI                string `db:"jti"`
	AttemptID          ids.Attempt
	Phase              authz.Phase
	SandboxID          string
	BootstrapExpiresAt time.Time
	Open               bool
	RedeemedAt         *time.Time
	RedemptionDigest   string
}

func bootstrap(ctx context.Context, tx postgres.Tx, id ids.Attempt) (bootstrapRow, error) {
	row, err := postgres.One[bootstrapRow](ctx, tx, Queries.Get("BootstrapGet"), postgres.Args{"attempt_id": id})
	if postgres.NoRow(err) {
		return row, fault.New(fault.Conflict, "evidence_incomplete", "Attempt %s was accepted and has no session.", id)
	}
	return row, err
}

// BootstrapOf gives what a bootstrap capability was minted for.
// Errors: Unauthenticated.
func (s *Service) BootstrapOf(capability string) (Claims, error) {
	c, ok := s.read(bootstrapPrefix, capability)
	if !ok {
		return c, fault.New(fault.Unauthenticated, "unauthenticated", "This bootstrap capability is not valid.")
	}
	return c, nil
}

// Redeem consumes the capability of a running attempt, whose row the caller holds, once
// (AU-10, AU-12). The exact repeat within its expiry changes nothing and succeeds (AU-11).
// Errors: Unauthenticated "capability_expired"; Conflict "capability_replayed" for a
// repeat with other input; Forbidden "capability_mismatch" for a first redemption that
// is not what the capability is bound to, which does not consume it.
func Redeem(ctx context.Context, tx postgres.Tx, a Attempt, c Claims, with Redemption) error {
	row, err := bootstrap(ctx, tx, a.ID)
	if err != nil {
		return err
	}
	replayed := row.RedeemedAt != nil
	switch {
	case a.Status != Running:
		return fault.New(fault.Unauthenticated, "session_ended", "The attempt of this capability has ended.")
	case !row.Open:
		return fault.New(fault.Unauthenticated, "capability_expired", "This bootstrap capability expired at %s. The attempt ends when its runner is not heard of.", row.BootstrapExpiresAt.UTC().Format(time.RFC3339))
	case replayed && row.RedemptionDigest == with.digest():
		return nil
	case replayed:
		return fault.New(fault.Conflict, "capability_replayed", "This bootstrap capability was redeemed before, with something else. It is good once.")
	case c.JTI != row.JTI || with.Phase != row.Phase || with.Sandbox != row.SandboxID || with.Runner != a.RunnerID:
		return fault.New(fault.Forbidden, "capability_mismatch", "This bootstrap capability is for another runner, phase or sandbox.")
	}
	n, err := postgres.Exec(ctx, tx, Queries.Get("Redeem"), postgres.Args{"jti": row.JTI, "redemption_digest": with.digest()})
	if err == nil && n != 1 {
		err = fmt.Errorf("redeem the session of %s: %d rows", a.ID, n)
	}
	return err
}

// Return gives an assigned attempt back to the others, because a gate closed before it
// was accepted.
func Return(ctx context.Context, tx postgres.Tx, a Attempt) error {
	_, err := postgres.Exec(ctx, tx, Queries.Get("Return"), postgres.Args{"id": a.ID})
	return err
}

// mostOffers is how often an attempt is offered before its run fails: an outage costs one
// or two, and one that ends every runner that takes it shall not go round for ever.
const mostOffers = 3

// OfferAgain gives an attempt whose offer has expired back to the others and wakes them
// (G-46, decision 12). again is false when it was offered too often.
func OfferAgain(ctx context.Context, tx postgres.Tx, id ids.Attempt) (again bool, err error) {
	_, err = postgres.Value[ids.Attempt](ctx, tx, Queries.Get("OfferAgain"), postgres.Args{"id": id, "most": mostOffers})
	if postgres.NoRow(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("offer %s again: %w", id, err)
	}
	return true, notifyDemand(ctx, tx, id)
}

// DenyStart notes that a gate refused the attempt's apply-start.
func DenyStart(ctx context.Context, tx postgres.Tx, id ids.Attempt) error {
	_, err := postgres.Exec(ctx, tx, Queries.Get("DenyStart"), postgres.Args{"id": id})
	return err
}
