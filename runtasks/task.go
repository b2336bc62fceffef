package runtasks

import (
	"context"
	"crypto/subtle"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Stage is a point of a run at which tasks are asked.
type Stage string

// The stages, in the order in which a run comes to them.
const (
	PrePlan  Stage = "pre_plan"
	PostPlan Stage = "post_plan"
	PreApply Stage = "pre_apply"
)

var stages = []Stage{PrePlan, PostPlan, PreApply}

// Enforcement is what the failure of a task does to the run.
type Enforcement string

// The enforcements.
const (
	Advisory  Enforcement = "advisory"  // it is shown
	Mandatory Enforcement = "mandatory" // it ends the run
)

const (
	longestName        = 200  // bytes
	longestDescription = 1000 // bytes
	longestKey         = 1000 // bytes
	mostTasks          = 200  // of an organization
)

// Task is a service that can be asked about runs.
type Task struct {
	ID               ids.RunTask
	Organization     ids.Organization
	OrganizationName string
	Name             string
	Description      string
	Enabled          bool
	URL              string // empty for who may not administer it
	HMACKey          string // never shown
	Global           Global
	GlobalEntitled   bool // the organization has global tasks; else Global is kept and does nothing
	CreatedAt        time.Time

	Workspaces []WorkspaceTask // that ask it
}

// Global says how all workspaces of the organization ask a task.
type Global struct {
	Enabled     bool
	Stages      []Stage
	Enforcement Enforcement
}

// TaskChanges are what a request says about a task; nil leaves a thing as it is.
type TaskChanges struct {
	Name, Description, URL, HMACKey *string
	Enabled                         *bool
	GlobalEnabled                   *bool
	GlobalStages                    *[]Stage
	GlobalEnforcement               *Enforcement
}

// apply takes what is said. What the organization does not have is left as it is, so that
// clients that always say it go on.
func (t *Task) apply(c TaskChanges) {
	set(&t.Name, c.Name)
	set(&t.Description, c.Description)
	set(&t.URL, c.URL)
	set(&t.HMACKey, c.HMACKey)
	set(&t.Enabled, c.Enabled)
	if t.GlobalEntitled {
		set(&t.Global.Enabled, c.GlobalEnabled)
		set(&t.Global.Stages, c.GlobalStages)
		set(&t.Global.Enforcement, c.GlobalEnforcement)
	}
	if t.Global.Stages == nil {
		t.Global.Stages = []Stage{}
	}
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func (s *Service) check(t Task) error {
	if t.Name == "" {
		return accounts.Invalid("name", "Name can't be blank")
	}
	for _, text := range []struct {
		attribute, name, value string
		limit                  int
	}{{"name", "Name", t.Name, longestName}, {"description", "Description", t.Description, longestDescription}, {"hmac-key", "Hmac key", t.HMACKey, longestKey}} {
		if err := accounts.CheckText(text.attribute, text.name, text.value, text.limit); err != nil {
			return err
		}
	}
	if t.URL == "" {
		return accounts.Invalid("url", "Url can't be blank")
	}
	if err := s.client.CheckURL(t.URL); err != nil {
		return fault.PointAt(err, "/data/attributes/url")
	}
	if t.Global.Enabled && len(t.Global.Stages) == 0 {
		return accounts.Invalid("global-configuration", "Global configuration must name at least one stage while it is enabled")
	}
	if err := checkStages("global-configuration", t.Global.Stages); err != nil {
		return err
	}
	return checkEnforcement("global-configuration", t.Global.Enforcement)
}

func checkStages(attribute string, list []Stage) error {
	for i, stage := range list {
		if stage == "post_apply" {
			return accounts.Invalid(attribute, "The stage post_apply does not exist here: after an apply there is nothing left to stop. Have the service told by a notification configuration with the trigger run:completed")
		}
		if !slices.Contains(stages, stage) || slices.Contains(list[:i], stage) {
			return accounts.Invalid(attribute, "Stages are pre_plan, post_plan and pre_apply, each at most once")
		}
	}
	return nil
}

func checkEnforcement(attribute string, e Enforcement) error {
	if e != Advisory && e != Mandatory {
		return accounts.Invalid(attribute, "Enforcement level must be advisory or mandatory")
	}
	return nil
}

type taskRow struct {
	ID                ids.RunTask
	OrganizationID    ids.Organization
	OrganizationName  string
	Name              string
	Description       string
	Enabled           bool
	URLSealed         []byte `db:"url_sealed"`
	HMACKeySealed     []byte `db:"hmac_key_sealed"`
	GlobalEnabled     bool
	GlobalStages      []Stage
	GlobalEnforcement Enforcement
	GlobalEntitled    bool
	CreatedAt         time.Time
}

func urlLabel(id ids.RunTask) string { return "run-task-url/" + string(id) }
func keyLabel(id ids.RunTask) string { return "run-task-key/" + string(id) }

func (s *Service) read(ctx context.Context, tx postgres.Tx, r taskRow) (Task, error) {
	t := Task{
		ID: r.ID, Organization: r.OrganizationID, OrganizationName: r.OrganizationName, Name: r.Name, Description: r.Description, Enabled: r.Enabled,
		Global: Global{r.GlobalEnabled, r.GlobalStages, r.GlobalEnforcement}, GlobalEntitled: r.GlobalEntitled, CreatedAt: r.CreatedAt,
	}
	url, err := s.sealer.OpenValue(ctx, tx, r.OrganizationID, urlLabel(r.ID), r.URLSealed)
	if err != nil {
		return t, err
	}
	t.URL = string(url)
	if r.HMACKeySealed != nil {
		key, err := s.sealer.OpenValue(ctx, tx, r.OrganizationID, keyLabel(r.ID), r.HMACKeySealed)
		if err != nil {
			return t, err
		}
		t.HMACKey = string(key)
	}
	return t, nil
}

func (s *Service) load(ctx context.Context, tx postgres.Tx, id ids.RunTask) (Task, error) {
	r, err := postgres.One[taskRow](ctx, tx, Queries.Get("TaskGet"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Task{}, fault.Missing("run task", string(id))
	}
	if err != nil {
		return Task{}, err
	}
	return s.read(ctx, tx, r)
}

func (t Task) object() authz.Object {
	return authz.Object{Organization: t.Organization, Noun: "run task", Name: string(t.ID)}
}

// loadAllowed gives a task to who may do action, and its address only to who may administer it.
func (s *Service) loadAllowed(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.RunTask) (Task, error) {
	t, err := s.load(ctx, tx, id)
	if err != nil {
		return Task{}, err
	}
	if err := authz.Allow(actor, action, t.object()); err != nil {
		return Task{}, err
	}
	if !authz.Can(actor, authz.RunTasksManage, t.object()) {
		t.URL = ""
	}
	list := []Task{t}
	err = withWorkspaces(ctx, tx, actor, list)
	return list[0], err
}

// withWorkspaces puts into tasks which workspaces ask them, as far as the actor sees those.
func withWorkspaces(ctx context.Context, tx postgres.Tx, actor authz.Actor, list []Task) error {
	wanted := make([]ids.RunTask, len(list))
	for i, t := range list {
		wanted[i] = t.ID
	}
	found, err := postgres.All[WorkspaceTask](ctx, tx, Queries.Get("WorkspaceTasksOf"), postgres.Args{"task_ids": wanted})
	if err != nil {
		return err
	}
	for i := range list {
		for _, wt := range found {
			if wt.TaskID == list[i].ID && authz.Can(actor, authz.WorkspaceRead, authz.Object{Organization: wt.OrganizationID, Project: wt.ProjectID, Workspace: wt.WorkspaceID}) {
				list[i].Workspaces = append(list[i].Workspaces, wt)
			}
		}
	}
	return nil
}

// Get gives a task to a member of its organization.
func (s *Service) Get(ctx context.Context, actor authz.Actor, id ids.RunTask) (t Task, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runtasks.get", func(tx postgres.Tx) error {
		t, err = s.loadAllowed(ctx, tx, actor, authz.OrganizationRead, id)
		return err
	})
	return t, err
}

// List gives the tasks of an organization in the order of their creation, and how many there are.
func (s *Service) List(ctx context.Context, actor authz.Actor, organization string, page accounts.Page) (list []Task, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runtasks.list", func(tx postgres.Tx) error {
		list = nil
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		args := postgres.Args{"organization_id": org.ID, "limit": page.Limit(), "offset": page.Offset()}
		if total, err = postgres.Value[int](ctx, tx, Queries.Get("TaskCount"), args); err != nil {
			return err
		}
		rows, err := postgres.All[taskRow](ctx, tx, Queries.Get("TaskList"), args)
		if err != nil {
			return err
		}
		for _, r := range rows {
			t, err := s.read(ctx, tx, r)
			if err != nil {
				return err
			}
			if !authz.Can(actor, authz.RunTasksManage, t.object()) {
				t.URL = ""
			}
			list = append(list, t)
		}
		return withWorkspaces(ctx, tx, actor, list)
	})
	return list, total, err
}

// Create makes a task after its service has answered a test request with success; else it is
// Invalid "verification_failed", and nothing is made.
func (s *Service) Create(ctx context.Context, actor authz.Actor, organization string, c TaskChanges) (Task, error) {
	t := Task{ID: ids.New[ids.RunTask](), Enabled: true, Global: Global{Enforcement: Advisory}}
	err := postgres.InSnapshot(ctx, s.db, "runtasks.may-create", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.RunTasksManage, organization)
		t.Organization, t.GlobalEntitled = org.ID, org.GlobalRunTasks
		return err
	})
	if err != nil {
		return Task{}, err
	}
	t.apply(c)
	if err := s.check(t); err != nil {
		return Task{}, err
	}
	if err := s.test(ctx, t); err != nil {
		return Task{}, err
	}
	err = postgres.InTx(ctx, s.db, "runtasks.create", func(tx postgres.Tx) error {
		if err := authz.Allow(actor, authz.RunTasksManage, t.object()); err != nil {
			return err
		}
		n, err := postgres.Value[int](ctx, tx, Queries.Get("TaskCount"), postgres.Args{"organization_id": t.Organization})
		if err != nil {
			return err
		}
		if n >= mostTasks {
			return fault.New(fault.Exhausted, "too_many_run_tasks", "The organization has %d run tasks already. Delete one first.", n)
		}
		return s.store(ctx, tx, actor, "TaskInsert", "run-task.created", &t)
	})
	return t, err
}

// Update changes a task. Another address is tested as by Create.
func (s *Service) Update(ctx context.Context, actor authz.Actor, id ids.RunTask, c TaskChanges) (t Task, err error) {
	var before Task
	err = postgres.InSnapshot(ctx, s.db, "runtasks.may-update", func(tx postgres.Tx) error {
		before, err = s.loadAllowed(ctx, tx, actor, authz.RunTasksManage, id)
		return err
	})
	if err != nil {
		return Task{}, err
	}
	after := before
	after.apply(c)
	if err := s.check(after); err != nil {
		return Task{}, err
	}
	if after.URL != before.URL || subtle.ConstantTimeCompare([]byte(after.HMACKey), []byte(before.HMACKey)) == 0 {
		if err := s.test(ctx, after); err != nil {
			return Task{}, err
		}
	}
	err = postgres.InTx(ctx, s.db, "runtasks.update", func(tx postgres.Tx) error {
		if _, err := postgres.Values[string](ctx, tx, Queries.Get("TaskLock"), postgres.Args{"id": id}); err != nil {
			return err
		}
		if t, err = s.loadAllowed(ctx, tx, actor, authz.RunTasksManage, id); err != nil {
			return err
		}
		t.apply(c)
		if err := s.check(t); err != nil {
			return err
		}
		return s.store(ctx, tx, actor, "TaskUpdate", "run-task.updated", &t)
	})
	return t, err
}

func (s *Service) store(ctx context.Context, tx postgres.Tx, actor authz.Actor, query, action string, t *Task) error {
	url, err := s.sealer.SealValue(ctx, tx, t.Organization, urlLabel(t.ID), []byte(t.URL))
	if err != nil {
		return err
	}
	args := postgres.Args{
		"id": t.ID, "organization_id": t.Organization, "name": t.Name, "description": t.Description, "enabled": t.Enabled, "url_sealed": url,
		"global_enabled": t.Global.Enabled, "global_stages": t.Global.Stages, "global_enforcement": string(t.Global.Enforcement),
	}
	if t.HMACKey != "" {
		if args["hmac_key_sealed"], err = s.sealer.SealValue(ctx, tx, t.Organization, keyLabel(t.ID), []byte(t.HMACKey)); err != nil {
			return err
		}
	}
	_, err = postgres.Exec(ctx, tx, Queries.Get(query), args)
	if _, constraint := postgres.Violation(err); constraint == "run_tasks_name" {
		return accounts.Taken("name", "Name")
	}
	if err != nil {
		return err
	}
	err = audit.Append(ctx, tx, audit.Entry{
		Organization: t.Organization, Actor: actor, Action: action, ObjectKind: "run-task", ObjectID: string(t.ID),
		Details: map[string]any{"name": t.Name, "enabled": t.Enabled, "global": t.Global.Enabled, "stages": t.Global.Stages, "enforcement": t.Global.Enforcement},
	})
	if err != nil {
		return err
	}
	*t, err = s.loadAllowed(ctx, tx, actor, authz.RunTasksManage, t.ID)
	return err
}

// Delete removes a task, and with it what workspaces ask of it. Runs that have begun still wait
// for what they have asked; what they have not yet sent fails.
func (s *Service) Delete(ctx context.Context, actor authz.Actor, id ids.RunTask) error {
	return postgres.InTx(ctx, s.db, "runtasks.delete", func(tx postgres.Tx) error {
		t, err := s.loadAllowed(ctx, tx, actor, authz.RunTasksManage, id)
		if err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("TaskDelete"), postgres.Args{"id": id}); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: t.Organization, Actor: actor, Action: "run-task.deleted", ObjectKind: "run-task", ObjectID: string(id), Details: map[string]any{"name": t.Name},
		})
	})
}
