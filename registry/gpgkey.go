package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	pgp "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// GPGKey is a public key that providers of an organization are signed with.
type GPGKey struct {
	ID               ids.GPGKey
	Organization     ids.Organization
	OrganizationName string
	KeyID            string // 16 capital hexadecimal digits
	ASCIIArmor       string // as it was sent
	CreatedAt        time.Time
	UpdatedAt        time.Time
}

const maxArmor = 128 << 10

// readKey gives the one public key of a text.
func readKey(text string) (*openpgp.Entity, error) {
	wrong := func(why string) error { return accounts.Invalid("ascii-armor", "Ascii armor %s", why) }
	if len(text) > maxArmor || !accounts.Storable(text) {
		return nil, wrong(fmt.Sprintf("must be text of at most %d bytes", maxArmor))
	}
	block, err := armor.Decode(strings.NewReader(text))
	if err != nil {
		return nil, wrong("is no armored key. Send what gpg --armor --export prints")
	}
	if block.Type == openpgp.PrivateKeyType {
		return nil, wrong("is a private key, which has no business here. Send what gpg --armor --export prints, and consider this key known to others")
	}
	if block.Type != openpgp.PublicKeyType {
		return nil, wrong("must be a public key block. Send what gpg --armor --export prints")
	}
	keys, err := openpgp.ReadKeyRing(block.Body)
	switch {
	case err != nil || len(keys) == 0:
		return nil, wrong("holds no public key that can be used")
	case len(keys) > 1:
		return nil, wrong("holds several keys. Send each by itself")
	case keys[0].PrivateKey != nil:
		return nil, wrong("holds a private key. Send what gpg --armor --export prints")
	}
	return keys[0], nil
}

// normalKeyID is a key id as keys have it: of a fingerprint only its end, in capitals.
func normalKeyID(text string) string {
	text = strings.ToUpper(strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X"))
	if len(text) == 40 {
		return text[24:]
	}
	return text
}

// AddKey keeps a public key. Invalid for what is none; a key that is there already is taken.
func (s *Service) AddKey(ctx context.Context, actor authz.Actor, organization, asciiArmor string) (k GPGKey, err error) {
	err = postgres.InTx(ctx, s.db, "registry.add-key", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.ProvidersManage, organization)
		if err != nil {
			return err
		}
		entity, err := readKey(asciiArmor)
		if err != nil {
			return err
		}
		id, keyID := ids.New[ids.GPGKey](), entity.PrimaryKey.KeyIdString()
		_, err = postgres.Exec(ctx, tx, Queries.Get("KeyInsert"), postgres.Args{"id": id, "organization_id": org.ID, "key_id": keyID, "ascii_armor": asciiArmor})
		if err != nil {
			return keyTaken(err)
		}
		if err := record(ctx, tx, actor, org.ID, "gpg-key.created", "gpg-key", string(id), map[string]any{"key_id": keyID}); err != nil {
			return err
		}
		k, err = keyOf(ctx, tx, org, keyID)
		return err
	})
	return k, err
}

func keyTaken(err error) error {
	if _, constraint := postgres.Violation(err); constraint == "gpg_keys_key" {
		return accounts.Invalid("ascii-armor", "Key has already been added to this organization")
	}
	return err
}

func keyOf(ctx context.Context, tx postgres.Tx, org accounts.Organization, keyID string) (GPGKey, error) {
	if !accounts.Storable(keyID) {
		return GPGKey{}, fault.Missing("GPG key", keyID)
	}
	k, err := postgres.One[GPGKey](ctx, tx, Queries.Get("KeyGet"), postgres.Args{"organization_id": org.ID, "key_id": normalKeyID(keyID)})
	if postgres.NoRow(err) {
		return GPGKey{}, fault.Missing("GPG key", keyID)
	}
	return k, err
}

// Key gives one key of an organization.
func (s *Service) Key(ctx context.Context, actor authz.Actor, organization, keyID string) (k GPGKey, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.key", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		k, err = keyOf(ctx, tx, org, keyID)
		return err
	})
	return k, err
}

const maxNamespaces = 20

// Keys gives a page of the keys of some organizations, by organization and key, and counts all.
func (s *Service) Keys(ctx context.Context, actor authz.Actor, organizations []string, p Page) (page []GPGKey, total int, err error) {
	if len(organizations) == 0 || len(organizations) > maxNamespaces {
		return nil, 0, fault.New(fault.Malformed, "invalid_parameter", "The query parameter filter[namespace] must name 1 to %d organizations, with commas between.", maxNamespaces)
	}
	err = postgres.InSnapshot(ctx, s.db, "registry.keys", func(tx postgres.Tx) error {
		var of []string
		for _, name := range organizations {
			org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, name)
			if err != nil {
				return err
			}
			of = append(of, string(org.ID))
		}
		page, total, err = list[GPGKey](ctx, tx, "KeyList", "KeyCount", postgres.Args{"organizations": of, "limit": p.Limit, "offset": p.Offset})
		return err
	})
	return page, total, err
}

// MoveKey gives a key to another organization. Forbidden "namespace_not_authorized" when the
// actor may not manage providers there, or there is no such organization; Conflict
// "gpg_key_in_use" while providers are signed with it.
func (s *Service) MoveKey(ctx context.Context, actor authz.Actor, organization, keyID, to string) (k GPGKey, err error) {
	err = postgres.InTx(ctx, s.db, "registry.move-key", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.ProvidersManage, organization)
		if err != nil {
			return err
		}
		if k, err = keyOf(ctx, tx, org, keyID); err != nil {
			return err
		}
		target, err := accounts.AllowedOrganization(ctx, tx, actor, authz.ProvidersManage, to)
		if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Forbidden) {
			return fault.New(fault.Forbidden, "namespace_not_authorized", "namespace not authorized: you manage the providers of no organization called %q.", to)
		}
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("KeyMove"), postgres.Args{"id": k.ID, "organization_id": org.ID, "to": target.ID})
		if err != nil {
			return keyInUse(keyTaken(err), k)
		}
		if n == 0 {
			return fault.Missing("GPG key", keyID)
		}
		if target.ID != org.ID {
			if err := record(ctx, tx, actor, org.ID, "gpg-key.moved-away", "gpg-key", string(k.ID), map[string]any{"key_id": k.KeyID}); err != nil {
				return err
			}
			if err := record(ctx, tx, actor, target.ID, "gpg-key.moved-here", "gpg-key", string(k.ID), map[string]any{"key_id": k.KeyID}); err != nil {
				return err
			}
		}
		k, err = keyOf(ctx, tx, target, keyID)
		return err
	})
	return k, err
}

func keyInUse(err error, k GPGKey) error {
	if _, constraint := postgres.Violation(err); constraint == "registry_provider_versions_signer" {
		return fault.New(fault.Conflict, "gpg_key_in_use", "Versions of providers are signed with key %s. Delete them first.", k.KeyID)
	}
	return err
}

// DeleteKey removes a key. Conflict "gpg_key_in_use" while providers are signed with it.
func (s *Service) DeleteKey(ctx context.Context, actor authz.Actor, organization, keyID string) error {
	return postgres.InTx(ctx, s.db, "registry.delete-key", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.ProvidersManage, organization)
		if err != nil {
			return err
		}
		k, err := keyOf(ctx, tx, org, keyID)
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("KeyDelete"), postgres.Args{"id": k.ID, "organization_id": org.ID})
		if err != nil {
			return keyInUse(err, k)
		}
		if n == 0 {
			return fault.Missing("GPG key", keyID)
		}
		return record(ctx, tx, actor, org.ID, "gpg-key.deleted", "gpg-key", string(k.ID), map[string]any{"key_id": k.KeyID})
	})
}

// checkSignature answers nil when signature is a detached signature of signed by the key.
func checkSignature(k GPGKey, signed, signature []byte) error {
	wrong := func(why string) error {
		return fault.New(fault.Invalid, "signature_refused", "The signature of SHA256SUMS is refused: %s", why)
	}
	if bytes.HasPrefix(bytes.TrimSpace(signature), []byte("-----BEGIN")) {
		return wrong("it is armored, which tofu does not read. Make it with gpg --detach-sign, without --armor.")
	}
	entity, err := readKey(k.ASCIIArmor)
	if err != nil {
		return fmt.Errorf("read GPG key %s: %w", k.ID, err)
	}
	_, err = openpgp.CheckDetachedSignature(openpgp.EntityList{entity}, bytes.NewReader(signed), bytes.NewReader(signature), &packet.Config{Time: clock.Now})
	var bad pgp.SignatureError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgp.ErrUnknownIssuer):
		return wrong("it was not made with key " + k.KeyID + ", which this version names.")
	case errors.Is(err, pgp.ErrKeyExpired):
		return wrong("key " + k.KeyID + " has expired. Add the key again with a later expiry.")
	case errors.Is(err, pgp.ErrKeyRevoked):
		return wrong("key " + k.KeyID + " is revoked.")
	case errors.Is(err, pgp.ErrSignatureExpired):
		return wrong("it has expired.")
	case errors.As(err, &bad):
		return wrong("it does not fit the SHA256SUMS that were uploaded.")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return wrong("it is cut off.")
	}
	return wrong("it is no signature by OpenPGP: " + err.Error() + ".")
}
