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

// SealValue seals a small secret, such as a variable or an output, under the
// organization's key, for a column. label names the place, such as
// "variable var-…": the value opens only under the same label.
func (s *Service) SealValue(ctx context.Context, tx postgres.Tx, org ids.Organization, label string, plain []byte) ([]byte, error) {
	k, err := s.currentKey(ctx, tx, org)
	if err != nil {
		return nil, err
	}
	sealed := binary.AppendUvarint(nil, uint64(k.row.Version))
	return append(sealed, envelope.SealValue(k.key, valueAAD(org, label), plain)...), nil
}

// OpenValue gives back what SealValue sealed for the same organization and label.
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
