package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// limit is the end of everything, also when something hangs.
const limit = 30 * time.Minute

// section is a part that can be run by itself.
type section struct {
	name string
	run  func(context.Context, *bench) error

	asked bool // it is run only when it is asked for by name
}

var sections = []section{
	{name: "sealing", run: sealing},
	{name: "trivial", run: trivial},
	{name: "sleep", run: sleep},
	{name: "resources", run: resources},
	{name: "log", run: longLog},
	{name: "state", run: states},
	{name: "uploads", run: uploads},
	{name: "statements", run: statements},
	{name: "rate", run: rate},
	{name: "idle", run: idle},
	{name: "queue", run: queue},
	{name: "throughput", run: throughput},
	{name: "lists", run: lists, asked: true},
}

func main() {
	var names []string
	for _, s := range sections {
		names = append(names, s.name)
	}
	only := flag.String("only", "", "sections to run, separated by commas: "+strings.Join(names, " ")+" (default all but lists)")
	long := flag.Bool("long", false, "let the section sleep take 60 seconds where it takes 10")
	flag.Parse()
	wanted := strings.FieldsFunc(*only, func(r rune) bool { return r == ',' || r == ' ' })
	for _, name := range wanted {
		if !slices.Contains(names, name) {
			fmt.Fprintf(os.Stderr, "There is no section %q. There are: %s\n", name, strings.Join(names, " "))
			os.Exit(2)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := run(ctx, wanted, *long); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1) // the deferred calls only free what ends with the process
	}
}

// run prints the table also when a section failed, with what the others found.
func run(ctx context.Context, wanted []string, long bool) error {
	b, err := newBench(ctx, long)
	if err != nil {
		return err
	}
	defer b.close()
	var failed []string
	for _, s := range sections {
		if !slices.Contains(wanted, s.name) && (s.asked || len(wanted) > 0) {
			continue
		}
		fmt.Fprintf(os.Stderr, "benchmarks: %s …\n", s.name)
		b.table.section = s.name
		if err := s.run(ctx, b); err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", s.name, err))
		}
	}
	fmt.Print(b.table.String())
	if len(failed) > 0 {
		return fmt.Errorf("%d sections failed:\n%s", len(failed), strings.Join(failed, "\n"))
	}
	return nil
}
