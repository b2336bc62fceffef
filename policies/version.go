package policies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/policies/evaluator"
	"github.com/holdfast-run/holdfast/postgres"
)

// Where a version comes from.
const (
	fromUpload   = "tfe-api"
	fromPolicies = "policies"
)

// The statuses of a version.
const (
	VersionPending = "pending" // its bytes are to come
	VersionReady   = "ready"
	VersionErrored = "errored" // its bytes were refused; others may come
)

// Version is what a set consisted of at one time.
type Version struct {
	ID             ids.PolicySetVersion
	Organization   ids.Organization
	Set            ids.PolicySet
	Source         string
	Status         string
	Error          string
	BundleSealed   []byte
	Digest         string // SHA-256 in hex of the bundle
	Policies       int
	Tests          int // of the bundle's own, that passed
	RuntimeVersion string
	RuntimeDigest  string
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// Release is the policy-runner that published the version (PO-07).
func (v Version) Release() gates.Release {
	return gates.Release{Version: v.RuntimeVersion, Digest: v.RuntimeDigest}
}

func bundleLabel(id ids.PolicySetVersion) string { return "policy-set-version/" + string(id) }

// CreateVersion announces a version of a set; its bytes follow by UploadVersion. Invalid
// "policy_set_has_policies" for a set that is put together of policies.
func (s *Service) CreateVersion(ctx context.Context, actor authz.Actor, id ids.PolicySet) (v Version, err error) {
	_, err = s.changeSet(ctx, "policies.create-version", actor, id, func(tx postgres.Tx, set Set) error {
		if len(set.Policies) > 0 {
			return fault.New(fault.Invalid, "policy_set_has_policies", "Policy set %q is put together of policies, so nothing can be uploaded to it. Take them out first.", set.Name)
		}
		fresh := ids.New[ids.PolicySetVersion]()
		_, err := postgres.Exec(ctx, tx, Queries.Get("VersionInsert"), postgres.Args{
			"id": fresh, "organization_id": set.Organization, "policy_set_id": id, "source": fromUpload, "status": VersionPending, "bundle_sealed": nil, "digest": "", "policies": 0,
			"runtime_version": "", "runtime_digest": "",
		})
		if err != nil {
			return err
		}
		v, err = loadVersion(ctx, tx, fresh)
		return err
	})
	return v, err
}

func loadVersion(ctx context.Context, tx postgres.Tx, id ids.PolicySetVersion) (Version, error) {
	v, err := postgres.One[Version](ctx, tx, Queries.Get("VersionGet"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Version{}, fault.Missing("policy set version", string(id))
	}
	if err != nil {
		return Version{}, fmt.Errorf("read the policy set version: %w", err)
	}
	return v, nil
}

// Version gives one version of a set.
func (s *Service) Version(ctx context.Context, actor authz.Actor, id ids.PolicySetVersion) (v Version, err error) {
	err = postgres.InSnapshot(ctx, s.db, "policies.version", func(tx postgres.Tx) error {
		if v, err = loadVersion(ctx, tx, id); err != nil {
			return err
		}
		return authz.Allow(actor, authz.PoliciesRead, authz.Object{Organization: v.Organization, Noun: "policy set version", Name: string(id)})
	})
	return v, err
}

// UploadVersion takes the bytes of an announced version: a tar.gz with policies.hcl and modules
// of Rego. The caller has proved by a link that it may. What is good is published: compiled, and
// its own tests pass. What is not leaves the version errored with every reason, and the version
// before it in force; the error is Invalid "policy_refused" or "policy_bundle_refused".
// Conflict "version_ready" once it is published.
func (s *Service) UploadVersion(ctx context.Context, id ids.PolicySetVersion, body io.Reader) error {
	var v Version
	var set Set
	err := postgres.InSnapshot(ctx, s.db, "policies.find-version", func(tx postgres.Tx) (err error) {
		if v, err = loadVersion(ctx, tx, id); err != nil {
			return err
		}
		set, err = postgres.One[Set](ctx, tx, Queries.Get("SetGet"), postgres.Args{"id": v.Set})
		if postgres.NoRow(err) {
			return fault.Missing("policy set", string(v.Set))
		}
		return err
	})
	if err != nil {
		return err
	}
	if v.Status == VersionReady {
		return alreadyReady(id)
	}
	bundle, err := readBundle(body, set)
	var verdict evaluator.Verdict
	if err == nil && set.Kind == OPA {
		if verdict, err = s.runtime.Publish(ctx, bundle); err == nil && len(verdict.Errors) > 0 {
			err = refused(verdict)
		}
	}
	version, digest := s.release()
	var why *fault.Error
	switch {
	case errors.As(err, &why) && (why.Kind == fault.Invalid || why.Kind == fault.TooLarge):
		noted := postgres.InTx(context.WithoutCancel(ctx), s.db, "policies.version-errored", func(tx postgres.Tx) error {
			_, err := postgres.Exec(ctx, tx, Queries.Get("VersionErrored"), postgres.Args{"id": id, "error": why.Message, "runtime_version": version, "runtime_digest": digest})
			return err
		})
		return errors.Join(err, noted)
	case err != nil:
		return err
	}
	return postgres.InTx(context.WithoutCancel(ctx), s.db, "policies.version-ready", func(tx postgres.Tx) error {
		sealed, sum, err := s.sealBundle(ctx, tx, v.Organization, id, bundle)
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("VersionReady"), postgres.Args{
			"id": id, "bundle_sealed": sealed, "digest": sum, "policies": max(len(bundle.Policies), sentinelCount(set, bundle)), "tests": verdict.Tests, "runtime_version": version, "runtime_digest": digest,
		})
		if err == nil && n == 0 {
			err = alreadyReady(id)
		}
		if err != nil {
			return err
		}
		return record(ctx, tx, authz.System(), v.Organization, "policy-set-version.published", "policy-set-version", string(id),
			map[string]any{"policy_set": v.Set, "sha256": sum, "policies": len(bundle.Policies), "runtime": s.runtime.Release()})
	})
}

func alreadyReady(id ids.PolicySetVersion) error {
	return fault.New(fault.Conflict, "version_ready", "Version %s is published and does not change any more. Make a new version.", id)
}

// sentinelCount is how many policies a set of Sentinel says it has: what is in its files nobody
// here reads.
func sentinelCount(set Set, b evaluator.Bundle) (n int) {
	if set.Kind != Sentinel {
		return 0
	}
	for _, m := range b.Modules {
		if strings.HasSuffix(m.Path, ".sentinel") {
			n++
		}
	}
	return max(n, 1)
}

func (s *Service) sealBundle(ctx context.Context, tx postgres.Tx, org ids.Organization, id ids.PolicySetVersion, b evaluator.Bundle) (sealed []byte, digest string, err error) {
	encoded, digest, err := encodeBundle(b)
	if err != nil {
		return nil, "", err
	}
	sealed, err = s.objects.SealValue(ctx, tx, org, bundleLabel(id), encoded)
	return sealed, digest, err
}

func encodeBundle(b evaluator.Bundle) (encoded []byte, digest string, err error) {
	if encoded, err = json.Marshal(b); err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(encoded)
	return encoded, hex.EncodeToString(sum[:]), nil
}

// composeVersion makes the version of a set that is put together of policies, when they are
// other than before. Each of them was compiled when its content came.
func (s *Service) composeVersion(ctx context.Context, tx postgres.Tx, set Set) error {
	if set.Kind != OPA {
		return nil
	}
	members, err := postgres.All[Policy](ctx, tx, Queries.Get("PoliciesOfSet"), postgres.Args{"policy_set_id": set.ID})
	if err != nil {
		return err
	}
	bundle := evaluator.Bundle{Rego: set.Rego, Modules: []evaluator.Module{}, Policies: []evaluator.Policy{}}
	for _, p := range members {
		content, err := s.objects.OpenValue(ctx, tx, p.Organization, contentLabel(p.ID), p.ContentSealed)
		if err != nil {
			return err
		}
		bundle.Modules = append(bundle.Modules, p.module(content))
		bundle.Policies = append(bundle.Policies, p.evaluated())
	}
	_, digest, err := encodeBundle(bundle)
	if err != nil {
		return err
	}
	current, err := postgres.Value[string](ctx, tx, Queries.Get("VersionNewest"), postgres.Args{"policy_set_id": set.ID})
	if postgres.NoRow(err) && len(members) == 0 {
		return nil
	}
	if err != nil && !postgres.NoRow(err) {
		return err
	}
	if current == digest {
		return nil
	}
	id := ids.New[ids.PolicySetVersion]()
	sealed, digest, err := s.sealBundle(ctx, tx, set.Organization, id, bundle)
	if err != nil {
		return err
	}
	version, runtime := s.release()
	_, err = postgres.Exec(ctx, tx, Queries.Get("VersionInsert"), postgres.Args{
		"id": id, "organization_id": set.Organization, "policy_set_id": set.ID, "source": fromPolicies, "status": VersionReady, "bundle_sealed": sealed, "digest": digest,
		"policies": len(members), "runtime_version": version, "runtime_digest": runtime,
	})
	return err
}
