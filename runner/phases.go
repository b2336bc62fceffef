package runner

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/holdfast-run/holdfast/archive"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

const platform = runtime.GOOS + "_" + runtime.GOARCH

// startPatience is how long the runner asks for the permission to apply. After that
// it reports that it did not start, which lets the run end instead of wait.
var startPatience = 5 * time.Minute

// plan does the plan phase: it leaves lock file, plan and its JSON with the server.
func (a *attempt) plan(done *wire.Done) error {
	t, err := a.prepare()
	if err != nil {
		return err
	}
	if err := t.init(); err != nil {
		return tofuFailed("init", err)
	}
	a.shelf.take(a.sandbox)
	a.log.Printf("")
	changes, err := t.plan(a.manifest, a.sandbox.plan(), a.sandbox.generated())
	if err != nil {
		if !errors.Is(err, errLost) {
			done.GeneratedConfig = a.handOverGenerated(t)
		}
		return tofuFailed("plan", err)
	}
	if err := t.show(a.sandbox.plan(), a.sandbox.planJSON()); err != nil {
		return tofuFailed("show", err)
	}
	if changes {
		done.ExitCode = planChanges
	}
	moved := make(chan error, 1)
	go func() { moved <- a.handOverPlan() }()
	priced := make(chan *wire.CostEstimate, 1)
	go func() { priced <- a.estimateCost() }()
	digest, err := t.redactPlan(a.sandbox.planJSON(), a.sandbox.planRedacted())
	if err == nil {
		digest.summary.HasChanges = changes
		done.Plan, done.GeneratedConfig = &digest.summary, digest.generatedConfig
		err = a.upload(a.working, wire.KindPlanJSONRedacted, a.sandbox.planRedacted())
	}
	done.Cost = <-priced
	return errors.Join(err, <-moved)
}

func (a *attempt) handOverPlan() error {
	if _, err := os.Lstat(a.sandbox.lockFile()); err == nil { // none when there are no providers but built-in ones
		if err := a.upload(a.working, wire.KindLockFile, a.sandbox.lockFile()); err != nil {
			return err
		}
	}
	if err := a.upload(a.working, wire.KindPlan, a.sandbox.plan()); err != nil {
		return err
	}
	return a.upload(a.working, wire.KindPlanJSON, a.sandbox.planJSON())
}

// handOverGenerated leaves, of a plan that failed, the configuration that tofu wrote,
// where there is some: it is what the person behind the run needs to go on. Whatever
// goes wrong here, the plan has failed for another reason.
func (a *attempt) handOverGenerated(t *tofu) bool {
	for _, file := range []string{a.sandbox.generated(), a.sandbox.plan()} {
		if info, err := os.Lstat(file); err != nil || info.Size() == 0 {
			return false
		}
	}
	if t.show(a.sandbox.plan(), a.sandbox.planJSON()) != nil {
		return false
	}
	digest, err := t.redactPlan(a.sandbox.planJSON(), a.sandbox.planRedacted())
	return err == nil && digest.generatedConfig && a.upload(a.working, wire.KindPlanJSONRedacted, a.sandbox.planRedacted()) == nil
}

// apply does the apply phase. What tofu does between the answer of apply-start and
// the state confirmation cannot be taken back.
func (a *attempt) apply(done *wire.Done) error {
	if a.manifest.TofuDigest != a.binary.digest {
		return fail("This runner's tofu is not the binary that made the plan (SHA-256 %s, the plan's is %s). Give all runners of the group the same binary.",
			a.binary.digest, a.manifest.TofuDigest)
	}
	t, err := a.prepare()
	if err != nil {
		return err
	}
	_, locked := find(a.manifest.Inputs, wire.KindLockFile)
	if err := t.initAgain(locked); err != nil {
		return tofuFailed("init", err)
	}
	if err := a.download(a.working, wire.KindPlan, a.sandbox.plan()); err != nil {
		return err
	}
	if err := a.startApply(); err != nil {
		return err
	}
	if a.stop.why() != "" {
		return fail("The apply was stopped before tofu started.")
	}
	done.TofuStarted = true
	err = t.apply(a.sandbox.plan())
	done.ErroredState = a.keepErroredState()
	if err != nil {
		return tofuFailed("apply", err)
	}
	done.Confirmed, err = a.confirmState()
	if err != nil {
		done.Message = "The state could not be confirmed: " + err.Error()
	}
	return nil
}

// startApply redeems the authority to apply. Only with its answer may tofu start.
func (a *attempt) startApply() error {
	ctx, cancel := context.WithTimeout(a.working, startPatience)
	defer cancel()
	var started wire.ApplyStarted
	err := a.server.do(ctx, request{
		method: http.MethodPost, path: withID(wire.PathApplyStart, a.id), token: a.session.Token,
		body: jsonBody(wire.ApplyStart{
			ManifestDigest: a.session.ManifestDigest, SandboxID: a.sandbox.id, TofuDigest: a.binary.digest,
		}),
	}, func(resp *http.Response) error { return decodeJSON(resp, &started) })
	if err != nil {
		return fail("The apply was not started: %s", err)
	}
	return nil
}

// confirmState asks the server whether the current state is the one that this apply
// published (ST-03).
func (a *attempt) confirmState() (*wire.StateConfirmed, error) {
	var confirmed wire.StateConfirmed
	err := a.server.do(a.end, request{
		method: http.MethodPost, path: withID(wire.PathStateConfirmation, a.id), token: a.session.Token,
		body: jsonBody(wire.StateConfirmation{SandboxID: a.sandbox.id}),
	}, func(resp *http.Response) error { return decodeJSON(resp, &confirmed) })
	if err != nil {
		return nil, err
	}
	return &confirmed, nil
}

// keepErroredState moves a state that tofu could not publish to safety, and says
// whether there is one.
func (a *attempt) keepErroredState() bool {
	if _, err := os.Lstat(a.sandbox.erroredState()); err != nil {
		return false
	}
	place, err := a.folder.keep(a.sandbox.erroredState(), a.id)
	if err != nil {
		a.log.Printf("\nThe state that could not be published stays on the runner, in %s.", a.sandbox.erroredState())
		return true
	}
	a.log.Printf("\nThe state that could not be published is kept on the runner, in %s. An operator of the runner finds it there.", place)
	moveEmergency(a.sandbox, place)
	ctx, cancel := context.WithTimeout(context.Background(), emergencyPatience) // its capability outlives the session
	defer cancel()
	if a.server.handOverEmergency(ctx, place) {
		a.log.Printf("The server has it, too, for the recovery of the run.")
	}
	return true
}

// prepare gets the inputs, lays them out and makes tofu ready to run there.
func (a *attempt) prepare() (*tofu, error) {
	if a.manifest.TofuVersion != a.binary.version {
		return nil, misfit("The run wants tofu %s, this runner has %s.", a.manifest.TofuVersion, a.binary.version)
	}
	if !a.binary.unchanged() {
		return nil, misfit("The tofu binary of the runner was changed while the runner ran. Start the runner again.")
	}
	if err := a.unpackConfiguration(); err != nil {
		return nil, err
	}
	if err := a.sandbox.enter(a.manifest.WorkingDirectory); err != nil {
		return nil, err
	}
	if err := a.planLockFile(); err != nil {
		return nil, err
	}
	variables, err := a.variables()
	if err != nil {
		return nil, err
	}
	if err := a.checkEncryption(variables.Environment); err != nil {
		return nil, err
	}
	inputs, err := valuesOf(variables.Terraform)
	if err != nil {
		return nil, err
	}
	shown, err := a.fromCache()
	if err != nil {
		return nil, err
	}
	run, gauge, err := a.enclosed(shown)
	if err != nil {
		return nil, err
	}
	if err := run.checkExpressions(a.working, a.sandbox, inputs.expressions); err != nil {
		return nil, err
	}
	if err := a.sandbox.writeVariables(inputs); err != nil {
		return nil, err
	}
	if err := a.sandbox.writeOverride(a.host, a.manifest); err != nil {
		return nil, err
	}
	if a.relay, err = startRelay(a.end, a.server); err != nil {
		return nil, err
	}
	if err := a.sandbox.writeCLIConfig(a.host, a.relay.address, a.session.Token, a.providers); err != nil {
		return nil, err
	}
	env, dropped, err := a.environment(os.LookupEnv, variables.Environment)
	if err != nil {
		return nil, err
	}
	if err := a.sandbox.giveSSHKey(env, variables.SSHKey); err != nil {
		return nil, err
	}
	for _, name := range dropped {
		a.log.Printf("The environment variable %s is reserved and was left out.", name)
	}
	grace := time.Duration(a.manifest.InterruptSeconds) * time.Second
	return newTofu(run.path, a.sandbox, env, a.log, a.stop, grace, gauge)
}

// planLockFile puts, for an apply, the lock file that the plan has used in the place of the
// configuration's.
func (a *attempt) planLockFile() error {
	if _, there := find(a.manifest.Inputs, wire.KindLockFile); !there || a.manifest.Phase != "apply" {
		return nil
	}
	if err := os.Remove(a.sandbox.lockFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return a.download(a.working, wire.KindLockFile, a.sandbox.lockFile())
}

// enclosed gives the tofu to run, inside the enclosure when there is one, where it reads
// the shown folders.
func (a *attempt) enclosed(shown []string) (binary, *meter, error) {
	run := a.binary
	if a.enclosure == nil {
		return run, nil, nil
	}
	path, err := a.enclosure.enclose(a.sandbox, run.path, shown...)
	if err != nil {
		return run, nil, err
	}
	run.path = path
	return run, &meter{limits: a.enclosure.limits, dir: a.sandbox.path}, nil
}

func (a *attempt) unpackConfiguration() error {
	path := filepath.Join(a.sandbox.path, "configuration.tar.gz")
	if err := a.download(a.working, wire.KindConfiguration, path); err != nil {
		return err
	}
	packed, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = packed.Close() }()
	if err := archive.Unpack(packed, a.sandbox.config()); err != nil {
		return err
	}
	return os.Remove(path)
}

// variables gets the values. They are on disk only as long as they are read.
func (a *attempt) variables() (v wire.Variables, err error) {
	if _, ok := find(a.manifest.Inputs, wire.KindVariables); !ok {
		return v, nil
	}
	path := filepath.Join(a.sandbox.path, "variables.json")
	if err := a.download(a.working, wire.KindVariables, path); err != nil {
		return v, err
	}
	defer func() { _ = os.Remove(path) }()
	text, err := os.ReadFile(path)
	if err != nil {
		return v, err
	}
	if json.Unmarshal(text, &v) != nil { // its error would quote a value
		return v, fail("The input %q cannot be read.", wire.KindVariables)
	}
	return v, nil
}
