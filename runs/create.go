package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/hashicorp/go-version"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/site"
	"github.com/holdfast-run/holdfast/state"
	"github.com/holdfast-run/holdfast/workspaces"
)

// NewRun is what a client asks for. AutoApply nil means: as the workspace is set.
// Configuration empty means: the workspace's newest uploaded one that is not speculative.
type NewRun struct {
	Workspace        ids.Workspace
	Operation        Operation // empty: what the other attributes make it
	Configuration    ids.ConfigurationVersion
	Message          string
	Source           string
	PlanOnly         bool
	SavePlan         bool
	IsDestroy        bool
	Teardown         bool // destroy, and then clean up the workspace
	Refresh          *bool
	RefreshOnly      bool
	AutoApply        *bool
	AllowEmptyApply  bool
	TargetAddrs      []string
	ReplaceAddrs     []string
	TerraformVersion string     // of a run that only plans; empty is the workspace's
	GenerateConfig   bool       // write configuration for what is imported without any
	Variables        []Variable // HCL expressions, as the client writes them
}

// Create makes a run: gates, snapshot of its inputs, queue and promotion in one
// transaction (amendment 24). The same request again within a short window is the
// same run (amendment 13); created is false then.
// Errors: those of a closed gate (gates.Denial), before anything else (PL-10);
// RecoveryHeld "workspace_recovery_pending" (no record is made), Invalid,
// TooLarge "artifact_too_large" naming the three sizes.
func (s *Service) Create(ctx context.Context, actor authz.Actor, n NewRun) (d Detail, created bool, err error) {
	err = postgres.InTx(ctx, s.db, "runs.create", func(tx postgres.Tx) error {
		d, created, err = s.createIn(ctx, tx, actor, n)
		return err
	})
	return d, created, err
}

// createIn is Create in the caller's transaction.
func (s *Service) createIn(ctx context.Context, tx postgres.Tx, actor authz.Actor, n NewRun) (d Detail, created bool, err error) {
	if err := mayCreate(ctx, tx, actor, n.Workspace); err != nil {
		return Detail{}, false, err
	}
	status, err := fence.Lock(ctx, tx, n.Workspace)
	if err != nil {
		return Detail{}, false, err
	}
	w, err := workspaces.Load(ctx, tx, n.Workspace) // it may have been deleted while the fence was waited for
	if err != nil {
		return Detail{}, false, err
	}
	if err := status.CheckRecovery(); err != nil {
		return Detail{}, false, err
	}
	if err := checkExecutable(w); err != nil {
		return Detail{}, false, err
	}
	c, err := s.capture(ctx, tx, w, n.Configuration)
	if err != nil {
		return Detail{}, false, err
	}
	if err := n.settleOperation(c.Speculative); err != nil {
		return Detail{}, false, err
	}
	if n.Teardown {
		if err := authz.Allow(actor, authz.WorkspaceDelete, workspaces.Object(w)); err != nil {
			return Detail{}, false, err
		}
	}
	if n.AutoApply, err = settleAutoApply(actor, w, n); err != nil {
		return Detail{}, false, err
	}
	if w, err = n.withVersion(w); err != nil {
		return Detail{}, false, err
	}
	r, err := s.replayed(ctx, tx, actor, n, c)
	if err == nil && r.ID == "" {
		created = true
		r, err = s.create(ctx, tx, actor, w, c, n)
	}
	if err != nil {
		return Detail{}, false, err
	}
	details, err := withHistory(ctx, tx, []Run{r})
	if err != nil {
		return Detail{}, false, err
	}
	return details[0], created, nil
}

// withVersion gives the workspace with the version of OpenTofu that the run asks for,
// which only one that just plans may do.
func (n NewRun) withVersion(w workspaces.Workspace) (workspaces.Workspace, error) {
	if n.TerraformVersion == "" {
		return w, nil
	}
	if !n.PlanOnly {
		return w, fault.New(fault.Invalid, "invalid_attribute", "Terraform version can only be said for a run that only plans").At("/data/attributes/terraform-version")
	}
	if _, err := version.NewVersion(n.TerraformVersion); err != nil {
		return w, fault.New(fault.Invalid, "invalid_attribute", "Terraform version must be one exact version such as 1.12.6").At("/data/attributes/terraform-version")
	}
	w.TerraformVersion = n.TerraformVersion
	return w, nil
}

// mayCreate asks for the right, and then whether the gates are open. A closed gate
// refuses the repeat of a request, too: nothing new begins behind it.
func mayCreate(ctx context.Context, tx postgres.Tx, actor authz.Actor, workspace ids.Workspace) error {
	w, err := workspaces.Allowed(ctx, tx, actor, authz.RunQueue, workspace)
	if err != nil {
		return err
	}
	denial, err := gates.Check(ctx, tx, w.Organization)
	if err == nil && denial.Closed() {
		err = denial.AtCreation()
	}
	return err
}

// settleAutoApply tells whether the run applies by itself, which is the requester's
// own decision and so needs the right to apply (amendment 22). What the workspace is
// set to counts only where it makes sense: not for a plan-only run or a saved plan.
func settleAutoApply(actor authz.Actor, w workspaces.Workspace, n NewRun) (*bool, error) {
	asked := n.AutoApply != nil && *n.AutoApply
	if asked {
		if err := authz.Allow(actor, authz.RunApply, workspaces.Object(w)); err != nil {
			return nil, err
		}
	}
	auto := asked || (n.AutoApply == nil && w.AutoApply && n.Operation != OperationPlan && authz.Can(actor, authz.RunApply, workspaces.Object(w)))
	auto = auto && !n.PlanOnly
	return &auto, nil
}

// capture fixes the configuration version that a run uses.
func (s *Service) capture(ctx context.Context, tx postgres.Tx, w workspaces.Workspace, id ids.ConfigurationVersion) (Configuration, error) {
	if id == "" {
		var err error
		id, err = postgres.Value[ids.ConfigurationVersion](ctx, tx, Queries.Get("ConfigurationNewest"), postgres.Args{"workspace_id": w.ID})
		if postgres.NoRow(err) {
			return Configuration{}, fault.New(fault.Invalid, "no_configuration", "Workspace %q has no uploaded configuration version yet. Upload one first.", w.Name).At("/data/relationships/configuration-version")
		}
		if err != nil {
			return Configuration{}, fmt.Errorf("find the newest configuration version: %w", err)
		}
	}
	c, err := loadConfiguration(ctx, tx, id)
	if fault.Is(err, fault.NotFound) || (err == nil && c.WorkspaceID != w.ID) {
		return Configuration{}, fault.Missing("configuration version", string(id))
	}
	if err != nil {
		return Configuration{}, err
	}
	n, err := postgres.Exec(ctx, tx, Queries.Get("ConfigurationCapture"), postgres.Args{"id": id})
	if err != nil {
		return Configuration{}, err
	}
	if n == 0 {
		return Configuration{}, fault.New(fault.Invalid, "configuration_not_uploaded", "Configuration version %s is %s. Upload its archive first. %s", id, c.Status, c.Error).At("/data/relationships/configuration-version")
	}
	return loadConfiguration(ctx, tx, id)
}

func (s *Service) replayed(ctx context.Context, tx postgres.Tx, actor authz.Actor, n NewRun, c Configuration) (Run, error) {
	id, err := postgres.Value[ids.Run](ctx, tx, Queries.Get("RunReplayed"), postgres.Args{
		"configuration_version_id": c.ID, "created_by": actor.User, "message": n.Message, "operation": string(n.Operation), "plan_only": n.PlanOnly, "save_plan": n.SavePlan,
		"is_destroy": n.IsDestroy, "refresh": n.refresh(), "refresh_only": n.RefreshOnly, "auto_apply": *n.AutoApply,
		"allow_empty_apply": n.AllowEmptyApply, "terraform_version": n.TerraformVersion, "source": n.Source,
		"target_addrs": orEmpty(n.TargetAddrs), "replace_addrs": orEmpty(n.ReplaceAddrs), "generate_config": n.GenerateConfig, "window_seconds": s.settings.ReplayWindow.Seconds(),
	})
	if postgres.NoRow(err) {
		return Run{}, nil
	}
	if err != nil {
		return Run{}, fmt.Errorf("look for the same run: %w", err)
	}
	r, err := load(ctx, tx, id)
	if err != nil {
		return Run{}, err
	}
	had, err := s.openVariables(ctx, tx, r.OrganizationID, runVariablesLabel(id), r.RunVariablesSealed)
	if err != nil || !equalVariables(had, n.Variables) {
		return Run{}, err
	}
	return r, nil
}

func (n NewRun) refresh() bool { return n.Refresh == nil || *n.Refresh }

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// equalVariables compares without order: the client sends them in a random one.
func equalVariables(a, b []Variable) bool {
	text := func(list []Variable) string {
		lines := make([]string, len(list))
		for i, v := range list {
			lines[i] = fmt.Sprintf("%q=%q", v.Key, v.Value)
		}
		sort.Strings(lines)
		return strings.Join(lines, "\n")
	}
	return text(a) == text(b)
}

func (s *Service) create(ctx context.Context, tx postgres.Tx, actor authz.Actor, w workspaces.Workspace, c Configuration, n NewRun) (Run, error) {
	if err := n.check(w); err != nil {
		return Run{}, err
	}
	if err := s.checkSizes(ctx, tx, w, c); err != nil {
		return Run{}, err
	}
	exact, unavailable, err := resolveVersion(ctx, tx, w)
	if err != nil {
		return Run{}, err
	}
	id := ids.New[ids.Run]()
	given, snapshot, err := s.sealVariables(ctx, tx, w, id, n.Variables)
	if err != nil {
		return Run{}, err
	}
	_, err = postgres.Exec(ctx, tx, Queries.Get("RunInsert"), postgres.Args{
		"id": id, "plan_id": ids.New[ids.Plan](), "apply_id": ids.New[ids.Apply](), "organization_id": w.Organization, "workspace_id": w.ID,
		"message": n.Message, "source": n.Source, "created_by": actor.User, "plan_only": n.PlanOnly, "save_plan": n.SavePlan, "is_destroy": n.IsDestroy,
		"refresh": n.refresh(), "refresh_only": n.RefreshOnly, "auto_apply": *n.AutoApply, "allow_empty_apply": n.AllowEmptyApply,
		"target_addrs": orEmpty(n.TargetAddrs), "replace_addrs": orEmpty(n.ReplaceAddrs), "structured_output": w.StructuredRunOutputEnabled, "generate_config": n.GenerateConfig,
		"configuration_version_id": c.ID, "configuration_object_id": c.ObjectID,
		"terraform_version": exact, "working_directory": w.WorkingDirectory, "run_variables_sealed": given, "variables_sealed": snapshot,
		"workflow_definition": WorkflowDefinition(), "application_build_sha": s.settings.Build,
		"operation": string(n.Operation),
	})
	if err == nil && !n.PlanOnly {
		_, err = postgres.Exec(ctx, tx, Queries.Get("RunNoted"), postgres.Args{"workspace_id": w.ID})
	}
	if err != nil {
		return Run{}, fmt.Errorf("create the run: %w", err)
	}
	r, err := load(ctx, tx, id)
	if err != nil {
		return Run{}, err
	}
	if waits, err := waitsForIntake(ctx, tx, r); err != nil || (waits && unavailable == "") {
		return r, err
	}
	if err := s.bindPolicies(ctx, tx, &r); err != nil {
		return Run{}, err
	}
	if err := fixTasks(ctx, tx, r); err != nil {
		return Run{}, err
	}
	if err := step(ctx, tx, &r, move{To: Queued, Actor: actor}); err != nil {
		return Run{}, err
	}
	if unavailable != "" {
		err = step(ctx, tx, &r, move{To: PlanFailed, Actor: authz.System(), Reason: "tofu_version_unavailable", Message: unavailable})
	} else {
		err = enter(ctx, tx, r)
	}
	if err != nil {
		return Run{}, err
	}
	return load(ctx, tx, id)
}

func (n NewRun) check(w workspaces.Workspace) error {
	attribute := func(name, text string, args ...any) error {
		return fault.New(fault.Invalid, "invalid_attribute", text, args...).At("/data/attributes/" + name)
	}
	switch {
	case n.IsDestroy && !w.AllowDestroyPlan:
		return attribute("is-destroy", "Workspace %q does not allow destroy plans. Set its allow-destroy-plan first.", w.Name)
	case n.IsDestroy && n.RefreshOnly:
		return attribute("refresh-only", "A run cannot both destroy and only refresh.")
	case n.RefreshOnly && !n.refresh():
		return attribute("refresh", "A refresh-only run must refresh.")
	case n.Operation == OperationPlan && *n.AutoApply:
		return attribute("save-plan", "A saved plan is applied later, so it cannot be applied automatically.")
	}
	if err := checkMessage(n.Message); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, v := range n.Variables {
		if v.Key == "" || seen[v.Key] {
			return attribute("variables", "Variable %q has no name or is given twice.", v.Key)
		}
		seen[v.Key] = true
	}
	return nil
}

func checkMessage(message string) error {
	if len(message) > 10_000 {
		return fault.New(fault.Invalid, "invalid_attribute", "The message is longer than 10,000 bytes.").At("/data/attributes/message")
	}
	return nil
}

// checkSizes holds PL-06: what a runner must fetch before it can begin is bounded.
func (s *Service) checkSizes(ctx context.Context, tx postgres.Tx, w workspaces.Workspace, c Configuration) error {
	configuration, err := s.objects.Info(ctx, tx, c.OrganizationID, c.ObjectID)
	if err != nil {
		return err
	}
	var predecessor int64
	current, err := state.CurrentID(ctx, tx, w.ID)
	if err != nil {
		return err
	}
	if current != "" {
		v, err := s.state.Row(ctx, tx, current)
		if err != nil {
			return err
		}
		predecessor = v.Size
	}
	const lockFile = 0 // init makes it on the runner; a configuration that brings one counts it there
	if configuration.Size+lockFile+predecessor > s.settings.LaunchLimit {
		return fault.New(fault.TooLarge, "artifact_too_large",
			"A run may start from at most %d bytes, but its configuration has %d, its lock file %d and the current state %d. Leave large files out with .terraformignore, or split the state.",
			s.settings.LaunchLimit, configuration.Size, lockFile, predecessor)
	}
	return nil
}

// resolveVersion gives the exact OpenTofu version of a run (amendment 7). When no
// runner has it, unavailable says so in words.
func resolveVersion(ctx context.Context, tx postgres.Tx, w workspaces.Workspace) (exact, unavailable string, err error) {
	have, err := dispatch.VersionsFor(ctx, tx, w.ID)
	if err != nil {
		return "", "", err
	}
	sort.Slice(have, func(i, j int) bool { return older(have[j], have[i]) })
	usable, err := site.UsableVersions(ctx, tx, site.Terraform, have)
	if err != nil {
		return "", "", err
	}
	if w.TerraformVersion == "latest" && len(usable.Default) > 0 {
		return usable.Default[0], "", nil
	}
	if slices.Contains(usable.Exact, w.TerraformVersion) {
		return w.TerraformVersion, "", nil
	}
	if len(have) == 0 {
		return w.TerraformVersion, noRunner(w), nil
	}
	if len(usable.Exact) == 0 || slices.Contains(have, w.TerraformVersion) {
		return w.TerraformVersion, disabledVersion(w, usable.Exact), nil
	}
	have = usable.Exact
	return w.TerraformVersion, fmt.Sprintf("The workspace wants OpenTofu %s, but the runners have %s. Set the workspace's terraform-version to one of these or to latest.", w.TerraformVersion, strings.Join(have, ", ")), nil
}

// disabledVersion says that the runners have what the workspace wants, and the catalogue lets
// no run begin with it.
func disabledVersion(w workspaces.Workspace, usable []string) string {
	if len(usable) == 0 {
		return "Every version of OpenTofu that the runners have is disabled on this site. Ask a site admin to enable one."
	}
	return fmt.Sprintf("OpenTofu %s is disabled on this site. Set the workspace's terraform-version to %s or to latest.", w.TerraformVersion, strings.Join(usable, ", "))
}

// noRunner says why nothing can execute the runs of a workspace.
func noRunner(w workspaces.Workspace) string {
	labels := ""
	if len(w.RunnerSelector) > 0 {
		labels = " and has the labels " + strings.Join(w.RunnerSelector, ", ")
	}
	if w.ExecutionMode == workspaces.Agent {
		return fmt.Sprintf("No runner has connected yet that belongs to the agent pool %s%s, so nothing can execute the run. Start a holdfast-runner with a token of the pool.", w.AgentPool, labels)
	}
	return fmt.Sprintf("No runner has connected yet that takes remote runs%s, so nothing can execute the run. Start a holdfast-runner of a group that does, or give the workspace an agent pool.", labels)
}

func older(a, b string) bool {
	va, errA := version.NewVersion(a)
	vb, errB := version.NewVersion(b)
	if errA != nil || errB != nil {
		return a < b
	}
	return va.LessThan(vb)
}

// sealVariables packs what the client gave, and everything the runner will get: the
// variables of the workspace and its sets as they are now, then the run's own, then those
// of sets with priority. Later ones win (PL-13).
func (s *Service) sealVariables(ctx context.Context, tx postgres.Tx, w workspaces.Workspace, id ids.Run, given []Variable) (shown, snapshot []byte, err error) {
	own, above, err := s.workspaces.ResolveVariables(ctx, tx, w.Organization, w.ID)
	if err != nil {
		return nil, nil, err
	}
	if given == nil {
		given = []Variable{}
	}
	all := slices.Concat(forRun(own), given, forRun(above))
	if w.SSHKey != "" {
		key, err := s.workspaces.SSHKeyValue(ctx, tx, w)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, Variable{Value: key, SSH: true, Sensitive: true})
	}
	seal := func(label string, list []Variable) ([]byte, error) {
		encoded, err := json.Marshal(list)
		if err != nil {
			return nil, err
		}
		return s.objects.SealValue(ctx, tx, w.Organization, label, encoded)
	}
	if shown, err = seal(runVariablesLabel(id), given); err != nil {
		return nil, nil, err
	}
	snapshot, err = seal(snapshotLabel(id), all)
	return shown, snapshot, err
}

// forRun gives variables as a run gets them, without those that no configuration can declare.
func forRun(variables []workspaces.Variable) []Variable {
	list := make([]Variable, 0, len(variables))
	for _, v := range variables {
		if v.Category == workspaces.Env || workspaces.Declarable(v.Key) {
			list = append(list, Variable{Key: v.Key, Value: v.Value, HCL: v.HCL, Env: v.Category == workspaces.Env, Sensitive: v.Sensitive})
		}
	}
	return list
}
