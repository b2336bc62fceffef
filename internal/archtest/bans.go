package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// Ban keeps a package, or functions of it, inside the packages that answer for it.
// Test files are exempt.
type Ban struct {
	Package   string   // import path; packages below it are banned with it
	Functions []string // only these of it; none means the import itself
	In        []string // packages of the repository that may, with those below them
	Owners    string   // a file whose presence makes a package one that may, such as "queries.sql"
	Why       string
}

// TheBans are the bans of this repository.
var TheBans = []Ban{
	{
		Package: "github.com/jackc/pgx/v5",
		In:      []string{"postgres", "migrations", "jobs", "internal/testdb", "benchmarks"},
		Owners:  "queries.sql",
		Why:     "SQL outside the package that owns the table cannot be reviewed as a set",
	},
	{
		Package: "github.com/aws/aws-sdk-go-v2",
		In:      []string{"artifacts"},
		Why:     "every stored byte is sealed, and artifacts is the only door to the store",
	},
	{
		Package: "github.com/versity/versitygw",
		In:      []string{"cmd/holdfast"},
		Why:     "only `holdfast dev` brings a store of its own; the server speaks to any S3-compatible one",
	},
	{
		Package: "net/http",
		In:      []string{"tfeapi", "scimapi", "runnerapi", "web", "metrics", "outbound", "runner", "cmd", "internal/devstack", "benchmarks", "tests"},
		Why:     "rules that know HTTP cannot be called from anything else, and addresses that users gave are called by outbound alone, which checks each",
	},
	{
		Package:   "os",
		Functions: []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"},
		In:        []string{"config", "cmd", "runner", "internal/devstack", "internal/testdb", "internal/failpoint", "benchmarks", "tests"},
		Why:       "what configures a server is listed in one place, docs/configuration.md",
	},
	{
		Package:   "time",
		Functions: []string{"Now", "Since", "Until"},
		In:        []string{"clock"},
		Why:       "deadlines are decided by the database's clock, and the process clock is read in one place",
	},
}

// allows reports whether pkg may use what the ban is about.
func (b Ban) allows(pkg Package) bool {
	owns := func(f File) bool { return b.Owners != "" && filepath.Base(f.Path) == b.Owners }
	return withinAny(pkg.Path, b.In) || slices.ContainsFunc(pkg.Files, owns)
}

// CheckBans finds uses of banned names.
func CheckBans(bans []Ban, packages []Package) (findings []string) {
	for _, ban := range bans {
		for _, pkg := range packages {
			if ban.allows(pkg) {
				continue
			}
			for _, file := range pkg.Files {
				if !file.Test() {
					findings = append(findings, ban.uses(file)...)
				}
			}
		}
	}
	return findings
}

func (b Ban) uses(file File) (findings []string) {
	if len(b.Functions) > 0 {
		for _, use := range selectors(file, b.Package, b.Functions) {
			findings = append(findings, fmt.Sprintf("%s: %s", use, b.Why))
		}
		return findings
	}
	imports := file.Imports()
	for _, path := range sortedKeys(imports) {
		if within(path, b.Package) {
			findings = append(findings, fmt.Sprintf("%s: imports %s: %s", imports[path], path, b.Why))
		}
	}
	return findings
}

// selectors finds uses of the named members of an imported package, however it was renamed.
func selectors(file File, importPath string, names []string) (places []string) {
	if file.Syntax == nil {
		return nil
	}
	local := ""
	for _, spec := range file.Syntax.Imports {
		if strings.Trim(spec.Path.Value, `"`) == importPath {
			local = importPath[strings.LastIndex(importPath, "/")+1:]
			if spec.Name != nil {
				local = spec.Name.Name
			}
		}
	}
	if local == "" {
		return nil
	}
	if local == "." {
		return []string{fmt.Sprintf("%s: imports %s into its own names", file.Path, importPath)}
	}
	ast.Inspect(file.Syntax, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains(names, sel.Sel.Name) {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && id.Name == local {
			places = append(places, fmt.Sprintf("%s: %s.%s", file.At(sel), importPath, sel.Sel.Name))
		}
		return true
	})
	return places
}

// CheckBansExist finds bans on packages that nobody imports and on functions that do not
// exist (any more): such a ban would hold for ever and mean nothing. goroot is the folder
// of the Go distribution; bans on functions are for its packages.
func CheckBansExist(goroot string, bans []Ban, packages []Package) (findings []string, err error) {
	for _, ban := range bans {
		if len(ban.Functions) == 0 {
			if !ban.used(packages) {
				findings = append(findings, fmt.Sprintf("none of the packages that may import %s does: is it still named so?", ban.Package))
			}
			continue
		}
		declared, err := functionsIn(filepath.Join(goroot, "src", ban.Package))
		if err != nil {
			return nil, err
		}
		for _, name := range ban.Functions {
			if !declared[name] {
				findings = append(findings, fmt.Sprintf("the banned function %s.%s does not exist", ban.Package, name))
			}
		}
	}
	return findings, nil
}

// used reports whether a package that may import the banned one does.
func (b Ban) used(packages []Package) bool {
	for _, pkg := range packages {
		for _, file := range pkg.Files {
			for path := range file.Imports() {
				if within(path, b.Package) && b.allows(pkg) {
					return true
				}
			}
		}
	}
	return false
}

func functionsIn(dir string) (map[string]bool, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	declared := map[string]bool{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				declared[fn.Name.Name] = true
			}
		}
	}
	return declared, nil
}
