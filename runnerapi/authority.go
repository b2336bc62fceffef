package runnerapi

import (
	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
	"github.com/holdfast-run/holdfast/runs"
)

// release is a runner's own, as it names it.
func release(r wire.Release) gates.Release {
	return gates.Release{Version: r.Version, Digest: r.Digest}
}

func checkRelease(r wire.Release) error {
	const longest = 200
	for _, text := range []string{r.Version, r.Digest} {
		if len(text) > longest || !accounts.Storable(text) {
			return fault.New(fault.Invalid, "runner_text", "A runner's release has a version and a digest of at most %d bytes each, without NUL characters.", longest)
		}
	}
	return nil
}

func sessionAnswer(s runs.Session, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return wire.Session{
		BootstrapCapability: s.Bootstrap, BootstrapExpiresAt: s.BootstrapExpires,
		Token: s.Token, Manifest: s.Manifest, ManifestDigest: s.ManifestDigest, ExpiresAt: s.ExpiresAt,
		EmergencyCapability: s.Emergency.Token, EmergencyExpiresAt: s.Emergency.ExpiresAt,
	}, nil
}

// bootstrap takes the capability that accept gave, and no other credential.
func (s *server) bootstrap(c *call) (any, error) {
	id, err := ids.Parse[ids.Attempt](c.id())
	if err != nil {
		return nil, err
	}
	var in wire.Bootstrap
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	with := dispatch.Redemption{Runner: ids.Runner(in.RunnerID), Phase: authz.Phase(in.Phase), Sandbox: in.SandboxID}
	return sessionAnswer(s.Runs.RedeemBootstrap(c.ctx(), id, c.token(), with))
}

func (s *server) applyStart(c *call, actor authz.Actor) (any, error) {
	var in wire.ApplyStart
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	at, err := s.Runs.StartApply(c.ctx(), actor, in.ManifestDigest, in.SandboxID, in.TofuDigest)
	if err != nil {
		return nil, err
	}
	return wire.ApplyStarted{StartedAt: at}, nil
}
