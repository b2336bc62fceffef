package artifacts

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Sealer seals values under one key of an organization, without asking the database
// again.
type Sealer struct {
	org ids.Organization
	key organizationKey
}

// Sealer gives the sealer that uses the organization's current key.
func (s *Service) Sealer(ctx context.Context, tx postgres.Tx, org ids.Organization) (Sealer, error) {
	key, err := s.currentKey(ctx, tx, org)
	return Sealer{org, key}, err
}

// Seal seals a small secret, such as a variable or an output, for a column. label
// names the place, such as "variable var-…": the value opens only under the same label.
func (s Sealer) Seal(label string, plain []byte) []byte {
	sealed := binary.AppendUvarint(nil, uint64(s.key.row.Version))
	return append(sealed, envelope.SealValue(s.key.key, valueAAD(s.org, label), plain)...)
}

// SealValue is Seal of the organization's current key.
func (s *Service) SealValue(ctx context.Context, tx postgres.Tx, org ids.Organization, label string, plain []byte) ([]byte, error) {
	sealer, err := s.Sealer(ctx, tx, org)
	if err != nil {
		return nil, err
	}
	return sealer.Seal(label, plain), nil
}

// OpenValue gives back what Seal sealed for the same organization and label.
// Anything else is fault.Internal with code sealed_value_corrupt.
func (s *Service) OpenValue(ctx context.Context, tx postgres.Tx, org ids.Organization, label string, sealed []byte) ([]byte, error) {
	version, n := binary.Uvarint(sealed)
	if n <= 0 || version == 0 || version > 1<<31-1 {
		return nil, fault.New(fault.Internal, "sealed_value_corrupt", "A stored secret cannot be opened: it does not say which key it was sealed under. Restore it from a backup or set it again.")
	}
	k, err := s.keyOf(ctx, tx, org, int(version))
	if err != nil {
		return nil, err
	}
	return envelope.OpenValue(k.key, valueAAD(org, label), sealed[n:])
}

func valueAAD(org ids.Organization, label string) []byte {
	return fmt.Appendf(nil, "holdfast value v1 %s %s", org, label)
}

// SealSiteValue seals a small secret that belongs to no organization, such as a user's
// second factor, under a key of its own that the root key wraps. rootVersion names the
// root key; it is kept beside the sealed bytes in a column root_version, where CheckKeys
// finds it. The value opens only under the same label.
func (s *Service) SealSiteValue(ctx context.Context, label string, plain []byte) (rootVersion int, sealed []byte, err error) {
	key := envelope.NewKey()
	wrapped, err := s.ring.Wrap(ctx, siteAAD(label), key)
	if err != nil {
		return 0, nil, err
	}
	sealed = binary.AppendUvarint(nil, uint64(len(wrapped.Bytes)))
	sealed = append(sealed, wrapped.Bytes...)
	return wrapped.RootVersion, append(sealed, envelope.SealValue(key, siteAAD(label), plain)...), nil
}

// OpenSiteValue gives back what SealSiteValue sealed for the same label. Anything else is
// fault.Internal with code sealed_value_corrupt, or root_key_missing.
func (s *Service) OpenSiteValue(ctx context.Context, label string, rootVersion int, sealed []byte) ([]byte, error) {
	size, n := binary.Uvarint(sealed)
	if n <= 0 || size > uint64(len(sealed)-n) {
		return nil, fault.New(fault.Internal, "sealed_value_corrupt", "A stored secret cannot be opened: its key is not there in full. Restore it from a backup or set it again.")
	}
	wrapped, value := sealed[n:n+int(size)], sealed[n+int(size):]
	key, err := s.ring.Unwrap(ctx, siteAAD(label), envelope.Wrapped{RootVersion: rootVersion, Bytes: wrapped})
	if err != nil {
		return nil, err
	}
	return envelope.OpenValue(key, siteAAD(label), value)
}

func siteAAD(label string) []byte { return fmt.Appendf(nil, "holdfast site value v1 %s", label) }
