package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/go-tfe"
)

// between is the pause between two looks at something that is waited for.
const between = time.Second

// wish is what the command line asks for.
type wish struct {
	organization, project, workspace string
	folder                           string // of the configuration
	greeting                         string // the value of its variable
	limit                            time.Duration
}

func main() {
	var w wish
	flag.StringVar(&w.organization, "organization", "demo", "name of an organization that exists")
	flag.StringVar(&w.project, "project", "examples", "name of the project; it is made if it is missing")
	flag.StringVar(&w.workspace, "workspace", "go-tfe", "name of the workspace; it is made if it is missing")
	flag.StringVar(&w.folder, "configuration", "examples/go-tfe/configuration", "folder of the configuration")
	flag.StringVar(&w.greeting, "greeting", "Hello from go-tfe", "value of the configuration's variable greeting")
	flag.DurationVar(&w.limit, "limit", 10*time.Minute, "how long everything may take")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	if err := w.fulfil(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "go-tfe:", err)
		os.Exit(1) // the deferred calls only free what ends with the process
	}
}

// fulfil does everything and prints the outputs as JSON.
func (w wish) fulfil(ctx context.Context, out io.Writer) error {
	client, err := tfe.NewClient(tfe.DefaultConfig()) // TFE_ADDRESS and TFE_TOKEN
	if err != nil {
		return err
	}
	workspace, err := w.prepare(ctx, client)
	if err != nil {
		return err
	}
	configuration, err := w.upload(ctx, client, workspace)
	if err != nil {
		return err
	}
	run, err := client.Runs.Create(ctx, tfe.RunCreateOptions{
		Workspace: workspace, ConfigurationVersion: configuration, Message: tfe.String("Started by examples/go-tfe"),
		Variables: []*tfe.RunVariable{{Key: "greeting", Value: fmt.Sprintf("%q", w.greeting)}}, // the value is an expression
	})
	if err != nil {
		return fmt.Errorf("start a run: %w", err)
	}
	if err := finish(ctx, client, run.ID); err != nil {
		return err
	}
	return printOutputs(ctx, client, workspace.ID, out)
}

// prepare gives the workspace, in its project. What is there is left as it is.
func (w wish) prepare(ctx context.Context, client *tfe.Client) (*tfe.Workspace, error) {
	workspace, err := client.Workspaces.Read(ctx, w.organization, w.workspace)
	if err == nil || !errors.Is(err, tfe.ErrResourceNotFound) {
		return workspace, err
	}
	project, err := w.inProject(ctx, client)
	if err != nil {
		return nil, err
	}
	say("workspace %s is made in project %s", w.workspace, project.Name)
	return client.Workspaces.Create(ctx, w.organization, tfe.WorkspaceCreateOptions{Name: tfe.String(w.workspace), Project: project})
}

func (w wish) inProject(ctx context.Context, client *tfe.Client) (*tfe.Project, error) {
	found, err := client.Projects.List(ctx, w.organization, &tfe.ProjectListOptions{Name: w.project})
	if err != nil {
		return nil, err
	}
	if len(found.Items) > 0 {
		return found.Items[0], nil
	}
	return client.Projects.Create(ctx, w.organization, tfe.ProjectCreateOptions{Name: w.project})
}

// upload packs and sends the folder, and waits until the server has looked at it.
func (w wish) upload(ctx context.Context, client *tfe.Client, workspace *tfe.Workspace) (*tfe.ConfigurationVersion, error) {
	c, err := client.ConfigurationVersions.Create(ctx, workspace.ID, tfe.ConfigurationVersionCreateOptions{AutoQueueRuns: tfe.Bool(false)})
	if err != nil {
		return nil, err
	}
	if err := client.ConfigurationVersions.Upload(ctx, c.UploadURL, w.folder); err != nil {
		return nil, fmt.Errorf("upload %s: %w", w.folder, err)
	}
	for {
		if c, err = client.ConfigurationVersions.Read(ctx, c.ID); err != nil {
			return nil, err
		}
		switch c.Status {
		case tfe.ConfigurationUploaded:
			return c, nil
		case tfe.ConfigurationErrored:
			return nil, fmt.Errorf("the configuration was refused: %s", c.ErrorMessage)
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// finish follows a run to its end and applies it when it waits for that. A run that is left
// behind because the time is over, or because somebody interrupts, is canceled.
func finish(ctx context.Context, client *tfe.Client, id string) (err error) {
	defer func() {
		if ctx.Err() != nil {
			cancel := context.WithoutCancel(ctx)
			err = errors.Join(err, client.Runs.Cancel(cancel, id, tfe.RunCancelOptions{Comment: tfe.String("examples/go-tfe was interrupted")}))
		}
	}()
	for told := tfe.RunStatus(""); ; {
		run, err := client.Runs.ReadWithOptions(ctx, id, &tfe.RunReadOptions{Include: []tfe.RunIncludeOpt{tfe.RunPlan}})
		if err != nil {
			return err
		}
		if run.Status != told {
			told = run.Status
			say("run %s: %s", id, told)
		}
		switch {
		case run.Actions.IsConfirmable:
			say("the plan adds %d, changes %d and destroys %d; it is applied", run.Plan.ResourceAdditions, run.Plan.ResourceChanges, run.Plan.ResourceDestructions)
			if err := client.Runs.Apply(ctx, id, tfe.RunApplyOptions{Comment: tfe.String("Applied by examples/go-tfe")}); err != nil {
				return fmt.Errorf("apply run %s: %w", id, err)
			}
		case run.Status == tfe.RunApplied, run.Status == tfe.RunPlannedAndFinished:
			return nil
		case slices.Contains([]tfe.RunStatus{tfe.RunErrored, tfe.RunCanceled, tfe.RunDiscarded, tfe.RunPolicySoftFailed}, run.Status):
			return fmt.Errorf("run %s ended as %s", id, run.Status)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// printOutputs prints the outputs of the current state by name. Sensitive ones have no value.
func printOutputs(ctx context.Context, client *tfe.Client, workspace string, out io.Writer) error {
	current, err := client.StateVersionOutputs.ReadCurrent(ctx, workspace)
	if err != nil {
		return fmt.Errorf("read the outputs: %w", err)
	}
	values := map[string]any{}
	for _, o := range current.Items {
		values[o.Name] = o.Value
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(values)
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(between):
		return nil
	}
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
