package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// Order is a list of packages, lowest first. A package imports only what stands before
// it, so that there are no upward calls and no cycles of thought.
type Order struct {
	Layers []string            // groups of names, lowest first, as read left to right
	Aside  map[string][]string // packages outside the order → all that they may import
	NotYet map[string]string   // named in a rule but not built yet → what brings it
	Free   []string            // folders whose packages may import anything
}

// TheOrder is the order of this repository.
var TheOrder = Order{
	Layers: []string{
		"fault ids clock",
		"archive internal/failpoint internal/testsignal",
		"postgres migrations jobs envelope outbound authz",
		"artifacts audit fence",
		"accounts",
		"site",
		"scim",
		"gates",
		"workspaces",
		"vcs",
		"state",
		"dispatch",
		"policies",
		"registry",
		"approvals",
		"notifications",
		"runtasks",
		"runs",
		"recovery",
		"throttle",
		"tfeapi scimapi runnerapi web metrics",
		"config",
		"internal/devstack",
		"cmd",
	},
	Aside: map[string][]string{
		// The runner works anywhere with nothing but HTTP: what it cannot import it cannot come to need.
		"runner": {"fault", "ids", "clock", "archive", "runnerapi/wire"},
		// What starts and holds processes and folders knows nothing of Holdfast.
		"internal/child":     {},
		"internal/dirlock":   {"fault"},
		"internal/pgcluster": {"fault", "clock", "internal/child", "internal/dirlock"},
		"internal/testdb":    {"fault", "ids", "clock", "postgres", "migrations", "internal/pgcluster"},
		"internal/archtest":  {},
		"internal/shapes":    {},
	},
	NotYet: map[string]string{
		"internal/testsignal": "the first test that must wait for an event inside a server",
		"jobs":                "retries and timers inside the server",
	},
	Free: []string{"tests", "benchmarks", "examples"},
}

// testOnly are packages that no program may contain.
var testOnly = []string{"internal/testdb", "internal/archtest", "internal/shapes", "internal/testsignal", "tests", "benchmarks", "examples"}

// position finds the place of a package in the order, and the name it stands under there.
func (o Order) position(path string) (place int, ok bool) {
	for _, layer := range o.Layers {
		for _, name := range strings.Fields(layer) {
			if within(path, name) {
				return place, true
			}
			place++
		}
	}
	return 0, false
}

// mayImport says whether the package from may import the package to, both of this module, and if not, why.
func (o Order) mayImport(from, to string) (reason string, ok bool) {
	if withinAny(from, o.Free) {
		return "", true
	}
	if withinAny(to, testOnly) && !withinAny(from, testOnly) {
		return "it is for tests only", false
	}
	for _, name := range sortedKeys(o.Aside) {
		if !within(from, name) {
			continue
		}
		if within(to, name) || withinAny(to, o.Aside[name]) {
			return "", true
		}
		return fmt.Sprintf("%s imports only: %s", name, strings.Join(o.Aside[name], " ")), false
	}
	here, ok := o.position(from)
	if !ok {
		return "it has no place in the import order: give it one in internal/archtest/order.go", false
	}
	for _, name := range sortedKeys(o.Aside) {
		if within(to, name) {
			return o.mayImportAside(from, name)
		}
	}
	there, ok := o.position(to)
	if !ok {
		return "the imported package has no place in the import order", false
	}
	if there > here {
		return "imports go only leftwards in the order of internal/archtest/order.go", false
	}
	return "", true
}

// mayImportAside: what stands aside is started by programs and by the development stack, and by nothing below them.
func (o Order) mayImportAside(from, aside string) (string, bool) {
	if withinAny(from, []string{"cmd", "internal/devstack"}) {
		return "", true
	}
	return aside + " stands outside the import order: only programs and the development stack start it", false
}

// Check finds imports that break the order. Test files are exempt: a test may build its
// world through the packages above its own.
func (o Order) Check(packages []Package) (findings []string) {
	for _, pkg := range packages {
		for _, file := range pkg.Files {
			if file.Test() {
				continue
			}
			imports := file.Imports()
			for _, path := range sortedKeys(imports) {
				to := below(path)
				if to == path || to == pkg.Path {
					continue
				}
				if reason, ok := o.mayImport(pkg.Path, to); !ok {
					findings = append(findings, fmt.Sprintf("%s: imports %s: %s", imports[path], to, reason))
				}
			}
		}
	}
	return findings
}

// CheckNames finds names in the order that no package has, and packages that were said not to be there yet.
func (o Order) CheckNames(packages []Package) (findings []string) {
	for _, layer := range o.Layers {
		for _, name := range strings.Fields(layer) {
			findings = append(findings, o.checkName(packages, name)...)
		}
	}
	for _, name := range sortedKeys(o.Aside) {
		findings = append(findings, o.checkName(packages, name)...)
		for _, allowed := range o.Aside[name] {
			findings = append(findings, o.checkName(packages, allowed)...)
		}
	}
	return findings
}

func (o Order) checkName(packages []Package, name string) []string {
	exists := slices.ContainsFunc(packages, func(p Package) bool { return within(p.Path, name) })
	_, waited := o.NotYet[name]
	switch {
	case exists && waited:
		return []string{fmt.Sprintf("package %s is here now: take it out of NotYet", name)}
	case !exists && !waited:
		return []string{fmt.Sprintf("package %s is named by a rule but is not there: correct the rule, or list it in NotYet", name)}
	}
	return nil
}
