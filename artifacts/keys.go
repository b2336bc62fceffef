package artifacts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// maxCachedKeys bounds the organization keys that are kept unwrapped in memory.
const maxCachedKeys = 1024

// organizationKey is a key that was unwrapped, and its row.
type organizationKey struct {
	row keyRow
	key envelope.Key
}

type keyName struct {
	organization ids.Organization
	version      int
}

// keyCache keeps organization keys unwrapped, so that a key service is not asked
// for every object.
type keyCache struct {
	mu     sync.Mutex
	keys   map[keyName]organizationKey
	copied map[keyName]bool // whose wrapped form this process has put into the store
}

func (c *keyCache) get(n keyName) (organizationKey, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.keys[n]
	return k, ok
}

func (c *keyCache) put(n keyName, k organizationKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.keys) >= maxCachedKeys {
		for victim := range c.keys { // any one: a miss costs one unwrap
			delete(c.keys, victim)
			delete(c.copied, victim)
			break
		}
	}
	c.keys[n] = k
}

func (c *keyCache) isCopied(n keyName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.copied[n]
}

// setCopied remembers it only beside the key, so that the two are bounded together.
func (c *keyCache) setCopied(n keyName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.keys[n]; ok {
		c.copied[n] = true
	}
}

// CreateOrganizationKey makes the key of a new organization; one that has a key
// keeps it. Nothing of an organization can be sealed before.
func (s *Service) CreateOrganizationKey(ctx context.Context, tx postgres.Tx, org ids.Organization) error {
	const first = 1
	wrapped, err := s.ring.Wrap(ctx, keyAAD(org, first), envelope.NewKey())
	if err != nil {
		return err
	}
	return insertKey(ctx, tx, org, first, wrapped)
}

// CheckKeys refuses, with fault.Internal and code root_key_missing, when the ring
// lacks a root key that stored data needs. A server calls it before it serves.
func (s *Service) CheckKeys(ctx context.Context) error {
	var versions []int
	err := postgres.InSnapshot(ctx, s.db, "artifacts.check-keys", func(tx postgres.Tx) (err error) {
		versions, err = postgres.Values[int](ctx, tx, queries.Get("RootVersions"), postgres.Args{})
		return err
	})
	if err != nil {
		return err
	}
	for _, v := range versions {
		has, err := s.ring.Has(ctx, v)
		if err != nil {
			return err
		}
		if !has {
			return fault.New(fault.Internal, "root_key_missing", "The key ring has no root key of version %d, under which stored data is sealed. Restore the key ring from a backup before starting the server.", v)
		}
	}
	return nil
}

// currentKey gives the key that new objects and values are sealed under.
func (s *Service) currentKey(ctx context.Context, tx postgres.Tx, org ids.Organization) (organizationKey, error) {
	row, err := readCurrentKey(ctx, tx, org)
	if err != nil {
		return organizationKey{}, err
	}
	if k, ok := s.cache.get(keyName{org, row.Version}); ok {
		return k, nil
	}
	return s.unwrap(ctx, org, row)
}

// keyOf gives the key of a version that something was sealed under.
func (s *Service) keyOf(ctx context.Context, tx postgres.Tx, org ids.Organization, version int) (organizationKey, error) {
	if k, ok := s.cache.get(keyName{org, version}); ok {
		return k, nil
	}
	row, err := readKey(ctx, tx, org, version)
	if err != nil {
		return organizationKey{}, err
	}
	return s.unwrap(ctx, org, row)
}

func (s *Service) unwrap(ctx context.Context, org ids.Organization, row keyRow) (organizationKey, error) {
	key, err := s.ring.Unwrap(ctx, keyAAD(org, row.Version), row.wrapped())
	if err != nil {
		return organizationKey{}, err
	}
	k := organizationKey{row: row, key: key}
	s.cache.put(keyName{org, row.Version}, k)
	return k, nil
}

// wrappedKeyFile is the copy of an organization key in the store.
type wrappedKeyFile struct {
	RootVersion int    `json:"root_version"`
	Wrapped     []byte `json:"wrapped"`
}

// copyKey puts the wrapped organization key into the store, once per process and
// key. Without the copy the sidecars could not be opened once the database is lost.
func (s *Service) copyKey(ctx context.Context, org ids.Organization, row keyRow) error {
	name := keyName{org, row.Version}
	if s.cache.isCopied(name) {
		return nil
	}
	content, err := json.Marshal(wrappedKeyFile{RootVersion: row.RootVersion, Wrapped: row.Wrapped})
	if err != nil {
		return err
	}
	if err := s.store.Put(ctx, fmt.Sprintf("%s/organization-key.%d", org, row.Version), bytes.NewReader(content)); err != nil {
		return err
	}
	s.cache.setCopied(name)
	return nil
}

// keyAAD binds a wrapped organization key to its place.
func keyAAD(org ids.Organization, version int) []byte {
	return fmt.Appendf(nil, "holdfast organization key v1 %s %d", org, version)
}

// dekAAD binds a wrapped DEK to its object.
func dekAAD(org ids.Organization, id ids.Object) []byte {
	return fmt.Appendf(nil, "holdfast dek v1 %s %s", org, id)
}
