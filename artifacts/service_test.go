package artifacts_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/artifacts/storetest"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

// fixture is a service over a real database, with one organization that has its key.
type fixture struct {
	*artifacts.Service
	db      *postgres.DB
	store   *storetest.Memory
	keyring string // path
	org     ids.Organization
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	store := storetest.NewMemory()
	f := newFixtureOn(t, store)
	f.store = store
	return f
}

func newFixtureOn(t testing.TB, store artifacts.ObjectStore) *fixture {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keyring.json")
	require.NoError(t, envelope.CreateKeyring(path))
	f := &fixture{db: testdb.New(t), keyring: path}
	f.Service = artifacts.New(f.db, store, openRing(t, path))
	f.org = f.newOrganization(t)
	return f
}

func openRing(t testing.TB, path string) *envelope.FileKeyring {
	t.Helper()
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	return ring
}

func (f *fixture) newOrganization(t testing.TB) ids.Organization {
	t.Helper()
	org := ids.New[ids.Organization]()
	require.NoError(t, f.tx(t, func(tx postgres.Tx) error {
		if _, err := tx.Exec(t.Context(), "insert into organizations (id, name) values ($1, $1)", org); err != nil {
			return err
		}
		return f.CreateOrganizationKey(t.Context(), tx, org)
	}))
	return org
}

func (f *fixture) tx(t testing.TB, fn func(tx postgres.Tx) error) error {
	t.Helper()
	return postgres.InTx(t.Context(), f.db, t.Name(), fn)
}

func (f *fixture) spec(kind artifacts.Kind) artifacts.Spec {
	return artifacts.Spec{
		Organization: f.org, Workspace: ids.New[ids.Workspace](), Kind: kind, Run: ids.New[ids.Run](),
		Serial: 7, Lineage: "a lineage with spaces", Epoch: 41,
	}
}

func (f *fixture) put(t testing.TB, spec artifacts.Spec, content string) artifacts.Object {
	t.Helper()
	o, err := f.Put(t.Context(), spec, strings.NewReader(content), 0)
	require.NoError(t, err)
	return o
}

// read opens and reads an object; an error may come from either.
func (f *fixture) read(t testing.TB, org ids.Organization, id ids.Object) (string, error) {
	t.Helper()
	body, _, err := f.Open(t.Context(), org, id)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(body)
	require.NoError(t, body.Close())
	return string(content), err
}

// statuses counts the rows of objects by status.
func (f *fixture) statuses(t testing.TB) map[string]int {
	t.Helper()
	type count struct {
		Status string
		N      int
	}
	counts := map[string]int{}
	require.NoError(t, f.tx(t, func(tx postgres.Tx) error {
		rows, err := postgres.All[count](t.Context(), tx, "select status, count(*) as n from objects group by status", postgres.Args{})
		for _, r := range rows {
			counts[r.Status] = r.N
		}
		return err
	}))
	return counts
}

func bodyKey(s artifacts.Spec, id ids.Object) string {
	return fmt.Sprintf("%s/%s/%s/%s", s.Organization, s.Workspace, s.Kind, id)
}

func TestPutSealsAndOpenGivesBack(t *testing.T) {
	f := newFixture(t)
	for _, size := range []int{0, 1, 64 << 10, 1_000_000} {
		content := strings.Repeat("p", size)
		spec := f.spec(artifacts.KindPlan)
		o := f.put(t, spec, content)
		sum, sum5 := sha256.Sum256([]byte(content)), md5.Sum([]byte(content))
		assert.Equal(t, artifacts.Object{ID: o.ID, Kind: spec.Kind, Size: int64(size), SHA256: hex.EncodeToString(sum[:]), MD5: hex.EncodeToString(sum5[:])}, o)

		body, opened, err := f.Open(t.Context(), f.org, o.ID)
		require.NoError(t, err)
		assert.Equal(t, o, opened)
		got, err := io.ReadAll(body)
		require.NoError(t, errors.Join(err, body.Close()))
		assert.Equal(t, content, string(got))

		require.NoError(t, f.tx(t, func(tx postgres.Tx) error {
			info, err := f.Info(t.Context(), tx, f.org, o.ID)
			assert.Equal(t, o, info)
			return err
		}))
	}
}

func TestPutLeavesNothingPlainInTheStore(t *testing.T) {
	f := newFixture(t)
	spec := f.spec(artifacts.KindState)
	secret := "the database password is hunter2"
	o := f.put(t, spec, strings.Repeat(secret, 10_000))

	keys := f.store.Keys()
	assert.ElementsMatch(t, []string{
		bodyKey(spec, o.ID), bodyKey(spec, o.ID) + ".dek.1", string(f.org) + "/organization-key.1",
	}, keys)
	for _, key := range keys {
		assert.NotContains(t, string(f.store.Bytes(key)), "hunter2", key)
		for _, other := range keys {
			assert.False(t, strings.HasPrefix(other, key+"/"), "%s and %s cannot both be files", key, other)
		}
	}
	f.put(t, spec, secret)
	assert.Len(t, f.store.Keys(), 5, "each try has a key of its own; the organization key is there once")
}

// TestStoreIsReadableWithoutTheDatabase opens an object with nothing but the store
// and the key ring, as after the loss of the database.
func TestStoreIsReadableWithoutTheDatabase(t *testing.T) {
	f := newFixture(t)
	spec := f.spec(artifacts.KindState)
	o := f.put(t, spec, "state bytes")
	key := bodyKey(spec, o.ID)

	header, err := envelope.ReadHeader(bytes.NewReader(f.store.Bytes(key)))
	require.NoError(t, err)
	assert.Equal(t, envelope.Context{
		Kind: "state", Object: o.ID, Organization: spec.Organization, Workspace: spec.Workspace,
		Serial: spec.Serial, Lineage: spec.Lineage, Run: spec.Run, Epoch: spec.Epoch,
	}, header)

	got, err := artifacts.Salvage(t.Context(), f.store, openRing(t, f.keyring), key)
	require.NoError(t, err)
	assert.Equal(t, "state bytes", string(got))
}

func TestSerialBelongsToStatesOnly(t *testing.T) {
	f := newFixture(t)
	spec := f.spec(artifacts.KindConfiguration)
	spec.Serial, spec.Lineage = 0, ""
	header, err := envelope.ReadHeader(bytes.NewReader(f.store.Bytes(bodyKey(spec, f.put(t, spec, "tar").ID))))
	require.NoError(t, err)
	assert.Equal(t, int64(envelope.NoSerial), header.Serial)
	spec.Kind = artifacts.KindState
	header, err = envelope.ReadHeader(bytes.NewReader(f.store.Bytes(bodyKey(spec, f.put(t, spec, "{}").ID))))
	require.NoError(t, err)
	assert.Equal(t, int64(0), header.Serial)
}

func TestOpenRefusesDamage(t *testing.T) {
	f := newFixture(t)
	spec := f.spec(artifacts.KindState)
	a, b := f.put(t, spec, strings.Repeat("a", 200_000)), f.put(t, spec, strings.Repeat("b", 200_000))
	key := bodyKey(spec, a.ID)
	good := f.store.Bytes(key)

	for name, bad := range map[string][]byte{
		"emptied":          {},
		"cut to the start": good[:100],
		"cut at the end":   good[:len(good)-1],
		"longer":           append(bytes.Clone(good), 'x'),
		"exchanged":        f.store.Bytes(bodyKey(spec, b.ID)),
		"flipped":          append(append(bytes.Clone(good[:len(good)/2]), good[len(good)/2]^1), good[len(good)/2+1:]...),
	} {
		f.store.Replace(key, bad)
		_, err := f.read(t, f.org, a.ID)
		assert.Truef(t, fault.Is(err, fault.Internal) && fault.HasCode(err, "sealed_object_corrupt"), "%s: %v", name, err)
	}

	f.store.Replace(key, good[:2000]) // in the first chunk, behind the header
	_, _, err := f.Open(t.Context(), f.org, a.ID)
	assert.True(t, fault.HasCode(err, "sealed_object_corrupt"), "damage at the start shows before an answer begins: %v", err)

	f.store.Replace(key, nil)
	_, _, err = f.Open(t.Context(), f.org, a.ID)
	assert.True(t, fault.Is(err, fault.Internal) && fault.HasCode(err, "object_missing"), "%v", err)

	f.store.Replace(key, good)
	_, err = f.read(t, f.org, a.ID)
	assert.NoError(t, err)
}

func TestOpenRefusesARowThatPointsElsewhere(t *testing.T) {
	f := newFixture(t)
	spec := f.spec(artifacts.KindState)
	for column, value := range map[string]any{"epoch": 42, "serial": 8, "lineage": "other", "run_id": "run-other"} {
		o := f.put(t, spec, "state")
		require.NoError(t, f.tx(t, func(tx postgres.Tx) error {
			_, err := tx.Exec(t.Context(), "update objects set "+column+" = $2 where id = $1", o.ID, value)
			return err
		}))
		_, err := f.read(t, f.org, o.ID)
		assert.Truef(t, fault.HasCode(err, "sealed_object_corrupt"), "%s: %v", column, err)
	}
}

func TestOpenRefusesAnotherOrganization(t *testing.T) {
	f := newFixture(t)
	o := f.put(t, f.spec(artifacts.KindLog), "log")
	other := f.newOrganization(t)
	_, _, err := f.Open(t.Context(), other, o.ID)
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	err = f.tx(t, func(tx postgres.Tx) error { return f.Discard(t.Context(), tx, other, o.ID) })
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, err = f.read(t, f.org, o.ID)
	assert.NoError(t, err)
}

func TestDiscard(t *testing.T) {
	f := newFixture(t)
	spec := f.spec(artifacts.KindPlan)
	o := f.put(t, spec, "plan")
	discard := func(id ids.Object) error {
		return f.tx(t, func(tx postgres.Tx) error { return f.Discard(t.Context(), tx, f.org, id) })
	}
	require.NoError(t, discard(o.ID))
	require.NoError(t, discard(o.ID), "already so")
	_, _, err := f.Open(t.Context(), f.org, o.ID)
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	assert.NotNil(t, f.store.Bytes(bodyKey(spec, o.ID)), "bytes are not deleted here")
	assert.True(t, fault.Is(discard(ids.New[ids.Object]()), fault.NotFound))

	// An upload in progress cannot be discarded under its writer.
	pending := make(chan ids.Object)
	go func() {
		defer close(pending)
		_, err := f.Put(t.Context(), spec, readerFunc(func([]byte) (int, error) {
			var id ids.Object
			err := f.tx(t, func(tx postgres.Tx) (err error) {
				id, err = postgres.Value[ids.Object](t.Context(), tx, "select id from objects where status = 'pending'", postgres.Args{})
				return err
			})
			assert.NoError(t, err)
			pending <- id
			<-pending
			return 0, io.EOF
		}), 0)
		assert.NoError(t, err)
	}()
	id := <-pending
	assert.True(t, fault.Is(discard(id), fault.Conflict))
	_, _, err = f.Open(t.Context(), f.org, id)
	assert.True(t, fault.Is(err, fault.NotFound), "a pending object does not count: %v", err)
	pending <- ""
	<-pending
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestPutOfABrokenBodyLeavesNothing(t *testing.T) {
	f := newFixture(t)
	gone := errors.New("the client has gone")
	for _, broke := range []error{gone, io.ErrUnexpectedEOF} {
		body := io.MultiReader(bytes.NewReader(make([]byte, 100_000)), iotest.ErrReader(broke))
		_, err := f.Put(t.Context(), f.spec(artifacts.KindState), body, 0)
		assert.ErrorIs(t, err, broke)
	}
	assert.Equal(t, map[string]int{"discarded": 2}, f.statuses(t))
	assert.Empty(t, f.store.Keys())
}

func TestPutWithTheStoreDown(t *testing.T) {
	f := newFixture(t)
	o := f.put(t, f.spec(artifacts.KindState), "before")
	f.store.SetDown(true)
	_, err := f.Put(t.Context(), f.spec(artifacts.KindState), strings.NewReader("state"), 0)
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	_, _, err = f.Open(t.Context(), f.org, o.ID)
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)

	// It goes down between the body and the sidecar: the object does not count.
	f.store.SetDown(false)
	_, err = f.Put(t.Context(), f.spec(artifacts.KindState), readerFunc(func([]byte) (int, error) {
		f.store.SetDown(true)
		return 0, io.EOF
	}), 0)
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	f.store.SetDown(false)
	assert.Equal(t, map[string]int{"stored": 1, "discarded": 2}, f.statuses(t))
}

// TestPutRecordsTheOutcomeForACallerWhoHasGone ends the caller's context at the
// last byte: the row must not stay pending.
func TestPutRecordsTheOutcomeForACallerWhoHasGone(t *testing.T) {
	f := newFixtureOn(t, patientStore{storetest.NewMemory()})
	ctx, cancel := context.WithCancel(t.Context())
	o, err := f.Put(ctx, f.spec(artifacts.KindState), readerFunc(func([]byte) (int, error) {
		cancel()
		return 0, io.EOF
	}), 0)
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"stored": 1}, f.statuses(t))
	_, err = f.read(t, f.org, o.ID)
	assert.NoError(t, err)

	canceled, cancel := context.WithCancel(t.Context())
	_, err = newPutOn(f, t).Put(canceled, f.spec(artifacts.KindState), readerFunc(func([]byte) (int, error) {
		cancel()
		return 0, canceled.Err()
	}), 0)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, map[string]int{"stored": 1, "discarded": 1}, f.statuses(t))
}

// patientStore ends its work although the caller has gone.
type patientStore struct{ *storetest.Memory }

func (s patientStore) Put(ctx context.Context, key string, body io.Reader) error {
	return s.Memory.Put(context.WithoutCancel(ctx), key, body)
}

func newPutOn(f *fixture, t *testing.T) *artifacts.Service {
	return artifacts.New(f.db, storetest.NewMemory(), openRing(t, f.keyring))
}

func TestPutRefusesAStoreThatStopsEarly(t *testing.T) {
	f := newFixtureOn(t, lazyStore{storetest.NewMemory()})
	_, err := f.Put(t.Context(), f.spec(artifacts.KindState), strings.NewReader("state"), 0)
	assert.True(t, fault.HasCode(err, "store_incomplete"), "%v", err)
	assert.Equal(t, map[string]int{"discarded": 1}, f.statuses(t))
}

// TestPutTellsTheBodysErrorWhateverTheStoreSays: a store that took a broken body for
// a whole one, or for its own failure, must not decide what the caller hears.
func TestPutTellsTheBodysErrorWhateverTheStoreSays(t *testing.T) {
	f := newFixtureOn(t, deafStore{storetest.NewMemory()})
	gone := errors.New("the client has gone")
	_, err := f.Put(t.Context(), f.spec(artifacts.KindState), io.MultiReader(strings.NewReader("half"), iotest.ErrReader(gone)), 0)
	assert.ErrorIs(t, err, gone)
	assert.Equal(t, map[string]int{"discarded": 1}, f.statuses(t))
}

// deafStore stores what came before an error and reports success.
type deafStore struct{ *storetest.Memory }

func (s deafStore) Put(ctx context.Context, key string, body io.Reader) error {
	content, _ := io.ReadAll(body)
	return s.Memory.Put(ctx, key, bytes.NewReader(content))
}

// lazyStore reports success after ten bytes.
type lazyStore struct{ *storetest.Memory }

func (s lazyStore) Put(ctx context.Context, key string, body io.Reader) error {
	return s.Memory.Put(ctx, key, io.LimitReader(body, 10))
}

func TestPutRefusesASpecThatNamesNoPlace(t *testing.T) {
	f := newFixture(t)
	for name, change := range map[string]func(*artifacts.Spec){
		"no organization": func(s *artifacts.Spec) { s.Organization = "" },
		"no workspace":    func(s *artifacts.Spec) { s.Workspace = "" },
		"no kind":         func(s *artifacts.Spec) { s.Kind = "" },
		"unknown kind":    func(s *artifacts.Spec) { s.Kind = "state/../plan" },
	} {
		spec := f.spec(artifacts.KindState)
		change(&spec)
		_, err := f.Put(t.Context(), spec, strings.NewReader("x"), 0)
		assert.Error(t, err, name)
	}
	module := f.spec(artifacts.KindModule)
	_, err := f.Put(t.Context(), module, strings.NewReader("x"), 0)
	assert.Error(t, err, "a workspace for what is in none")
	assert.Empty(t, f.statuses(t))
}

// Modules and providers are an organization's: they lie beside its workspaces.
func TestWhatIsInNoWorkspaceHasAPlaceOfItsOwn(t *testing.T) {
	f := newFixture(t)
	spec := artifacts.Spec{Organization: f.org, Kind: artifacts.KindProviderPackage}
	o := f.put(t, spec, "zip")
	key := fmt.Sprintf("%s/registry/provider-package/%s", f.org, o.ID)
	header, err := envelope.ReadHeader(bytes.NewReader(f.store.Bytes(key)))
	require.NoError(t, err)
	assert.Empty(t, header.Workspace)
	assert.NotNil(t, f.store.Bytes(key+".dek.1"))
	content, err := f.read(t, f.org, o.ID)
	require.NoError(t, err)
	assert.Equal(t, "zip", content)
	require.NoError(t, f.tx(t, func(tx postgres.Tx) error { return f.Discard(t.Context(), tx, f.org, o.ID) }))
	f.age(t, o.ID, "discarded_at", 31*24*time.Hour)
	removed, err := f.Sweep(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, removed)
	assert.Nil(t, f.store.Bytes(key))
}

func TestPutUpToTheLimit(t *testing.T) {
	f := newFixture(t)
	spec := f.spec(artifacts.KindConfiguration)
	_, err := f.Put(t.Context(), spec, strings.NewReader("12345"), 5)
	assert.NoError(t, err)
	_, err = f.Put(t.Context(), spec, strings.NewReader("123456"), 5)
	assert.True(t, fault.Is(err, fault.TooLarge) && fault.HasCode(err, "artifact_too_large"), "%v", err)
	assert.Contains(t, err.Error(), "limit of 5 bytes")
}

// TestPutOverTheLimit streams 110 MB into a real S3 server: it is refused at
// 100,000,000 bytes, in little memory, and nothing stays.
func TestPutOverTheLimit(t *testing.T) {
	store := newS3(t, s3Config(startGateway(t)))
	f := newFixtureOn(t, store)
	spec := f.spec(artifacts.KindConfiguration)
	body := &countingBody{left: 110_000_000}
	runtime.GC()
	before := heap()
	_, err := f.Put(t.Context(), spec, body, 100_000_000)
	require.True(t, fault.Is(err, fault.TooLarge) && fault.HasCode(err, "artifact_too_large"), "%v", err)
	assert.Contains(t, err.Error(), "100000000")
	assert.Less(t, body.given, int64(100_200_000), "refused while it streams")
	assert.Less(t, int64(body.peak)-int64(before), int64(60<<20), "memory in use, the S3 server's included")
	assert.Equal(t, map[string]int{"discarded": 1}, f.statuses(t))

	var files []string
	err = filepath.WalkDir(filepath.Join(gateway.dir, bucket, string(f.org)), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, filepath.Base(path))
		}
		return err
	})
	if !errors.Is(err, fs.ErrNotExist) { // not even the folder
		require.NoError(t, err)
	}
	assert.Empty(t, files)
}

// countingBody gives bytes and notes the largest heap on the way.
type countingBody struct {
	left, given int64
	peak        uint64
}

func (b *countingBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), b.left)
	if (b.given+n)>>22 != b.given>>22 { // every 4 MiB
		runtime.GC() // what is in use, and not what waits to be collected: that differs between machines
		b.peak = max(b.peak, heap())
	}
	b.left, b.given = b.left-n, b.given+n
	return int(n), nil
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestEveryStatementFitsTheSchema(t *testing.T) {
	db := testdb.New(t)
	for name := range artifacts.Statements {
		assert.NoError(t, postgres.Prepare(t.Context(), db, name, artifacts.Statements.Get(name)), name)
	}
}

func BenchmarkPut16MB(b *testing.B) {
	f := newFixtureOn(b, newS3(b, s3Config(startGateway(b))))
	spec, content := f.spec(artifacts.KindState), make([]byte, 16<<20)
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		_, err := f.Put(b.Context(), spec, bytes.NewReader(content), 0)
		require.NoError(b, err)
	}
}

func BenchmarkOpen16MB(b *testing.B) {
	f := newFixtureOn(b, newS3(b, s3Config(startGateway(b))))
	o, err := f.Put(b.Context(), f.spec(artifacts.KindState), bytes.NewReader(make([]byte, 16<<20)), 0)
	require.NoError(b, err)
	b.SetBytes(o.Size)
	for b.Loop() {
		body, _, err := f.Open(b.Context(), f.org, o.ID)
		require.NoError(b, err)
		_, err = io.Copy(io.Discard, body)
		require.NoError(b, errors.Join(err, body.Close()))
	}
}
