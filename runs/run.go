package runs

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/site"
	"github.com/holdfast-run/holdfast/state"
	"github.com/holdfast-run/holdfast/workspaces"
)

//go:embed queries.sql
var queriesSQL string

//go:embed configurations.sql
var configurationsSQL string

//go:embed lists.sql
var listsSQL string

//go:embed stages.sql
var stagesSQL string

//go:embed site.sql
var siteSQL string

// Queries are the package's statements; tests check them against the schema.
var Queries = postgres.ParseQueries(queriesSQL + "\n" + configurationsSQL + "\n" + listsSQL + "\n" + stagesSQL + "\n" + siteSQL)

// Settings are the numbers of G-28; Defaults gives them.
type Settings struct {
	AssignmentExpiry time.Duration // from poll to accept
	Heartbeat        time.Duration // between a runner's status polls
	PlanLiveness     time.Duration // silence after which a plan's runner is lost, while others are heard
	OutageAllowance  time.Duration // how much longer it may be silent when no other runner is heard either
	ApplyLiveness    time.Duration // silence after which a runner is lost once apply-start was redeemed
	ApprovalLifetime time.Duration // from the plan's end to expiry (AP-01)
	RunTTL           time.Duration // of one phase; shorter than Authority (RP-18)
	InterruptGrace   time.Duration // from the interrupt to the kill
	Authority        time.Duration // of an attempt (AU-20)
	ForceCancelGrace time.Duration // from a cancel until it may be forced (G-44)
	// BootstrapLifetime is how long the bootstrap capability of a session can be redeemed (AU-11).
	BootstrapLifetime time.Duration
	// Identity signs tokens by which runs prove what they are to others; nil signs none.
	Identity     func(context.Context, site.Claims) (string, error)
	ReplayWindow time.Duration // in which the same POST is the same run (amendment 13)
	TaskProgress time.Duration // from a run task's request to the first word of its service
	TaskTTL      time.Duration // to the last
	LogLimit     int64         // bytes of one phase's log
	LaunchLimit  int64         // bytes of configuration, lock file and predecessor state together (PL-06, G-29)
	Build        string        // of this server's code, kept on every run it creates (RL-04)
	// StepUp answers nil for an actor that proved lately who it is. Nil: nobody did.
	StepUp func(ctx context.Context, tx postgres.Tx, actor authz.Actor) error
}

// Defaults gives the settings a server starts with.
func Defaults() Settings {
	return Settings{
		AssignmentExpiry: time.Minute, Heartbeat: 5 * time.Second, PlanLiveness: time.Minute, OutageAllowance: 2 * time.Minute, ApplyLiveness: 10 * time.Minute,
		ApprovalLifetime: 7 * 24 * time.Hour, RunTTL: 3*time.Hour + 50*time.Minute, InterruptGrace: 5 * time.Minute, Authority: 4 * time.Hour, BootstrapLifetime: 5 * time.Minute,
		ForceCancelGrace: 5 * time.Minute, ReplayWindow: time.Minute, TaskProgress: 10 * time.Minute, TaskTTL: time.Hour, LogLimit: 10 << 20, LaunchLimit: 100_000_000,
		Build: "dev",
	}
}

// Check refuses settings that would break a promise: an attempt that is killed after its
// authority has ended could not publish its state (RP-18), and a runner that has no time for
// two heartbeats would be called lost while it lives (amendment 25).
func (s Settings) Check() error {
	switch {
	case s.AssignmentExpiry <= 0 || s.Heartbeat <= 0 || s.ApprovalLifetime <= 0 || s.RunTTL <= 0:
		return errors.New("the assignment expiry, the heartbeat, the approval TTL and the run TTL must be longer than nothing")
	case s.TaskProgress <= 0 || s.TaskTTL < s.TaskProgress:
		return fmt.Errorf("the time for the first word of a run task (%s) must be longer than nothing, and the time for its answer (%s) not shorter", s.TaskProgress, s.TaskTTL)
	case s.RunTTL+s.InterruptGrace >= s.Authority:
		return fmt.Errorf("the run TTL (%s) and the interrupt grace (%s) together must be shorter than the authority of a runner (%s), so that an interrupted apply can still publish its state", s.RunTTL, s.InterruptGrace, s.Authority)
	case s.PlanLiveness < 2*s.Heartbeat || s.ApplyLiveness < s.PlanLiveness:
		return fmt.Errorf("the plan liveness (%s) must be at least two heartbeats (%s each), and the apply liveness (%s) not shorter than it", s.PlanLiveness, s.Heartbeat, s.ApplyLiveness)
	}
	return nil
}

// Service drives runs.
type Service struct {
	db         *postgres.DB
	objects    *artifacts.Service
	workspaces *workspaces.Service
	state      *state.Service
	dispatch   *dispatch.Service
	settings   Settings
}

// New makes the service.
func New(db *postgres.DB, objects *artifacts.Service, ws *workspaces.Service, st *state.Service, d *dispatch.Service, settings Settings) *Service {
	return &Service{db: db, objects: objects, workspaces: ws, state: st, dispatch: d, settings: settings}
}

// Run is a run as it stands.
type Run struct {
	ID                     ids.Run
	PlanID                 ids.Plan
	ApplyID                ids.Apply
	OrganizationID         ids.Organization
	OrganizationName       string
	WorkspaceID            ids.Workspace
	ProjectID              ids.Project // in which the workspace is now
	WorkspaceName          string
	ClientEncrypted        bool // the workspace takes only a state that OpenTofu encrypted
	DurableStatus          Status
	DurableReason          string // a stable code such as runner_lost; empty on the main path
	StatusMessage          string // the same for people
	QueueSeq               int64
	Message                string
	Source                 string
	CreatedBy              ids.User
	PlanOnly               bool
	SavePlan               bool
	IsDestroy              bool
	Refresh                bool
	RefreshOnly            bool
	AutoApply              bool
	AllowEmptyApply        bool
	TargetAddrs            []string
	ReplaceAddrs           []string
	StructuredOutput       bool // clients draw plan and apply by themselves, from events and the redacted plan
	GenerateConfig         bool // asked for: configuration for what is imported without any
	GeneratedConfig        bool // the redacted plan has some
	ConfigurationVersionID ids.ConfigurationVersion
	ConfigurationObjectID  ids.Object
	TerraformVersion       string
	WorkingDirectory       string
	RunVariablesSealed     []byte
	VariablesSealed        []byte
	PredecessorVersionID   ids.StateVersion
	AdmittedAt             *time.Time
	FenceEpoch             *int64
	FenceReleasedAt        *time.Time
	HasChanges             *bool
	ResourceAdditions      int
	ResourceChanges        int
	ResourceDestructions   int
	ResourceImports        int
	PlanObjectID           ids.Object
	PlanJSONObjectID       ids.Object `db:"plan_json_object_id"`
	PlanJSONRedactedObject ids.Object `db:"plan_json_redacted_object_id"`
	LockFileObjectID       ids.Object
	PlanTofuVersion        string
	PlanTofuDigest         string
	PlanFinishedAt         *time.Time
	PlanJustFinished       bool // within the last 4 seconds: a client that follows the plan may not know it yet
	ApprovalExpiresAt      *time.Time
	ConfirmedAt            *time.Time
	CancelRequestedAt      *time.Time
	ResultingVersionID     ids.StateVersion
	RecoveredAt            *time.Time
	CreatedAt              time.Time
	FinishedAt             *time.Time
	RunnerVersion          string // the release that planned
	RunnerDigest           string
	PolicySets             int    // how many have a say about its plan; fixed when its round began
	PolicyScope            string // the digest of them; empty when there are none
	PolicyVersion          string // the release of the policy-runner that judged the plan; empty when none did
	PolicyDigest           string
	ApprovalRule           approvals.Rule  // as it was when the plan came to its decision
	PlanNote               string          // what its plan waits for, in words, as it was when it was done; empty without an approval rule
	Approvers              []ids.User      // who has approved, the first in front; the policy is none of them
	GateReason             string          // which gate keeps it from starting although it is its turn; empty otherwise
	PlanAttempt            dispatch.Status // of the newest one; empty when there is none
	ApplyAttempt           dispatch.Status
	PlanLogTruncated       bool // something was left out of the log (PL-04); of a promoted run, of its source's plan
	ApplyLogTruncated      bool
	WorkflowDefinition     string           // by which lifecycle it was created, and by which build of the server (RL-04)
	ApplicationBuildSHA    string           `db:"application_build_sha"`
	HolderKind             fence.HolderKind // who has the workspace now; empty when nobody
	HolderID               string
	HolderName             string
	HolderHeld             bool // the holder is a run that has ended and must be recovered

	CostEstimateID         ids.CostEstimate // of the plan; empty when its runner has none made
	TaskStages             []string         // "id stage status" of the run tasks that its round asks; see TaskStage
	Operation              Operation
	Round                  int       // 1, and one more after each requeue
	SourceRunID            ids.Run   // the run whose plan this one applies
	PromotedRuns           []ids.Run // those that apply this one's plan
	ReplanOf               ids.Run   // the run that this one plans anew
	ForceCancelAvailableAt *time.Time
	ForceCancelDue         bool // that time has come
	Comments               []ids.Comment
	ConfirmedBy            ids.User // who decided that it is applied; empty: nobody yet

	gaveBack bool // its workspace, in the transaction at hand
}

// Object is the run as authz knows it.
func (r Run) Object() authz.Object {
	return authz.Object{Organization: r.OrganizationID, Project: r.ProjectID, Workspace: r.WorkspaceID, Noun: "run", Name: string(r.ID)}
}

// Occupies tells whether the run holds its workspace's fence.
func (r Run) Occupies() bool { return r.FenceEpoch != nil && r.FenceReleasedAt == nil && !r.gaveBack }

func (r Run) token() fence.Token {
	return fence.Token{Workspace: r.WorkspaceID, Epoch: *r.FenceEpoch, Holder: holder(r.ID)}
}

// Variable is one value a run was given.
type Variable struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	HCL   bool   `json:"hcl"`
	Env   bool   `json:"env,omitempty"`
	SSH   bool   `json:"ssh,omitempty"` // it is no variable: the value is the private key for fetching modules

	Sensitive bool `json:"sensitive,omitempty"` // marked so in the workspace
}

func runVariablesLabel(id ids.Run) string { return "run-variables/" + string(id) }
func snapshotLabel(id ids.Run) string     { return "run-snapshot/" + string(id) }

// HistoryEntry is one step of a run.
type HistoryEntry struct {
	RunID      ids.Run
	FromStatus Status
	ToStatus   Status
	Reason     string
	ActorKind  authz.ActorKind
	ActorID    string
	At         time.Time
}

func load(ctx context.Context, tx postgres.Tx, id ids.Run) (Run, error) {
	r, err := postgres.One[Run](ctx, tx, Queries.Get("RunGet"), postgres.Args{"id": id, "attempt_id": "", "queue_of": ""})
	if postgres.NoRow(err) {
		return Run{}, fault.Missing("run", string(id))
	}
	if err != nil {
		return Run{}, fmt.Errorf("read the run: %w", err)
	}
	return r, nil
}

// lock takes the workspace's fence row and the run's row, in this order, and reads
// the run as it stands then.
func lock(ctx context.Context, tx postgres.Tx, id ids.Run) (Run, fence.Status, error) {
	var status fence.Status
	if err := fence.LockOf(ctx, tx, id, "", &status); err != nil {
		return Run{}, status, err
	}
	if err := postgres.Later(ctx, tx, Queries.Get("RunLock"), postgres.Args{"id": id, "attempt_id": ""}, nil); err != nil {
		return Run{}, status, err
	}
	r, err := load(ctx, tx, id)
	if err == nil && status.Workspace == "" {
		err = fault.Missing("workspace", string(r.WorkspaceID))
	}
	return r, status, err
}

// Detail is a run with its history, oldest first.
type Detail struct {
	Run
	History []HistoryEntry
}

// ThisRound gives the history since the run was made or last requeued.
func (d Detail) ThisRound() []HistoryEntry {
	for i := len(d.History) - 1; i > 0; i-- {
		if d.History[i].ToStatus == Queued {
			return d.History[i:]
		}
	}
	return d.History
}

// Get gives one run.
func (s *Service) Get(ctx context.Context, actor authz.Actor, id ids.Run) (Detail, error) {
	return s.read(ctx, actor, func(context.Context, postgres.Tx) (ids.Run, error) { return id, nil }, fault.Missing("run", string(id)))
}

// ByPlan gives the run a plan belongs to.
func (s *Service) ByPlan(ctx context.Context, actor authz.Actor, id ids.Plan) (Detail, error) {
	return s.read(ctx, actor, func(ctx context.Context, tx postgres.Tx) (ids.Run, error) {
		return postgres.Value[ids.Run](ctx, tx, Queries.Get("RunByPlan"), postgres.Args{"id": id})
	}, fault.Missing("plan", string(id)))
}

// ByApply gives the run an apply belongs to.
func (s *Service) ByApply(ctx context.Context, actor authz.Actor, id ids.Apply) (Detail, error) {
	return s.read(ctx, actor, func(ctx context.Context, tx postgres.Tx) (ids.Run, error) {
		return postgres.Value[ids.Run](ctx, tx, Queries.Get("RunByApply"), postgres.Args{"id": id})
	}, fault.Missing("apply", string(id)))
}

func (s *Service) read(ctx context.Context, actor authz.Actor, find func(context.Context, postgres.Tx) (ids.Run, error), missing error) (d Detail, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.read", func(tx postgres.Tx) error {
		id, err := find(ctx, tx)
		if postgres.NoRow(err) {
			return missing
		}
		if err != nil {
			return err
		}
		r, err := load(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := authz.Allow(actor, authz.RunRead, r.Object()); err != nil {
			if fault.Is(err, fault.NotFound) {
				return missing // in the words of what was asked for, which name no run
			}
			return err
		}
		details, err := withHistory(ctx, tx, []Run{r})
		if err == nil {
			d = details[0]
		}
		return err
	})
	return d, err
}

func withHistory(ctx context.Context, tx postgres.Tx, list []Run) ([]Detail, error) {
	runIDs := make([]string, len(list))
	for i, r := range list {
		runIDs[i] = string(r.ID)
	}
	entries, err := postgres.All[HistoryEntry](ctx, tx, Queries.Get("History"), postgres.Args{"run_ids": runIDs})
	if err != nil {
		return nil, err
	}
	of := map[ids.Run][]HistoryEntry{}
	for _, e := range entries {
		of[e.RunID] = append(of[e.RunID], e)
	}
	details := make([]Detail, len(list))
	for i, r := range list {
		details[i] = Detail{Run: r, History: of[r.ID]}
	}
	return details, nil
}

// List gives a workspace's runs, newest first, and counts all of them.
func (s *Service) List(ctx context.Context, actor authz.Actor, workspace ids.Workspace, f Filter) (list []Detail, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.list", func(tx postgres.Tx) error {
		w, err := workspaces.Allowed(ctx, tx, actor, authz.RunRead, workspace)
		if err != nil {
			return err
		}
		rows, counted, err := f.page(ctx, tx, w.Organization, workspace, authz.Everywhere(), true)
		if total = counted; err != nil {
			return err
		}
		list, err = withHistory(ctx, tx, rows)
		return err
	})
	return list, total, err
}

// QueueEntry is a run that waits or works, with its place among all of its organization.
type QueueEntry struct {
	Detail
	Position int // from 1
}

// Queue gives the runs of an organization that wait or work and that the actor may see,
// oldest first, and all of them counted by their status.
func (s *Service) Queue(ctx context.Context, actor authz.Actor, organization ids.Organization, name string) (list []QueueEntry, counts map[Status]int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.queue", func(tx postgres.Tx) error {
		if err := authz.Allow(actor, authz.OrganizationRead, authz.Object{Organization: organization, Noun: "organization", Name: name}); err != nil {
			return err
		}
		rows, err := postgres.All[Run](ctx, tx, Queries.Get("QueueList"), postgres.Args{"organization_id": organization})
		if err != nil {
			return err
		}
		counts, list = map[Status]int{}, nil
		visible, positions := make([]Run, 0, len(rows)), []int{}
		for i, r := range rows {
			counts[r.DurableStatus]++
			if authz.Can(actor, authz.RunRead, r.Object()) {
				visible, positions = append(visible, r), append(positions, i+1)
			}
		}
		details, err := withHistory(ctx, tx, visible)
		for i, d := range details {
			list = append(list, QueueEntry{Detail: d, Position: positions[i]})
		}
		return err
	})
	return list, counts, err
}

// Variables gives the variables the client sent with the run, for showing.
func (s *Service) Variables(ctx context.Context, actor authz.Actor, r Run) (list []Variable, err error) {
	if err := authz.Allow(actor, authz.RunRead, r.Object()); err != nil {
		return nil, err
	}
	err = postgres.InSnapshot(ctx, s.db, "runs.variables", func(tx postgres.Tx) error {
		list, err = s.openVariables(ctx, tx, r.OrganizationID, runVariablesLabel(r.ID), r.RunVariablesSealed)
		return err
	})
	return list, err
}

func (s *Service) openVariables(ctx context.Context, tx postgres.Tx, organization ids.Organization, label string, sealed []byte) (list []Variable, err error) {
	plain, err := s.objects.OpenValue(ctx, tx, organization, label, sealed)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(plain, &list); err != nil {
		return nil, fmt.Errorf("read variables: %w", err)
	}
	return list, nil
}
