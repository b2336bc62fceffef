package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-run/holdfast/clock"
)

// rate measures how many requests a second a few clients get answered.
func rate(ctx context.Context, b *bench) error {
	const rounds, connections, each = 4, 4, 500 * time.Millisecond
	if _, err := b.api.workspace(ctx, "rate"); err != nil {
		return err
	}
	const ping, read = "GET /api/v2/ping", "GET /api/v2/organizations/" + organization + "/workspaces/rate"
	rates := map[string][]float64{}
	err := inTurns(rounds, []string{ping, read}, func(_ int, what string) error {
		perSecond, err := b.api.flood(ctx, what[len("GET "):], connections, each)
		rates[what] = append(rates[what], perSecond)
		return err
	})
	if err != nil {
		return err
	}
	rowOf := func(what, command string) row {
		least, most := rates[command][0], rates[command][0]
		for _, r := range rates[command] {
			least, most = min(least, r), max(most, r)
		}
		return row{what: what, n: rounds, value: fmt.Sprintf("%.0f/s", median(rates[command])), spread: fmt.Sprintf("%.0f – %.0f", least, most), command: fmt.Sprintf("%s (%d connections)", command, connections)}
	}
	b.table.add(rowOf("ping", ping))
	r := rowOf("workspace read", read)
	share := median(rates[read]) / median(rates[ping])
	r.beside, r.goal = fmt.Sprintf("%.2f × ping", share), b.table.judge("workspace read ≥ 0.4 × ping", share >= 0.4)
	b.table.add(r)
	return nil
}

// flood asks for a path again and again, on connections of its own, and gives answers per second.
func (a *api) flood(ctx context.Context, path string, connections int, length time.Duration) (float64, error) {
	var answers atomic.Int64
	began := clock.Now()
	group, ctx := errgroup.WithContext(ctx)
	for range connections {
		group.Go(func() error {
			client := &api{address: a.address, token: a.token, http: a.client(false)}
			defer client.http.CloseIdleConnections()
			for clock.Since(began) < length {
				if _, err := client.do(ctx, http.MethodGet, path, nil, io.Discard); err != nil {
					return err
				}
				answers.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	return float64(answers.Load()) / clock.Since(began).Seconds(), err
}
