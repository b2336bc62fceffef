package tfeapi

import (
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

// configurationView is a configuration version on the wire. Only the answer to
// create has the upload address.
type configurationView struct {
	ID               string                  `jsonapi:"primary,configuration-versions"`
	Status           string                  `jsonapi:"attr,status"`
	Error            *string                 `jsonapi:"attr,error"`
	ErrorMessage     *string                 `jsonapi:"attr,error-message"`
	Source           string                  `jsonapi:"attr,source"`
	AutoQueueRuns    bool                    `jsonapi:"attr,auto-queue-runs"`
	Speculative      bool                    `jsonapi:"attr,speculative"`
	Provisional      bool                    `jsonapi:"attr,provisional"`
	StatusTimestamps configurationTimestamps `jsonapi:"attr,status-timestamps"`
	UploadURL        string                  `jsonapi:"attr,upload-url,omitempty"`
	workspace        string
}

type configurationTimestamps struct {
	UploadedAt *time.Time `json:"uploaded-at,omitempty"`
	QueuedAt   time.Time  `json:"queued-at"`
	FinishedAt *time.Time `json:"finished-at,omitempty"`
}

func (v *configurationView) relations() relations {
	return relations{"workspace": ref{"workspaces", v.workspace}, "ingress-attributes": nil}
}

func newConfigurationView(c runs.Configuration) *configurationView {
	view := &configurationView{
		ID: string(c.ID), Status: c.Shown(), Source: "tfe-api", AutoQueueRuns: c.AutoQueueRuns, Speculative: c.Speculative, Provisional: c.Provisional,
		StatusTimestamps: configurationTimestamps{QueuedAt: seconds(c.CreatedAt), UploadedAt: secondsOf(c.UploadedAt), FinishedAt: secondsOf(c.UploadedAt)},
		workspace:        string(c.WorkspaceID),
	}
	if c.Error != "" {
		code := "configuration_invalid"
		view.Error, view.ErrorMessage = &code, &c.Error
	}
	return view
}

// seconds drops what is finer, so that a time reads the same in every attribute.
func seconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

func secondsOf(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	short := seconds(*t)
	return &short
}

func (s *server) createConfigurationVersion(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct {
		AutoQueueRuns Opt[bool] `json:"auto-queue-runs"`
		Speculative   Opt[bool] `json:"speculative"`
		Provisional   Opt[bool] `json:"provisional"`
	}](body, "configuration-versions")
	if err != nil {
		return answer{}, err
	}
	a := in.Attributes
	c, err := s.Runs.CreateConfiguration(r.ctx, r.actor, workspace, runs.NewConfiguration{
		AutoQueueRuns: a.AutoQueueRuns.Or(true), Speculative: a.Speculative.Or(false), Provisional: a.Provisional.Or(false),
	})
	if err != nil {
		return answer{}, err
	}
	view := newConfigurationView(c)
	view.UploadURL = s.link(uploadConfigurationLink, view.ID, c.CreatedAt.Add(uploadLinkLifetime))
	return created(view), nil
}

func (s *server) readConfigurationVersion(r *request) (answer, error) {
	configuration, err := id[ids.ConfigurationVersion](r)
	if err != nil {
		return answer{}, err
	}
	c, err := s.Runs.Configuration(r.ctx, r.actor, configuration)
	if err != nil {
		return answer{}, err
	}
	return ok(newConfigurationView(c)), nil
}

func (s *server) listConfigurationVersions(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Runs.Configurations(r.ctx, r.actor, workspace, p.limit(), p.offset())
	if err != nil {
		return answer{}, err
	}
	items := make([]*configurationView, 0, len(list))
	for _, c := range list {
		items = append(items, newConfigurationView(c))
	}
	return page(items, p, total), nil
}

func (s *server) uploadConfiguration(r *request) (answer, error) {
	if err := s.checkLink(uploadConfigurationLink, r); err != nil {
		return answer{}, err
	}
	configuration, err := id[ids.ConfigurationVersion](r)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK}, s.Runs.UploadConfiguration(r.ctx, configuration, r.upload())
}

func (s *server) downloadConfigurationVersion(r *request) (answer, error) {
	configuration, err := id[ids.ConfigurationVersion](r)
	if err != nil {
		return answer{}, err
	}
	body, err := s.Runs.DownloadConfiguration(r.ctx, r.actor, configuration)
	if err != nil {
		return answer{}, err
	}
	return download(body, unknownSize), nil
}
