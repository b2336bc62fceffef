//go:build unix

package pgcluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/holdfast-run/holdfast/fault"
)

// packagedBinaries is where Debian and its relatives keep one folder per major version.
const packagedBinaries = "/usr/lib/postgresql/*/bin"

var versionNumber = regexp.MustCompile(`\d+`)

// findBinaries gives the folder with initdb and postgres to use. When major is not
// empty, a cluster of that major version exists already and no other one can open it.
func findBinaries(ctx context.Context, opts Options, major string) (string, error) {
	var others []string
	for _, dir := range candidates(opts) {
		if !isExecutable(filepath.Join(dir, "initdb")) || !isExecutable(filepath.Join(dir, "postgres")) {
			continue
		}
		if major == "" {
			return dir, nil
		}
		found := majorOf(ctx, dir)
		if found == major {
			return dir, nil
		}
		others = append(others, found+" in "+dir)
	}
	if len(others) > 0 {
		return "", fault.New(fault.Unavailable, "postgres_version",
			"The data in %s is of PostgreSQL %s, but only these versions were found: %s. Install PostgreSQL %s, or start with another data folder.",
			opts.Dir, major, strings.Join(others, ", "), major)
	}
	return "", fault.New(fault.Unavailable, "postgres_missing",
		"No PostgreSQL programs (initdb and postgres) were found in %s. Install the package postgresql, or run `make postgres`.",
		strings.Join(searched(opts), ", "))
}

func searched(opts Options) []string {
	if opts.BinDir != "" {
		return []string{opts.BinDir}
	}
	return append([]string{packagedBinaries, "PATH"}, opts.MoreBinDirs...)
}

// candidates lists folders in the order of preference.
func candidates(opts Options) []string {
	if opts.BinDir != "" {
		return []string{opts.BinDir}
	}
	dirs := newestFirst(packagedBinaries)
	if initdb, err := exec.LookPath("initdb"); err == nil {
		if resolved, err := filepath.EvalSymlinks(initdb); err == nil {
			initdb = resolved
		}
		dirs = append(dirs, filepath.Dir(initdb))
	}
	for _, pattern := range opts.MoreBinDirs {
		dirs = append(dirs, newestFirst(pattern)...)
	}
	return dirs
}

func newestFirst(pattern string) []string {
	dirs, _ := filepath.Glob(pattern) // fails only for a malformed pattern
	version := func(dir string) int {
		n, _ := strconv.Atoi(versionNumber.FindString(filepath.Base(filepath.Dir(dir))))
		return n
	}
	sort.SliceStable(dirs, func(i, j int) bool { return version(dirs[i]) > version(dirs[j]) })
	return dirs
}

// majorOf asks the server program for its version: "postgres (PostgreSQL) 15.18 (Debian …)".
func majorOf(ctx context.Context, dir string) string {
	out, _ := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	_, rest, _ := strings.Cut(string(out), "(PostgreSQL)")
	return versionNumber.FindString(rest)
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
