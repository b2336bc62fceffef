package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	planCommand  = "tofu plan"
	applyCommand = "tofu apply -auto-approve -var v=N"
	near         = 150 * time.Millisecond // what a remote run of next to nothing may cost over the floor
)

const trivialConfiguration = `
variable "v" { default = "" }
resource "terraform_data" "a" { input = var.v }
output "v" { value = terraform_data.a.output }
`

// apply applies a value that the folder has not seen before.
func (f *folder) apply(ctx context.Context, value int) (time.Duration, string, error) {
	return f.tofu(ctx, "apply", "-auto-approve", fmt.Sprintf("-var=v=%d", value))
}

// planAndApply measures both commands in turns at these places.
func (b *bench) planAndApply(ctx context.Context, rounds int, places []string) (plans, applies map[string]sample, err error) {
	folders := map[string]*folder{}
	for _, place := range places {
		if folders[place], err = b.folder(ctx, place, trivialConfiguration); err != nil {
			return nil, nil, err
		}
		if _, _, err = folders[place].apply(ctx, -1); err != nil { // what is made once shall not be measured
			return nil, nil, err
		}
	}
	plans, applies = map[string]sample{}, map[string]sample{}
	err = inTurns(rounds, places, func(round int, place string) error {
		took, _, err := folders[place].tofu(ctx, "plan")
		plans[place] = append(plans[place], took)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	err = inTurns(rounds, places, func(round int, place string) error {
		took, _, err := folders[place].apply(ctx, round)
		applies[place] = append(applies[place], took)
		return err
	})
	return plans, applies, err
}

// trivial measures what a remote run costs when there is nothing to do.
func trivial(ctx context.Context, b *bench) error {
	const rounds = 5
	plans, applies, err := b.planAndApply(ctx, rounds, []string{onFloor, onServer, onMachine})
	if err != nil {
		return err
	}
	b.floorPlan, b.floorApply = plans[onFloor], applies[onFloor]
	for _, command := range []struct {
		name, text string
		times      map[string]sample
	}{{"plan", planCommand, plans}, {"apply", applyCommand, applies}} {
		floor, remote := command.times[onFloor].median(), command.times[onServer].median()
		b.table.time("trivial "+command.name+", floor", command.text, command.times[onFloor], "", "")
		b.table.time("trivial "+command.name+", remote", command.text, command.times[onServer], over(remote, floor, "the floor"),
			b.table.judge(command.name+" ≤ floor + 0.15 s", remote <= floor+near))
		b.table.time("trivial "+command.name+", local backend", command.text, command.times[onMachine], "", "")
	}
	return nil
}

// floorOfApply is the client's own time for an apply.
func (b *bench) floorOfApply(ctx context.Context) (time.Duration, error) {
	if b.floorApply == nil {
		plans, applies, err := b.planAndApply(ctx, 3, []string{onFloor})
		if err != nil {
			return 0, err
		}
		b.floorPlan, b.floorApply = plans[onFloor], applies[onFloor]
		b.table.time("trivial apply, floor", applyCommand, b.floorApply, "", "")
	}
	return b.floorApply.median(), nil
}

// ofFault is the beginning of a configuration that uses the provider of tests/provider.
const ofFault = `
variable "v" { default = "" }
terraform {
  required_providers {
    fault = { source = "holdfast-run/fault" }
  }
}
`

// sleep measures an apply that mostly waits for what it makes.
func sleep(ctx context.Context, b *bench) error {
	seconds, rounds := 10, 3
	if b.long {
		seconds = 60
	}
	configuration := ofFault + fmt.Sprintf("resource \"fault_slow\" \"a\" {\n  name = \"a\"\n  value = var.v\n  create_delay = \"%[1]ds\"\n  update_delay = \"%[1]ds\"\n}\n", seconds)
	folders, times := map[string]*folder{}, map[string]sample{}
	places := []string{onServer, onMachine}
	for _, place := range places {
		f, err := b.folder(ctx, place, configuration)
		if err != nil {
			return err
		}
		folders[place] = f
	}
	err := inTurns(rounds, places, func(round int, place string) error {
		took, _, err := folders[place].apply(ctx, round)
		times[place] = append(times[place], took)
		return err
	})
	if err != nil {
		return err
	}
	remote, local := times[onServer].median(), times[onMachine].median()
	what := fmt.Sprintf("apply of %d seconds", seconds)
	if !b.long {
		what += " (60 with BENCH_LONG=1)"
	}
	b.table.time(what+", local backend", applyCommand, times[onMachine], "", "")
	b.table.time(what+", remote", applyCommand, times[onServer], over(remote, local, "local"),
		b.table.judge("apply ≤ local + 3.2 s", remote <= local+3200*time.Millisecond))
	return nil
}

// resources measures an apply that makes much.
func resources(ctx context.Context, b *bench) error {
	const count, rounds = 5000, 2
	configuration := ofFault + fmt.Sprintf("resource \"fault_plain\" \"a\" {\n  count = %d\n  name  = \"a${count.index}\"\n  value = var.v\n}\n", count)
	floor, err := b.floorOfApply(ctx)
	if err != nil {
		return err
	}
	times := map[string]sample{}
	err = inTurns(rounds, []string{onServer, onMachine}, func(round int, place string) error {
		f, err := b.folder(ctx, place, configuration) // a new one each time: creating is not updating
		if err != nil {
			return err
		}
		took, said, err := f.apply(ctx, round)
		times[place] = append(times[place], took)
		if err == nil && !strings.Contains(said, fmt.Sprintf("%d added", count)) {
			err = errors.New("tofu does not say that it added them:\n" + end(said))
		}
		return err
	})
	if err != nil {
		return err
	}
	remote, local := times[onServer].median(), times[onMachine].median()
	b.table.time("apply of 5,000 resources, local backend", applyCommand, times[onMachine], "", "")
	b.table.time("apply of 5,000 resources, remote", applyCommand, times[onServer],
		fmt.Sprintf("%.2f × local, %s", ratio(remote, local), over(remote, local, "local")),
		b.table.judge("≤ 1.10 × local + floor", remote <= local*11/10+floor))
	return nil
}

// longLog measures an apply that says much, and whether all of it arrives.
func longLog(ctx context.Context, b *bench) error {
	const lines, rounds = 40000, 2
	configuration := fmt.Sprintf(`
variable "v" { default = "" }
resource "terraform_data" "a" {
  triggers_replace = var.v
  provisioner "local-exec" {
    command = "seq -f 'line %%.0f of the %d lines of this log' 1 %d"
  }
}
`, lines, lines)
	folders, times, said := map[string]*folder{}, map[string]sample{}, map[string]string{}
	places := []string{onServer, onMachine}
	for _, place := range places {
		f, err := b.folder(ctx, place, configuration)
		if err != nil {
			return err
		}
		folders[place] = f
	}
	err := inTurns(rounds, places, func(round int, place string) error {
		took, text, err := folders[place].apply(ctx, round)
		times[place], said[place] = append(times[place], took), text
		return err
	})
	if err != nil {
		return err
	}
	workspace := folders[onServer].workspace
	plain, err := b.lastApplyLog(ctx, workspace, "")
	if err != nil {
		return err
	}
	events, err := b.lastApplyLog(ctx, workspace, "cloud")
	if err != nil {
		return err
	}
	shown := strings.Count(said[onServer], " lines of this log\n")
	b.table.time("apply with a log of 40,000 lines, local backend", applyCommand, times[onMachine], "", "")
	b.table.time("apply with a log of 40,000 lines, remote", applyCommand, times[onServer], over(times[onServer].median(), times[onMachine].median(), "local"), "")
	b.table.add(row{what: "  its log as text", n: 1, value: megabytes(plain), command: "GET log-read-url"})
	b.table.add(row{
		what: "  its log as the events that tofu reads", n: 1, value: megabytes(events),
		beside: fmt.Sprintf("%d of %d lines shown", shown, lines),
		goal:   b.table.judge("all lines are shown", shown == lines), command: "GET log-read-url, as cloud integration",
	})
	return nil
}

// lastApplyLog is the size of the apply log of a workspace's last run, as that integration gets it.
func (b *bench) lastApplyLog(ctx context.Context, workspace, integration string) (int64, error) {
	reader := *b.api
	reader.integration = integration
	w, err := reader.read(ctx, http.MethodGet, "/api/v2/organizations/"+organization+"/workspaces/"+workspace, nil)
	if err != nil {
		return 0, err
	}
	run, err := w.related("current-run")
	if err != nil {
		return 0, err
	}
	r, err := reader.read(ctx, http.MethodGet, "/api/v2/runs/"+run, nil)
	if err != nil {
		return 0, err
	}
	id, err := r.related("apply")
	if err != nil {
		return 0, err
	}
	apply, err := reader.read(ctx, http.MethodGet, "/api/v2/applies/"+id, nil)
	if err != nil {
		return 0, err
	}
	for size := int64(0); ; {
		n, err := reader.do(ctx, http.MethodGet, fmt.Sprintf("%s?limit=65536&offset=%d", apply.Data.Attributes.LogURL, size), nil, io.Discard)
		if err != nil || n == 0 {
			return size, err
		}
		size += n
	}
}
