package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// sealing runs Go's own benchmarks of the packages that seal and store bytes, with a
// database of their own. It needs the repository as the working folder.
func sealing(ctx context.Context, b *bench) error {
	arguments := strings.Fields("run -buildvcs=false ./internal/testdb/cmd/testcluster -- go test -run ^$ -bench . -benchmem ./envelope ./artifacts")
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Env = b.environ
	said, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("go test -bench: %w\n%s", err, end(string(said)))
	}
	return b.goBenchmarks(said)
}

// goBenchmarks makes rows of what go test -bench prints.
func (b *bench) goBenchmarks(said []byte) error {
	found := 0
	for lines := bufio.NewScanner(bytes.NewReader(said)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		n, err := strconv.Atoi(fields[1])
		if err != nil {
			continue
		}
		values := map[string]float64{}
		for i := 2; i+1 < len(fields); i += 2 {
			if values[fields[i+1]], err = strconv.ParseFloat(fields[i], 64); err != nil {
				return fmt.Errorf("go test -bench says %q", lines.Text())
			}
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(fields[0], "Benchmark"), "-")
		found++
		b.table.add(row{
			what: name + " (mean)", n: n, value: fmt.Sprintf("%.1f ms", values["ns/op"]/1e6),
			beside: fmt.Sprintf("%.0f MB/s, %s allocated", values["MB/s"], megabytes(int64(values["B/op"]))), command: "go test -bench " + name + " ./envelope ./artifacts",
		})
	}
	if found == 0 {
		return fmt.Errorf("go test -bench printed no result:\n%s", end(string(said)))
	}
	return nil
}
