package tfeapi

import (
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/workspaces"
)

// workspaceAnswer answers with a workspace and what the request asks to include.
func (s *server) workspaceAnswer(r *request, w workspaces.Workspace, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	items, included, err := s.workspaceViews(r, []workspaces.Workspace{w})
	if err != nil {
		return answer{}, err
	}
	return ok(items[0], included...), nil
}

func (s *server) listWorkspaces(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	filter, err := workspaceFilter(r)
	if err != nil {
		return answer{}, err
	}
	filter.Page = p.page()
	list, total, err := s.Workspaces.List(r.ctx, r.actor, r.vars["organization"], filter)
	if err != nil {
		return answer{}, err
	}
	items, included, err := s.workspaceViews(r, list)
	if err != nil {
		return answer{}, err
	}
	return page(items, p, total, included...), nil
}

// workspaceFilter reads what a list is narrowed by. A filter that is not known is
// refused: a client that asks for some must not be given all.
func workspaceFilter(r *request) (filter workspaces.Filter, err error) {
	query := r.query
	filter.SearchName, filter.WildcardName = query.Get("search[name]"), query.Get("search[wildcard-name]")
	filter.Tags, filter.ExcludeTags = commaList(query, "search[tags]"), commaList(query, "search[exclude-tags]")
	if filter.Bindings, err = taggedFilter(query); err != nil {
		return filter, err
	}
	filter.Project = ids.Project(query.Get("filter[project][id]")) // whatever it is, it selects nothing but its own
	if filter.Sort, err = r.sorted("Workspaces", "name", "current-run.created-at"); err != nil {
		return filter, err
	}
	any, err := r.choice("filter[tag-union]")
	if err != nil {
		return filter, err
	}
	blank, err := r.choice("filter[tag-value-default-null]")
	if err != nil {
		return filter, err
	}
	filter.AnyBinding, filter.BlankValues = any != nil && *any, blank != nil && *blank
	if wanted := commaList(query, "filter[current-run][status]"); len(wanted) > 0 {
		filter.RunStatuses = durableStatuses(wanted)
		filter.Nothing = len(filter.RunStatuses) == 0
	}
	for name := range query {
		narrows := strings.HasPrefix(name, "filter[") || strings.HasPrefix(name, "search[")
		if narrows && !workspaceFilters[name] && !taggedParameter.MatchString(name) {
			return filter, fault.New(fault.Malformed, "invalid_parameter", "Workspaces cannot be filtered by %s here.", name)
		}
	}
	return filter, nil
}

var workspaceFilters = map[string]bool{
	"search[name]": true, "search[wildcard-name]": true, "search[tags]": true, "search[exclude-tags]": true, "filter[project][id]": true, "filter[current-run][status]": true,
	"filter[tag-union]": true, "filter[tag-value-default-null]": true,
}

// commaList reads a comma-separated parameter. An empty one is no list.
func commaList(query url.Values, name string) (list []string) {
	for _, item := range strings.Split(query.Get(name), ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

func (s *server) readWorkspace(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	w, err := s.Workspaces.Get(r.ctx, r.actor, workspace)
	return s.workspaceAnswer(r, w, err)
}

func (s *server) readWorkspaceByName(r *request) (answer, error) {
	w, err := s.namedWorkspace(r)
	return s.workspaceAnswer(r, w, err)
}

// namedWorkspace is the workspace that the path names by organization and name.
func (s *server) namedWorkspace(r *request) (workspaces.Workspace, error) {
	return s.Workspaces.GetByName(r.ctx, r.actor, r.vars["organization"], r.vars["workspace"])
}

type workspaceAttributes struct {
	Name             Opt[string]   `json:"name"`
	Description      Opt[string]   `json:"description"`
	ExecutionMode    Opt[string]   `json:"execution-mode"`
	Operations       Opt[bool]     `json:"operations"` // the older way to say the mode
	AgentPoolID      Opt[string]   `json:"agent-pool-id"`
	RunnerSelector   Opt[[]string] `json:"runner-selector"`
	TerraformVersion Opt[string]   `json:"terraform-version"`
	WorkingDirectory Opt[string]   `json:"working-directory"`
	AutoApply        Opt[bool]     `json:"auto-apply"`
	AllowDestroyPlan Opt[bool]     `json:"allow-destroy-plan"`
	StructuredOutput Opt[bool]     `json:"structured-run-output-enabled"`
	ClientEncrypted  Opt[bool]     `json:"client-encrypted"`
	EnvironmentClass Opt[string]   `json:"environment-class"`
	FailedApply      Opt[string]   `json:"failed-apply"`
	GlobalState      Opt[bool]     `json:"global-remote-state"`
	ProjectState     Opt[bool]     `json:"project-remote-state"`

	SettingOverwrites   Opt[settingOverwritesInput] `json:"setting-overwrites"`
	AutoApplyRunTrigger Opt[bool]                   `json:"auto-apply-run-trigger"`
	QueueAllRuns        Opt[bool]                   `json:"queue-all-runs"`
	AssessmentsEnabled  Opt[bool]                   `json:"assessments-enabled"`
	AutoDestroyAt       Opt[time.Time]              `json:"auto-destroy-at"`
	FileTriggersEnabled Opt[bool]                   `json:"file-triggers-enabled"`
	TriggerPrefixes     Opt[[]string]               `json:"trigger-prefixes"`
	TriggerPatterns     Opt[[]string]               `json:"trigger-patterns"`
	SourceName          Opt[string]                 `json:"source-name"`
	SourceURL           Opt[string]                 `json:"source-url"`
}

// settingOverwritesInput says which settings are a workspace's own.
type settingOverwritesInput struct {
	ExecutionMode *bool `json:"execution-mode"`
	AgentPool     *bool `json:"agent-pool"`
}

// inheritMode reads whether execution mode and agent pool come from above. They go together.
func inheritMode(mode, pool *bool) (*bool, error) {
	if mode != nil && pool != nil && *mode != *pool {
		return nil, fault.New(fault.Invalid, "invalid_attribute", "If agent-pool and execution-mode are both included in setting-overwrites, their values must be the same.").At("/data/attributes/setting-overwrites")
	}
	if mode == nil {
		mode = pool
	}
	if mode == nil {
		return nil, nil
	}
	inherit := !*mode
	return &inherit, nil
}

// workspaceInput is what a request says about a workspace.
type workspaceInput struct {
	name     *string
	settings workspaces.Settings
	tags     []workspaces.TagRef
	bindings *[]workspaces.TagBinding // nil: not said
}

func readWorkspaceInput(r *request) (said workspaceInput, err error) {
	body, err := r.body()
	if err != nil {
		return said, err
	}
	in, err := decode[workspaceAttributes](body, "workspaces")
	if err != nil {
		return said, err
	}
	a := in.Attributes
	said.name = a.Name.Pointer()
	said.settings = workspaces.Settings{
		Description: textOrEmpty(a.Description), WorkingDirectory: textOrEmpty(a.WorkingDirectory), ExecutionMode: executionMode(a),
		TerraformVersion: a.TerraformVersion.Pointer(), AutoApply: a.AutoApply.Pointer(), AllowDestroyPlan: a.AllowDestroyPlan.Pointer(),
		StructuredRunOutputEnabled: a.StructuredOutput.Pointer(), ClientEncrypted: a.ClientEncrypted.Pointer(),
		EnvironmentClass: (*workspaces.EnvironmentClass)(a.EnvironmentClass.Pointer()), FailedApply: (*workspaces.FailedApply)(a.FailedApply.Pointer()),
		GlobalRemoteState: a.GlobalState.Pointer(), ProjectRemoteState: a.ProjectState.Pointer(),
	}
	if said.settings.AgentPool, err = agentPool(a.AgentPoolID); err != nil {
		return said, err
	}
	if said.settings.InheritMode, err = inheritMode(a.SettingOverwrites.Value.ExecutionMode, a.SettingOverwrites.Value.AgentPool); err != nil {
		return said, err
	}
	said.settings.AutoApplyRunTrigger, said.settings.QueueAllRuns, said.settings.AssessmentsEnabled = a.AutoApplyRunTrigger.Pointer(), a.QueueAllRuns.Pointer(), a.AssessmentsEnabled.Pointer()
	said.settings.AutoDestroyAt, said.settings.NoAutoDestroy = a.AutoDestroyAt.Pointer(), a.AutoDestroyAt.Null
	said.settings.FileTriggersEnabled, said.settings.TriggerPrefixes, said.settings.TriggerPatterns = a.FileTriggersEnabled.Pointer(), listOrEmpty(a.TriggerPrefixes), listOrEmpty(a.TriggerPatterns)
	said.settings.SourceName, said.settings.SourceURL = textOrEmpty(a.SourceName), textOrEmpty(a.SourceURL)
	said.settings.RunnerSelector = listOrEmpty(a.RunnerSelector)
	text, err := in.related("project", "projects")
	if err != nil {
		return said, err
	}
	if text != "" {
		project, err := ids.Parse[ids.Project](text)
		if err != nil {
			return said, err
		}
		said.settings.Project = &project
	}
	tags, _, err := relatedMany[tagAttributes](in, "tags", "tags")
	if err != nil {
		return said, err
	}
	if said.tags, err = tagRefs(tags); err != nil {
		return said, err
	}
	bindings, given, err := relatedMany[bindingAttributes](in, "tag-bindings", "tag-bindings")
	if given {
		wanted := bindingsOf(bindings)
		said.bindings = &wanted
	}
	return said, err
}

// executionMode is the mode a request says in one of two ways, or nil.
func executionMode(a workspaceAttributes) *workspaces.ExecutionMode {
	mode := workspaces.ExecutionMode(a.ExecutionMode.Value)
	switch {
	case a.ExecutionMode.Set():
	case !a.Operations.Set():
		return nil
	case a.Operations.Value:
		mode = workspaces.Remote
	default:
		mode = workspaces.Local
	}
	return &mode
}

// agentPool reads the pool a request names; null is none.
func agentPool(said Opt[string]) (*ids.RunnerGroup, error) {
	if !said.Set() || said.Value == "" {
		return (*ids.RunnerGroup)(textOrEmpty(said)), nil
	}
	pool, err := ids.Parse[ids.RunnerGroup](said.Value)
	if err != nil {
		return nil, accounts.NoSuchPool()
	}
	return &pool, nil
}

// listOrEmpty takes null for a list as the wish to clear it.
func listOrEmpty(o Opt[[]string]) *[]string {
	if !o.Present {
		return nil
	}
	list := append([]string{}, o.Value...)
	return &list
}

// textOrEmpty takes null for a text as the wish to clear it.
func textOrEmpty(o Opt[string]) *string {
	if o.Null {
		return new(string)
	}
	return o.Pointer()
}

func (s *server) createWorkspace(r *request) (answer, error) {
	said, err := readWorkspaceInput(r)
	if err != nil {
		return answer{}, err
	}
	wanted := workspaces.NewWorkspace{Settings: said.settings, Tags: said.tags}
	if said.name != nil {
		wanted.Name = *said.name
	}
	if said.bindings != nil {
		wanted.Bindings = *said.bindings
	}
	w, err := s.Workspaces.Create(r.ctx, r.actor, r.vars["organization"], wanted)
	if err != nil {
		return answer{}, err
	}
	return created(s.newWorkspaceView(r.actor, w)), nil
}

func (s *server) updateWorkspace(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	return s.changeWorkspace(r, workspace)
}

func (s *server) updateWorkspaceByName(r *request) (answer, error) {
	w, err := s.namedWorkspace(r)
	if err != nil {
		return answer{}, err
	}
	return s.changeWorkspace(r, w.ID)
}

func (s *server) changeWorkspace(r *request, workspace ids.Workspace) (answer, error) {
	said, err := readWorkspaceInput(r)
	if err != nil {
		return answer{}, err
	}
	w, err := s.Workspaces.Update(r.ctx, r.actor, workspace, workspaces.Changes{Name: said.name, Settings: said.settings, Bindings: said.bindings})
	return s.workspaceAnswer(r, w, err)
}
