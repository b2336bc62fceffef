package artifacts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

// Witness tells of the one apply of a run. It lies in the object store alone, so that
// it is still there when the database has lost what it had acknowledged: a witness
// without its row means that somebody has authority which nobody remembers.
type Witness struct {
	Organization ids.Organization `json:"organization"`
	Workspace    ids.Workspace    `json:"workspace"`
	Run          ids.Run          `json:"run"`
	Attempt      ids.Attempt      `json:"attempt"`
	Epoch        int64            `json:"epoch"`
	Sandbox      string           `json:"sandbox"`
	Nonce        string           `json:"nonce"`
	StartedAt    time.Time        `json:"started_at"`
}

const (
	witnessLabel = "witness"
	witnessLimit = 64 << 10 // bytes that are read of one
)

// witnessKey is no fresh key: what is put there a second time says the same.
func witnessKey(organization ids.Organization, workspace ids.Workspace, run ids.Run) string {
	return fmt.Sprintf("%s/%s/witness/%s", organization, workspace, run)
}

// PutWitness stores the witness of a run's apply, sealed by a key that is derived from
// the root key: it can be read without the database. Putting it again is fine.
// Errors: Unavailable when the store does not take it.
func (s *Service) PutWitness(ctx context.Context, w Witness) error {
	keys, err := s.ring.Derive(ctx, witnessLabel)
	if err != nil {
		return err
	}
	plain, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("write the witness of %s: %w", w.Run, err)
	}
	key := witnessKey(w.Organization, w.Workspace, w.Run)
	return s.store.Put(ctx, key, bytes.NewReader(envelope.SealValue(keys[0].Key, []byte(key), plain)))
}

// Witnessed gives the witness of a run's apply; found is false when there is none.
// Errors: Unavailable; Internal "sealed_value_corrupt" for bytes that were changed or
// moved there.
func (s *Service) Witnessed(ctx context.Context, organization ids.Organization, workspace ids.Workspace, run ids.Run) (w Witness, found bool, err error) {
	key := witnessKey(organization, workspace, run)
	body, err := s.store.Get(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return w, false, nil
	}
	if err != nil {
		return w, false, err
	}
	defer func() { _ = body.Close() }() // read only
	sealed, err := io.ReadAll(io.LimitReader(body, witnessLimit))
	if err != nil {
		return w, false, err
	}
	keys, err := s.ring.Derive(ctx, witnessLabel)
	if err != nil {
		return w, false, err
	}
	for _, k := range keys {
		var plain []byte
		if plain, err = envelope.OpenValue(k.Key, []byte(key), sealed); err == nil {
			return w, true, json.Unmarshal(plain, &w)
		}
	}
	return w, false, err
}
