package main

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/cmd/holdfast/operator"
	"github.com/holdfast-run/holdfast/cmd/holdfast/terminal"
	"github.com/holdfast-run/holdfast/config"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/migrations"
	"github.com/holdfast-run/holdfast/recovery"
	"github.com/holdfast-run/holdfast/state"
)

// adminCmd works on the server's host, with the server's environment; recover speaks to the
// API from anywhere.
type adminCmd struct {
	Recover    operator.Commands `cmd:"" help:"Recover interrupted applies, over the API. The one command for the ordinary failure: recover RUN --apply."`
	BreakGlass breakGlassCmd     `cmd:"" name:"break-glass" help:"On the server's host, when the API cannot help: free a workspace that a run left held, as its state is, without any proof. Without --apply it only shows what is known."`
	Users      adminUsersCmd     `cmd:"" help:"Keep users, on the server's host."`
	Migrate    migrateCmd        `cmd:"" help:"Bring the database's schema up to date, on the server's host."`
	TOTP       totpCmd           `cmd:"" name:"totp" help:"Print the code that a second factor shows now. Its secret is in a file."`
}

type migrateCmd struct{ databaseFlag }

// Run applies the migrations.
func (c migrateCmd) Run(ctx context.Context) error { return migrations.Up(ctx, c.DatabaseURL) }

type breakGlassCmd struct {
	ID     string `arg:"" name:"run" help:"The run that holds the workspace, such as run-…"`
	Reason string `required:"" help:"Why the current state can be trusted. It is kept in the audit log."`
	Apply  bool   `help:"Do it. Without this nothing is changed."`
}

// Run rehearses, and with --apply releases the workspace.
func (c breakGlassCmd) Run(ctx context.Context) error {
	id, err := ids.Parse[ids.Run](c.ID)
	if err != nil {
		return err
	}
	cfg, err := config.LoadStorage()
	if err != nil {
		return err
	}
	s, err := open(ctx, cfg, config.DefaultLimits())
	if err != nil {
		return err
	}
	defer s.db.Close()
	if !c.Apply {
		report, err := s.recovery.Inspect(ctx, id)
		if err != nil {
			return err
		}
		show(report, "would")
		fmt.Println("\nNothing was changed. Compare the current state with the real infrastructure (tofu plan -refresh-only shows the difference")
		fmt.Println("once the workspace is free), then repeat the command with --apply.")
		return nil
	}
	report, err := s.recovery.Release(ctx, authz.System(), id, c.Reason)
	if err != nil {
		return err
	}
	show(report, "did")
	fmt.Println("\nThe workspace is free. The run stays in history as needs_recovery; nothing was applied again. Start a new plan.")
	return nil
}

// show prints a report.
func show(r recovery.Report, verb string) {
	fmt.Printf("run          %s, %s (%s)\n", r.Run, r.Status, terminal.Line(r.Reason))
	if r.Message != "" {
		fmt.Printf("because      %s\n", terminal.Line(r.Message))
	}
	fmt.Printf("workspace    %s, held since %s under epoch %d\n", r.Workspace, r.HeldSince.UTC().Format("2006-01-02 15:04:05 UTC"), r.Epoch)
	fmt.Printf("state before %s\nstate now    %s\n", describe(r.Before), describe(r.Now))
	fmt.Printf("published    %d state versions by this run; %d uploads unfinished\n", r.Publication, r.OpenUploads)
	fmt.Printf("%-12s keep the current state, end every authority of the run, advance the epoch to %d, release the workspace\n", verb, r.Epoch+1)
}

func describe(v *state.Version) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprintf("%s, serial %d, lineage %q, %d resource blocks, sha256 %s", v.ID, v.Serial, v.Lineage, len(v.Resources), v.SHA256)
}
