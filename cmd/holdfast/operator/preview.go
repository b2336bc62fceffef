package operator

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/cmd/holdfast/terminal"
)

// preview is what a refresh-only plan of the held workspace found.
type preview struct {
	RunID      string `json:"run-id"`
	Status     string `json:"status"`
	HasDrift   *bool  `json:"has-drift"`
	LogTail    string `json:"log-tail"`
	FinishedAt string `json:"finished-at"`
}

func (p preview) describe() string {
	switch {
	case p.FinishedAt == "":
		return fmt.Sprintf("being looked for by %s", terminal.Line(p.RunID))
	case p.HasDrift == nil:
		return fmt.Sprintf("unknown: %s is %s", terminal.Line(p.RunID), terminal.Line(p.Status))
	case *p.HasDrift:
		return fmt.Sprintf("found by %s: the real infrastructure is not as the current state says", terminal.Line(p.RunID))
	}
	return fmt.Sprintf("none found by %s", terminal.Line(p.RunID))
}

// previewInterval is between two looks at a preview that is at work.
const previewInterval = time.Second

type previewCmd struct{ runArgument }

// Run starts a preview, waits for its end and shows what tofu printed.
func (c previewCmd) Run(ctx context.Context, all *Commands) error {
	t, err := all.tool()
	if err != nil {
		return err
	}
	err = t.steppingUp(ctx, func() error {
		var started struct{}
		_, err := t.one(ctx, http.MethodPost, "runs/"+c.ID+"/actions/recovery-preview", struct{}{}, &started)
		return err
	})
	if err != nil {
		return err
	}
	for {
		e, err := t.evidence(ctx, c.ID)
		switch {
		case err != nil:
			return err
		case e.Preview == nil:
			return fmt.Errorf("recovery_not_prepared: the recovery of %s was given up meanwhile", e.run)
		case e.Preview.FinishedAt != "" && t.json:
			return terminal.WriteJSON(t.out, e.raw)
		case e.Preview.FinishedAt != "":
			_, _ = fmt.Fprint(t.out, terminal.Block(e.Preview.LogTail, "log           | "))
			t.printf("drift         %s", e.Preview.describe())
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(previewInterval):
		}
	}
}
