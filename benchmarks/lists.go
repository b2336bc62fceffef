package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	random "math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-run/holdfast/clock"
)

const (
	listWrites = 50 // a second, meanwhile
	listLength = 60 * time.Second
	listWarmUp = 20 * time.Second // connections are new then, have planned nothing and seen little of the data
	listGoal   = 50 * time.Millisecond
)

// list is one that is asked for, each time with other parameters.
type list struct {
	what, command string
	rows          int // on a page at least, or something is wrong with what is measured
	path          func() string
}

// lists measures random pages and searches of an organization with very many workspaces and
// runs, as its owner and as somebody who sees few of them, while others write.
func lists(ctx context.Context, b *bench) error {
	began := clock.Now()
	c, err := b.crowd(ctx)
	if c != nil && c.db != nil {
		defer c.db.Close(context.WithoutCancel(ctx))
	}
	if err != nil {
		return err
	}
	if err := b.waiting(ctx, c); err != nil {
		return err
	}
	b.table.add(row{what: fmt.Sprintf("%d workspaces and %d runs made", listWorkspaces, listRuns), n: 1, value: seconds(clock.Since(began)), command: "INSERT"})
	return b.measureLists(ctx, c)
}

// waiting makes the workspace of new runs: nobody executes them.
func (b *bench) waiting(ctx context.Context, c *crowd) error {
	name := "lists-" + strings.ToLower(rand.Text()[:8])
	p, err := b.pool(ctx, name)
	if err != nil {
		return err
	}
	players, err := b.players(ctx, p, 1) // a run needs somebody who has its version of OpenTofu
	if err != nil {
		return err
	}
	if c.waiting, err = b.subject(ctx, p, name, trivialConfiguration); err != nil {
		return err
	}
	return dismiss(ctx, players)
}

// measureLists asks for each list in turn, as each reader, while others write.
func (b *bench) measureLists(ctx context.Context, c *crowd) error {
	readers := []struct {
		name  string
		as    *api
		share int // of the organization's workspaces that it sees: one in so many
	}{{"owner", b.api, 1}, {"member", c.member, 100}}
	times := map[string]sample{}
	var written writing
	stop := make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return written.write(ctx, b.api, c, stop) })
	group.Go(func() error {
		defer close(stop)
		for began := clock.Now(); clock.Since(began) < listWarmUp+listLength*time.Duration(len(readers)); {
			warm := clock.Since(began) > listWarmUp
			for _, reader := range readers {
				for _, l := range c.lists(reader.share, c.seen) {
					key := reader.name + ": " + l.what
					took, err := l.ask(ctx, reader.as)
					if err != nil {
						return fmt.Errorf("%s: %w", key, err)
					}
					if warm {
						times[key] = append(times[key], took)
					}
				}
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	for _, reader := range readers {
		for _, l := range c.lists(reader.share, c.seen) {
			key := reader.name + ": " + l.what
			s := times[key]
			b.table.time(key, l.command, s, fmt.Sprintf("p99 %s", seconds(s.percentile(99))), b.table.judge(key+", p99 < 50 ms", s.percentile(99) < listGoal))
		}
	}
	b.table.add(row{what: "writes meanwhile", n: len(written.times), value: seconds(written.times.median()), spread: spread(written.times),
		beside: load(), goal: b.table.judge(fmt.Sprintf("%d writes/s", listWrites), written.perSecond() > listWrites*0.95), command: "PATCH workspace, POST lock and unlock, POST vars"})
	return nil
}

// ask gives how long an answer took, which has the rows that it must have.
func (l list) ask(ctx context.Context, as *api) (time.Duration, error) {
	var answer bytes.Buffer
	path := l.path()
	took, err := timed(func() error { _, err := as.do(ctx, http.MethodGet, path, nil, &answer); return err })
	if err != nil {
		return 0, err
	}
	var document struct{ Data []json.RawMessage }
	if err := json.Unmarshal(answer.Bytes(), &document); err != nil {
		return 0, err
	}
	if len(document.Data) < l.rows {
		return 0, fmt.Errorf("%s: %d rows where there must be %d", path, len(document.Data), l.rows)
	}
	return took, nil
}

// lists are the lists of one who sees one workspace in share, among them those of seen.
func (c *crowd) lists(share int, seen []string) []list {
	workspaces := "/api/v2/organizations/" + organization + "/workspaces?page%5Bsize%5D=20&"
	ofOrganization := "/api/v2/organizations/" + organization + "/runs?page%5Bsize%5D=20&"
	page := func(rows int) string { return fmt.Sprintf("page%%5Bnumber%%5D=%d", 1+random.IntN(max(rows/20, 1))) }
	ofProject := func() string { return c.projects[random.IntN(len(c.projects))] }
	words := []string{"payments", "checkout", "network", "prod-eu", "ledger-", "sandbox-ap", "identity-db", "0042", "-1234", "gateway-queue-stage", "nothing-like-it"}
	search := func() string {
		if random.IntN(2) == 0 {
			return fmt.Sprintf("%05d", random.IntN(listWorkspaces))
		}
		return words[random.IntN(len(words))]
	}
	return []list{
		{"first page of workspaces", "GET workspaces", 20, func() string { return workspaces }},
		{"random page of workspaces", "GET workspaces?page[number]=N", 20, func() string { return workspaces + page(listWorkspaces/share) }},
		{"random page of workspaces by name", "GET workspaces?sort=name&page[number]=N", 20, func() string { return workspaces + "sort=name&" + page(listWorkspaces/share) }},
		{"search by name", "GET workspaces?search[name]=TEXT", 0, func() string { return workspaces + "search%5Bname%5D=" + url.QueryEscape(search()) }},
		{"search by one letter", "GET workspaces?search[name]=x", 0, func() string { return workspaces + "search%5Bname%5D=" + string(rune('a'+random.IntN(26))) }},
		{"search by tags", "GET workspaces?search[tags]=A,B", 20 / share, func() string {
			return workspaces + fmt.Sprintf("search%%5Btags%%5D=tag-%d&", random.IntN(listTags)) + page(listWorkspaces*9/5/listTags/share)
		}},
		{"search by pairs", "GET workspaces?filter[tagged][0][key]=env", 20 / share, func() string {
			return workspaces + "filter%5Btagged%5D%5B0%5D%5Bkey%5D=env&filter%5Btagged%5D%5B0%5D%5Bvalue%5D=prod&" + page(listWorkspaces/5/share)
		}},
		{"workspaces of a project", "GET workspaces?filter[project][id]=ID", 20 / share, func() string {
			return workspaces + "filter%5Bproject%5D%5Bid%5D=" + ofProject() + "&" + page(listWorkspaces/listProjects)
		}},
		{"workspaces by status of the current run", "GET workspaces?filter[current-run][status]=errored", 20 / share, func() string {
			return workspaces + "filter%5Bcurrent-run%5D%5Bstatus%5D=errored&" + page(listWorkspaces/6/share)
		}},
		{"workspaces with all that can be included", "GET workspaces?include=…", 20, func() string {
			return workspaces + "include=organization,project,current_run,current_run.plan,current_state_version,outputs,effective_tag_bindings&" + page(listWorkspaces/share)
		}},
		{"runs of a workspace, random page", "GET workspaces/:id/runs?page[number]=N", 1, func() string {
			id, rows := seen[random.IntN(len(seen))], 9*3/4
			if share == 1 {
				id, rows = c.busy[random.IntN(len(c.busy))], listRuns/10/listBusy*7/10
			}
			return "/api/v2/workspaces/" + id + "/runs?page%5Bsize%5D=20&" + page(rows)
		}},
		{"runs of the organization, one of 1,000 pages", "GET organizations/:name/runs?page[number]=N", 20, func() string { return ofOrganization + page(min(20_000, listRuns*3/4/share)) }},
		{"runs of the organization by status", "GET organizations/:name/runs?filter[status]=errored", 20, func() string {
			return ofOrganization + "filter%5Bstatus%5D=errored&" + fmt.Sprintf("page%%5Bnumber%%5D=%d", 1+random.IntN(20))
		}},
		{"search in runs of the organization", "GET organizations/:name/runs?search[basic]=TEXT", 0, func() string {
			return ofOrganization + fmt.Sprintf("search%%5Bbasic%%5D=change+%d", 1+random.IntN(listRuns))
		}},
		{"projects", "GET organizations/:name/projects", 1, func() string {
			return "/api/v2/organizations/" + organization + "/projects?" + page(listProjects/share)
		}},
	}
}

// writing is what others write meanwhile.
type writing struct {
	times sample
	took  time.Duration
}

func (w *writing) perSecond() float64 { return float64(len(w.times)) / w.took.Seconds() }

// write writes so many times a second, in two lanes so that one slow answer delays little.
func (w *writing) write(ctx context.Context, a *api, c *crowd, stop <-chan struct{}) error {
	began := clock.Now()
	defer func() { w.took = clock.Since(began) }()
	turns, results := make(chan int, 4*listWrites), make(chan time.Duration, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(turns)
		tick := time.NewTicker(time.Second / listWrites)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
				select {
				case turns <- n:
				default: // a server this slow misses the goal anyway
				}
			}
		}
	})
	lanes, laneCtx := errgroup.WithContext(ctx)
	for range 4 {
		lanes.Go(func() error {
			for n := range turns {
				took, err := timed(func() error { return c.change(laneCtx, a, n) })
				if err != nil {
					return err
				}
				select {
				case results <- took:
				case <-laneCtx.Done():
					return laneCtx.Err()
				}
			}
			return nil
		})
	}
	group.Go(func() error { defer close(results); return lanes.Wait() })
	for took := range results {
		w.times = append(w.times, took)
	}
	return group.Wait()
}

// change writes one thing. Number n decides what and where, so that no two are in each other's way.
func (c *crowd) change(ctx context.Context, a *api, n int) error {
	workspace := c.some[n%len(c.some)]
	post := func(path, body string) error {
		_, err := a.do(ctx, http.MethodPost, path, []byte(body), io.Discard)
		return err
	}
	switch n % 4 {
	case 0:
		return errors.Join(post("/api/v2/workspaces/"+workspace+"/actions/lock", `{}`), post("/api/v2/workspaces/"+workspace+"/actions/unlock", `{}`))
	case 1:
		return post("/api/v2/workspaces/"+workspace+"/vars", fmt.Sprintf(`{"data":{"type":"vars","attributes":{"key":"n%d_%s","value":"x","category":"env"}}}`, n, rand.Text()))
	case 2:
		_, err := c.waiting.run(ctx, fmt.Sprint("while others read ", n), false)
		return err
	default:
		_, err := a.do(ctx, http.MethodPatch, "/api/v2/workspaces/"+workspace, fmt.Appendf(nil, `{"data":{"type":"workspaces","attributes":{"description":"changed %d"}}}`, n), io.Discard)
		return err
	}
}
