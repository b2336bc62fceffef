package registry

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/artifacts/storetest"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

var ctx = context.Background()

// world is a database with the organizations acme and rival, the owner ada and the member bob
// of acme, and the owner eve of rival.
type world struct {
	*testing.T
	*Service
	db            *postgres.DB
	who           *accounts.Service
	acme, rival   accounts.Organization
	ada, bob, eve authz.Actor
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	db := testdb.New(t)
	path := filepath.Join(t.TempDir(), "keyring")
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	objects := artifacts.New(db, storetest.NewMemory(), ring)
	who := accounts.New(db, objects)
	spaces := workspaces.New(db, who, objects)
	w := &world{T: t, db: db, who: who, Service: New(db, objects, Limits{Module: 10_000, Provider: 10_000})}
	organization := func(name string) accounts.Organization {
		org, err := spaces.CreateOrganization(ctx, authz.System(), accounts.NewOrganization{Name: name})
		require.NoError(t, err)
		return org
	}
	actor := func(name string, org accounts.Organization, role authz.Role) authz.Actor {
		u, err := who.CreateUser(ctx, authz.System(), accounts.NewUser{Username: name})
		require.NoError(t, err)
		require.NoError(t, who.AddMember(ctx, authz.System(), org.ID, u.ID, role))
		token, _, err := who.CreateUserToken(ctx, authz.System(), u.ID, "", 0)
		require.NoError(t, err)
		a, err := who.Authenticate(ctx, token)
		require.NoError(t, err)
		return a
	}
	w.acme, w.rival = organization("acme"), organization("rival")
	w.ada, w.bob, w.eve = actor("ada", w.acme, authz.Owner), actor("bob", w.acme, authz.Member), actor("eve", w.rival, authz.Owner)
	return w
}

// objects counts those of a kind that count.
func (w *world) stored(kind artifacts.Kind) (n int) {
	w.Helper()
	require.NoError(w, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
		n, err = postgres.Value[int](ctx, tx, "select count(*) from objects where kind = @kind and status <> 'discarded'", postgres.Args{"kind": string(kind)})
		return err
	}))
	return n
}

// targz is an archive of files, by name.
func targz(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	packed := tar.NewWriter(zipped)
	for name, content := range files {
		require.NoError(t, packed.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}))
		_, err := packed.Write([]byte(content))
		require.NoError(t, err)
	}
	require.NoError(t, packed.Close())
	require.NoError(t, zipped.Close())
	return out.Bytes()
}

var vpc = ModuleAddress{Private, "acme", "vpc", "aws"}

func (w *world) module() Module {
	w.Helper()
	m, err := w.CreateModule(ctx, w.ada, "acme", NewModule{Name: "vpc", Provider: "aws"})
	require.NoError(w, err)
	return m
}

// version announces a version of vpc, with its archive unless that is nil.
func (w *world) version(version string, archive []byte) ModuleVersion {
	w.Helper()
	v, err := w.CreateModuleVersion(ctx, w.ada, "acme", vpc, version, "")
	require.NoError(w, err)
	if archive != nil {
		require.NoError(w, w.UploadModule(ctx, v.ID, bytes.NewReader(archive)))
	}
	return v
}

// signer is a key of somebody who publishes.
type signer struct {
	entity *openpgp.Entity
	public string
	keyID  string
}

func newSigner(t *testing.T) signer {
	t.Helper()
	entity, err := openpgp.NewEntity("acme", "", "acme@example.com", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA}) // quicker to make than others
	require.NoError(t, err)
	return signer{entity, armored(t, openpgp.PublicKeyType, entity.Serialize), entity.PrimaryKey.KeyIdString()}
}

func armored(t *testing.T, kind string, write func(io.Writer) error) string {
	t.Helper()
	var out bytes.Buffer
	body, err := armor.Encode(&out, kind, nil)
	require.NoError(t, err)
	require.NoError(t, write(body))
	require.NoError(t, body.Close())
	return out.String()
}

func (s signer) sign(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, openpgp.DetachSign(&out, s.entity, strings.NewReader(text), nil))
	return out.Bytes()
}

var cloud = ProviderAddress{Private, "acme", "cloud"}

// release is what somebody publishes of the provider acme/cloud for linux on amd64.
type release struct {
	*world
	signer    signer
	version   ProviderVersion
	platform  Platform
	zip       []byte
	shasums   string
	signature []byte
}

// newRelease makes everything and uploads nothing.
func (w *world) newRelease() *release {
	w.Helper()
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	file, err := archive.Create("terraform-provider-cloud_v1.0.0")
	require.NoError(w, err)
	_, err = file.Write([]byte("#!/bin/sh"))
	require.NoError(w, err)
	require.NoError(w, archive.Close())
	r := &release{world: w, signer: newSigner(w.T), zip: packed.Bytes()}
	const name = "terraform-provider-cloud_1.0.0_linux_amd64.zip"
	sum := fmt.Sprintf("%x", sha256.Sum256(r.zip))
	r.shasums = sum + "  " + name + "\n"
	r.signature = r.signer.sign(w.T, r.shasums)
	_, err = w.AddKey(ctx, w.ada, "acme", r.signer.public)
	require.NoError(w, err)
	_, err = w.CreateProvider(ctx, w.ada, "acme", cloud)
	require.NoError(w, err)
	r.version, err = w.CreateProviderVersion(ctx, w.ada, "acme", cloud, NewProviderVersion{Version: "1.0.0", KeyID: r.signer.keyID})
	require.NoError(w, err)
	r.platform, err = w.CreatePlatform(ctx, w.ada, "acme", cloud, "1.0.0", NewPlatform{OS: "linux", Arch: "amd64", Filename: name, Shasum: sum})
	require.NoError(w, err)
	return r
}

func (r *release) uploadShasums(text string) error {
	return r.UploadShasums(ctx, r.version.ID, strings.NewReader(text))
}

func (r *release) uploadSignature(signature []byte) error {
	return r.UploadSignature(ctx, r.version.ID, bytes.NewReader(signature))
}

func (r *release) uploadPackage(content []byte) error {
	return r.UploadPackage(ctx, r.platform.ID, bytes.NewReader(content))
}

// publish uploads all of it.
func (r *release) publish() {
	r.Helper()
	require.NoError(r, r.uploadShasums(r.shasums))
	require.NoError(r, r.uploadSignature(r.signature))
	require.NoError(r, r.uploadPackage(r.zip))
}

// attempt is whoever plans a run in an organization.
func attempt(org ids.Organization) authz.Actor {
	return authz.Actor{Kind: authz.AttemptActor, Attempt: "att-1", Run: "run-1", Organization: org, Workspace: "ws-1", Phase: authz.Plan}
}
