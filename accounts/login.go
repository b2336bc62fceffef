package accounts

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"regexp"
	"strconv"
	"time"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// What a client that logs in is told. There is one public client, which has no secret:
// what proves it is the verifier of its challenge.
const (
	LoginClient    = "holdfast-cli"
	LoginFirstPort = 10000 // of the range on the user's machine where the client waits
	LoginEndPort   = 10100 // exclusive
)

// LoginLifetime is how long a token lives that a client has logged in for. It is long,
// because the client cannot renew one.
const LoginLifetime = 365 * 24 * time.Hour

// LoginRequest is what a client asks for: to be given a code at RedirectURI, which only
// the holder of the verifier behind Challenge can exchange (PKCE, RFC 7636, S256).
type LoginRequest struct {
	Client      string
	RedirectURI string
	Challenge   string
}

var (
	loginRedirect  = regexp.MustCompile(`^http://(?:localhost|127\.0\.0\.1):([1-9][0-9]{3,4})/login$`)
	loginChallenge = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
)

// Check says what is wrong with the request. A code is sent only to a port of the
// user's own machine, so a request that passes can lead nobody to a foreign site.
func (r LoginRequest) Check() error {
	port := 0
	if parts := loginRedirect.FindStringSubmatch(r.RedirectURI); parts != nil {
		port, _ = strconv.Atoi(parts[1]) // the pattern lets only digits through
	}
	switch {
	case r.Client != LoginClient:
		return fault.New(fault.Invalid, "invalid_client", "The program that wants to log in is unknown here. Update it, or run tofu login again.")
	case port < LoginFirstPort || port >= LoginEndPort:
		return fault.New(fault.Invalid, "invalid_redirect_uri",
			"The login must lead back to your own machine: http://localhost:PORT/login with a port from %d to %d.", LoginFirstPort, LoginEndPort-1)
	case !loginChallenge.MatchString(r.Challenge):
		return fault.New(fault.Invalid, "invalid_challenge", "The login lacks its proof key (PKCE, S256). Update the program that wants to log in.")
	}
	return nil
}

// CreateLoginCode gives a code for the request in the name of the session's user, who
// has consented. It lasts 60 seconds and no longer than the session. from says where
// the consent came from; it stands in the description of the token. Errors: as Check;
// Unauthenticated when the session is over.
func (s *Service) CreateLoginCode(ctx context.Context, session string, r LoginRequest, from string) (string, error) {
	if err := r.Check(); err != nil {
		return "", err
	}
	code, hash := newSecret(codePrefix)
	err := postgres.InTx(ctx, s.db, "accounts.create-login-code", func(tx postgres.Tx) error {
		n, err := postgres.Exec(ctx, tx, queries.Get("LoginCodeInsert"), postgres.Args{
			"hash": hash, "session": digest(session), "client": r.Client, "redirect_uri": r.RedirectURI, "challenge": r.Challenge,
			"description": loginDescription(from),
		})
		if err == nil && n == 0 {
			return fault.New(fault.Unauthenticated, "session_over", "You are signed out. Sign in to go on.")
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return code, nil
}

func loginDescription(from string) string {
	return "tofu login from " + from + ", for " + strconv.Itoa(int(LoginLifetime.Hours()/24)) + " days"
}

// LoginExchange is what a client brings to get its token.
type LoginExchange struct {
	Code        string
	Client      string
	RedirectURI string
	Verifier    string
}

// RedeemLoginCode exchanges a code for a token of the user who consented. A code is
// spent by its first use, right or wrong. A second use shows that somebody else had
// the code, so the token that it gave is revoked. Every refusal is the same Invalid,
// invalid_grant.
func (s *Service) RedeemLoginCode(ctx context.Context, x LoginExchange) (plain string, token Token, err error) {
	refused := error(fault.New(fault.Invalid, "invalid_grant", "The code is not valid, has been used or is over. Run tofu login again."))
	if !wellFormed(x.Code, codePrefix) {
		return "", Token{}, refused
	}
	type row struct {
		Client, RedirectURI, Challenge, Description string
		Fresh                                       bool
		UserID                                      ids.User // empty: the session is over
	}
	hash, granted := digest(x.Code), false
	err = postgres.InTx(ctx, s.db, "accounts.redeem-login-code", func(tx postgres.Tx) error {
		granted = false
		code, err := postgres.One[row](ctx, tx, queries.Get("LoginCodeSpend"), postgres.Args{"hash": hash})
		if postgres.NoRow(err) {
			return revokeReplayed(ctx, tx, hash)
		}
		if err != nil {
			return err
		}
		if code.UserID == "" || !code.Fresh || code.Client != x.Client || code.RedirectURI != x.RedirectURI || !proves(x.Verifier, code.Challenge) {
			return nil // committed: the code is spent
		}
		actor := authz.Actor{Kind: authz.UserActor, User: code.UserID}
		if plain, token, err = insertToken(ctx, tx, actor, Token{Kind: UserToken, User: code.UserID}, NewToken{Description: code.Description, lifetime: LoginLifetime}); err != nil {
			return err
		}
		granted = true
		_, err = postgres.Exec(ctx, tx, queries.Get("LoginCodeTokenSet"), postgres.Args{"hash": hash, "token_id": token.ID})
		return err
	})
	switch {
	case err != nil:
		return "", Token{}, err
	case !granted:
		return "", Token{}, refused
	}
	return plain, token, nil
}

// revokeReplayed revokes the token of a code that is already spent.
func revokeReplayed(ctx context.Context, tx postgres.Tx, hash []byte) error {
	type row struct {
		ID     ids.Token
		UserID ids.User
	}
	given, err := postgres.One[row](ctx, tx, queries.Get("LoginCodeToken"), postgres.Args{"hash": hash})
	if postgres.NoRow(err) {
		return nil
	}
	if err != nil {
		return err
	}
	n, err := postgres.Exec(ctx, tx, queries.Get("TokenRevoke"), postgres.Args{"id": given.ID, "user_id": given.UserID})
	if err != nil || n == 0 {
		return err // no row: its user has revoked it just now
	}
	return audit.Append(ctx, tx, audit.Entry{
		Actor: authz.System(), Action: "token.revoked", ObjectKind: "token", ObjectID: string(given.ID),
		Reason: "the code of its login was used again", Details: map[string]any{"user": given.UserID},
	})
}

// proves tells whether the challenge was made from the verifier.
func proves(verifier, challenge string) bool {
	sum := sha256.Sum256([]byte(verifier))
	return verifier != "" && subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) == 1
}
