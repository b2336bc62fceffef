package site

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"time"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/postgres"
)

// Sealer seals what belongs to no organization.
type Sealer interface {
	SealSiteValue(ctx context.Context, label string, plain []byte) (rootVersion int, sealed []byte, err error)
	OpenSiteValue(ctx context.Context, label string, rootVersion int, sealed []byte) ([]byte, error)
}

// Identity signs tokens by which a run proves to others, such as a cloud, what it is: JSON
// web tokens of RS256, to be checked with the keys that PublicKeys gives.
type Identity struct {
	db     *postgres.DB
	sealer Sealer
	issuer string
}

// NewIdentity makes it.
func NewIdentity(db *postgres.DB, sealer Sealer) *Identity { return &Identity{db: db, sealer: sealer} }

// IssueAs says once, before anything is signed, the public address of the server, under which
// others find the keys.
func (i *Identity) IssueAs(address string) { i.issuer = address }

const keyBits = 2048

// clockSkew is how far this clock may be ahead of that of whoever checks a token: it counts from so
// much earlier on.
const clockSkew = 2 * time.Minute

func keyLabel(id string) string { return "signing-key/" + id }

// signingKey is a key as it is stored.
type signingKey struct {
	ID            string
	RootVersion   int
	PrivateSealed []byte
	Public        []byte
}

// Rotate makes a new key, which signs from now on. Those before it are still published, so
// that what they have signed can be checked until Trim. For site admins; to others it is
// NotFound.
func (i *Identity) Rotate(ctx context.Context, actor authz.Actor) error {
	if err := allowSite(actor); err != nil {
		return err
	}
	private, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return fmt.Errorf("make a signing key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		return fmt.Errorf("make a signing key: %w", err)
	}
	sum := sha256.Sum256(public)
	id := base64.RawURLEncoding.EncodeToString(sum[:])
	root, sealed, err := i.sealer.SealSiteValue(ctx, keyLabel(id), x509.MarshalPKCS1PrivateKey(private))
	if err != nil {
		return err
	}
	return postgres.InTx(ctx, i.db, "site.rotate-key", func(tx postgres.Tx) error {
		args := postgres.Args{"id": id, "root_version": root, "private_sealed": sealed, "public": public}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("SigningKeyInsert"), args); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{Actor: actor, Action: "signing-key.rotated", ObjectKind: "signing-key", ObjectID: id})
	})
}

// Trim forgets all keys but the newest: what the others have signed is worth nothing then.
// For site admins; to others it is NotFound.
func (i *Identity) Trim(ctx context.Context, actor authz.Actor) error {
	if err := allowSite(actor); err != nil {
		return err
	}
	return postgres.InTx(ctx, i.db, "site.trim-keys", func(tx postgres.Tx) error {
		n, err := postgres.Exec(ctx, tx, Queries.Get("SigningKeysTrim"), nil)
		if err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{Actor: actor, Action: "signing-keys.trimmed", ObjectKind: "signing-key", ObjectID: "site", Details: map[string]any{"forgotten": n}})
	})
}

// PublicKey is a key as others check by it (a JSON web key).
type PublicKey struct {
	Kty string `json:"kty"`
	Use string `json:"use"`
	Alg string `json:"alg"`
	Kid string `json:"kid"`
	N   string `json:"n"`
	E   string `json:"e"`
}

// PublicKeys gives all keys that count, the newest first. They are for everybody.
func (i *Identity) PublicKeys(ctx context.Context) ([]PublicKey, error) {
	var rows []signingKey
	err := postgres.InOneStatement(ctx, i.db, "site.public-keys", func(tx postgres.Tx) (err error) {
		rows, err = postgres.All[signingKey](ctx, tx, Queries.Get("SigningKeys"), nil)
		return err
	})
	keys := make([]PublicKey, 0, len(rows))
	for _, row := range rows {
		parsed, err := x509.ParsePKIXPublicKey(row.Public)
		if err != nil {
			return nil, fmt.Errorf("read the signing key %s: %w", row.ID, err)
		}
		public, ok := parsed.(*rsa.PublicKey)
		if !ok {
			return nil, fmt.Errorf("the signing key %s is no RSA key", row.ID)
		}
		encode := base64.RawURLEncoding.EncodeToString
		keys = append(keys, PublicKey{Kty: "RSA", Use: "sig", Alg: "RS256", Kid: row.ID, N: encode(public.N.Bytes()), E: encode(big.NewInt(int64(public.E)).Bytes())})
	}
	return keys, err
}

// Claims are what a token says of a run. Names are those of now.
type Claims struct {
	Audience                         string
	OrganizationID, OrganizationName string
	ProjectID, ProjectName           string
	WorkspaceID, WorkspaceName       string
	RunID, Phase                     string
	ExpiresAt                        time.Time
}

// Token signs what is said of a run. The first one makes the first key.
func (i *Identity) Token(ctx context.Context, c Claims) (string, error) {
	key, err := i.newest(ctx)
	if postgres.NoRow(err) {
		if err := i.Rotate(ctx, authz.System()); err != nil {
			return "", err
		}
		key, err = i.newest(ctx)
	}
	if err != nil {
		return "", err
	}
	opened, err := i.sealer.OpenSiteValue(ctx, keyLabel(key.ID), key.RootVersion, key.PrivateSealed)
	if err != nil {
		return "", err
	}
	private, err := x509.ParsePKCS1PrivateKey(opened)
	if err != nil {
		return "", fmt.Errorf("read the signing key %s: %w", key.ID, err)
	}
	now := clock.Now()
	unique := rand.Text()
	return sign(private, key.ID, map[string]any{
		"iss": i.issuer, "aud": c.Audience, "iat": now.Unix(), "nbf": now.Add(-clockSkew).Unix(), "exp": c.ExpiresAt.Unix(), "jti": unique,
		"sub":                       fmt.Sprintf("organization:%s:project:%s:workspace:%s:run_phase:%s", c.OrganizationName, c.ProjectName, c.WorkspaceName, c.Phase),
		"terraform_organization_id": c.OrganizationID, "terraform_organization_name": c.OrganizationName, "terraform_project_id": c.ProjectID, "terraform_project_name": c.ProjectName,
		"terraform_workspace_id": c.WorkspaceID, "terraform_workspace_name": c.WorkspaceName, "terraform_full_workspace": "organization:" + c.OrganizationName + ":project:" + c.ProjectName + ":workspace:" + c.WorkspaceName,
		"terraform_run_id": c.RunID, "terraform_run_phase": c.Phase,
	})
}

func (i *Identity) newest(ctx context.Context) (key signingKey, err error) {
	err = postgres.InOneStatement(ctx, i.db, "site.newest-key", func(tx postgres.Tx) error {
		key, err = postgres.One[signingKey](ctx, tx, Queries.Get("SigningKeyNewest"), nil)
		return err
	})
	return key, err
}

func sign(private *rsa.PrivateKey, kid string, claims map[string]any) (string, error) {
	header, err := json.Marshal(map[string]string{"alg": "RS256", "typ": "JWT", "kid": kid})
	if err != nil {
		return "", err
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode(header) + "." + encode(payload)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, private, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	return signed + "." + encode(signature), nil
}
