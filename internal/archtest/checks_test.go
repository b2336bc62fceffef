package archtest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// program builds a small repository for a checker to judge: "dir/file.go" → text.
func program(t *testing.T, sources map[string]string) []Package {
	t.Helper()
	byDir := map[string]map[string]string{}
	for path, text := range sources {
		dir := path[:strings.LastIndex(path, "/")]
		if byDir[dir] == nil {
			byDir[dir] = map[string]string{}
		}
		byDir[dir][path] = text
	}
	var packages []Package
	for _, dir := range sortedKeys(byDir) {
		pkg, err := NewPackage(dir, byDir[dir])
		require.NoError(t, err)
		packages = append(packages, pkg)
	}
	return packages
}

func importing(name string, paths ...string) string {
	text := "package " + name + "\n"
	for _, path := range paths {
		text += "import _ \"" + path + "\"\n"
	}
	return text
}

func TestOrderAllowsLeftwardAndRefusesTheRest(t *testing.T) {
	order := Order{
		Layers: []string{"fault ids", "store", "runs", "cmd"},
		Aside:  map[string][]string{"runner": {"fault", "api/wire"}},
		Free:   []string{"tests"},
	}
	cases := map[string]struct {
		file, imports string
		finding       string // "" means allowed
	}{
		"leftward":                   {"runs/a.go", "store", ""},
		"leftward in one group":      {"ids/a.go", "fault", ""},
		"upward":                     {"store/a.go", "runs", "store/a.go:2: imports runs: imports go only leftwards"},
		"rightward in one group":     {"fault/a.go", "ids", "fault/a.go:2: imports ids"},
		"upward from a part":         {"store/sub/a.go", "runs/sub", "imports go only leftwards"},
		"upward in a test file":      {"store/a_test.go", "runs", ""},
		"a package without a place":  {"stray/a.go", "fault", "stray/a.go:2: imports fault: it has no place"},
		"importing a placeless one":  {"runs/a.go", "stray", "the imported package has no place"},
		"aside, allowed":             {"runner/a.go", "api/wire", ""},
		"aside, its own part":        {"runner/a.go", "runner/sub", ""},
		"aside, all else":            {"runner/a.go", "store", "runner imports only: fault api/wire"},
		"aside, above what it may":   {"runner/a.go", "api", "runner imports only"},
		"what is aside, from below":  {"store/a.go", "runner", "stands outside the import order"},
		"what is aside, by programs": {"cmd/x/a.go", "runner", ""},
		"tests may import anything":  {"tests/e2e/a.go", "cmd", ""},
		"test helpers in a program":  {"runs/a.go", "internal/testdb", "it is for tests only"},
		"names only start alike":     {"store/a.go", "storefront", "the imported package has no place"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			findings := order.Check(program(t, map[string]string{c.file: importing("p", Module+"/"+c.imports, "fmt")}))
			if c.finding == "" {
				assert.Empty(t, findings)
				return
			}
			require.Len(t, findings, 1)
			assert.Contains(t, findings[0], c.finding)
		})
	}
}

func TestOrderOfThisRepositoryRefusesTheImportsItIsThereFor(t *testing.T) {
	for file, imports := range map[string]string{
		"state/a.go":          "runs",
		"runs/a.go":           "tfeapi",
		"runner/a.go":         "postgres",
		"runner/b.go":         "runnerapi",
		"fault/a.go":          "ids",
		"tfeapi/a.go":         "cmd/holdfast",
		"internal/child/a.go": "runs",
	} {
		findings := TheOrder.Check(program(t, map[string]string{file: importing("p", Module+"/"+imports)}))
		assert.Len(t, findings, 1, "%s importing %s", file, imports)
	}
}

func TestOrderNamesMustExist(t *testing.T) {
	order := Order{
		Layers: []string{"fault gone", "later", "here"},
		Aside:  map[string][]string{"runner": {"fault", "wire"}},
		NotYet: map[string]string{"later": "a reason", "here": "a reason"},
	}
	findings := order.CheckNames(program(t, map[string]string{
		"fault/a.go": importing("fault"), "here/a.go": importing("here"), "runner/a.go": importing("runner"),
	}))
	require.Len(t, findings, 3)
	assert.Contains(t, findings[0], "package gone is named by a rule but is not there")
	assert.Contains(t, findings[1], "package here is here now")
	assert.Contains(t, findings[2], "package wire is named by a rule but is not there")
}

func TestBans(t *testing.T) {
	bans := []Ban{
		{Package: "github.com/jackc/pgx/v5", In: []string{"postgres"}, Owners: "queries.sql", Why: "because"},
		{Package: "time", Functions: []string{"Now"}, In: []string{"clock"}, Why: "because"},
	}
	pgx := importing("p", "github.com/jackc/pgx/v5/pgxpool")
	now := "package p\nimport \"time\"\nvar _ = time.Now()\n"
	cases := map[string]struct {
		sources map[string]string
		finding string
	}{
		"import where allowed":      {map[string]string{"postgres/a.go": pgx}, ""},
		"import below allowed":      {map[string]string{"postgres/sub/a.go": pgx}, ""},
		"import by an owner of SQL": {map[string]string{"runs/a.go": pgx, "runs/queries.sql": ""}, ""},
		"import in a test":          {map[string]string{"runs/a_test.go": pgx}, ""},
		"import elsewhere":          {map[string]string{"tfeapi/a.go": pgx}, "tfeapi/a.go:2: imports github.com/jackc/pgx/v5/pgxpool: because"},
		"call where allowed":        {map[string]string{"clock/a.go": now}, ""},
		"call elsewhere":            {map[string]string{"runs/a.go": now}, "runs/a.go:3: time.Now: because"},
		"call under another name":   {map[string]string{"runs/a.go": "package p\nimport t \"time\"\nvar _ = t.Now\n"}, "runs/a.go:3: time.Now"},
		"call through a dot import": {map[string]string{"runs/a.go": "package p\nimport . \"time\"\nvar _ = Now\n"}, "imports time into its own names"},
		"another function":          {map[string]string{"runs/a.go": "package p\nimport \"time\"\nvar _ = time.Unix\n"}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			findings := CheckBans(bans, program(t, c.sources))
			if c.finding == "" {
				assert.Empty(t, findings)
				return
			}
			require.Len(t, findings, 1)
			assert.Contains(t, findings[0], c.finding)
		})
	}
}

func TestBansMustExist(t *testing.T) {
	goroot, err := GoRoot(".")
	require.NoError(t, err)
	packages := program(t, map[string]string{
		"postgres/a.go": importing("postgres", "example.com/driver/v5/pool"),
		"runs/a.go":     importing("runs", "example.com/misplaced"),
	})
	findings, err := CheckBansExist(goroot, []Ban{
		{Package: "os", Functions: []string{"Getenv", "GetEnv"}},
		{Package: "example.com/driver/v5", In: []string{"postgres"}},
		{Package: "example.com/renamed", In: []string{"postgres"}},
		{Package: "example.com/misplaced", In: []string{"postgres"}},
	}, packages)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"the banned function os.GetEnv does not exist",
		"none of the packages that may import example.com/renamed does: is it still named so?",
		"none of the packages that may import example.com/misplaced does: is it still named so?",
	}, findings)
}

func TestSQLRules(t *testing.T) {
	star := "select " + "*"
	update := "update " + "runs"
	literal := func(sql string) string { return "package p\nconst q = `" + sql + "`\n" }
	cases := map[string]struct {
		path, text string
		findings   int
	}{
		"a run updated by its owner":      {"runs/queries.sql", update + " set x = 1", 0},
		"a run updated elsewhere":         {"dispatch/queries.sql", "-- c\n" + strings.ToUpper(update) + "\nset x = 1", 1},
		"a run updated in Go":             {"dispatch/a.go", literal(update + " set x = 1"), 1},
		"a run updated in Go by its own":  {"runs/a.go", literal(update + " set x = 1"), 1},
		"a run updated by a test":         {"runs/a_test.go", literal(update + " set x = 1"), 0},
		"another table with a like name":  {"dispatch/queries.sql", update + "_archive set x = 1", 0},
		"told of in a comment":            {"dispatch/queries.sql", "-- " + update + " is not here; nor " + star, 0},
		"told of in a Go comment":         {"dispatch/a.go", "package p\n// " + update + "\n", 0},
		"every column":                    {"state/queries.sql", star + " from x", 1},
		"every column of an alias":        {"state/queries.sql", "select distinct x." + "* from x", 1},
		"every column in a test, in Go":   {"state/a_test.go", literal(star + " from x"), 1},
		"counting is no column at all":    {"state/queries.sql", "select count(*) from x", 0},
		"a multiplication is no wildcard": {"state/queries.sql", "select a * b from x", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			assert.Len(t, CheckSQL(program(t, map[string]string{c.path: c.text})), c.findings)
		})
	}
}

func TestSQLFindingsNameTheLine(t *testing.T) {
	star := "select " + "*"
	inFile := CheckSQL(program(t, map[string]string{"state/queries.sql": "-- one\n\n" + star + " from x"}))
	inGo := CheckSQL(program(t, map[string]string{"state/a.go": "package p\nconst q = `\n" + star + "`\n"}))
	require.Len(t, inFile, 1)
	require.Len(t, inGo, 1)
	assert.Contains(t, inFile[0], "state/queries.sql:3:")
	assert.Contains(t, inGo[0], "state/a.go:3:")
}

func TestWireTags(t *testing.T) {
	tagged := "package p\ntype v struct {\n\tID string `jsonapi:\"primary,runs\"`\n}\n"
	assert.Empty(t, CheckWireTags(program(t, map[string]string{"tfeapi/a.go": tagged})))
	assert.Equal(t,
		[]string{"runs/a.go:3: a jsonapi tag outside tfeapi: other packages know nothing of the wire"},
		CheckWireTags(program(t, map[string]string{"runs/a.go": tagged})))
}

func TestObjects(t *testing.T) {
	findings := CheckObjects(program(t, map[string]string{"runs/a.go": `package p
var (
	_ = authz.Object{Organization: o, Workspace: w}
	_ = authz.Object{Project: p}
	_ = authz.Object{Organization: o, Project: p, Workspace: w, Noun: "run"}
	_ = authz.Object{Organization: o}
	_ = other.Object{Workspace: w}
)
`}))
	require.Len(t, findings, 2)
	assert.Contains(t, findings[0], "runs/a.go:3: ")
	assert.Contains(t, findings[1], "runs/a.go:4: ")
}

func TestSecrets(t *testing.T) {
	for body, finding := range map[string]bool{
		`a.Token == b`: true, `x != y.secret`: true, `string(got.hash) == want`: true, `bytes.Equal(sum[:], password)`: true, `*p.HMACKey != q`: true, `strings.EqualFold(a.token, b)`: true,
		`token == ""`: false, `secret != nil`: false, `kind == OrganizationToken`: false, `subtle.ConstantTimeCompare(a.token, b) == 1`: false, `len(secret) == size`: false, `a.name == b.name`: false,
	} {
		found := CheckSecrets(program(t, map[string]string{"web/a.go": "package p\nfunc f() bool { return " + body + " }\n"}))
		assert.Equal(t, finding, len(found) == 1, "%s: %v", body, found)
	}
	assert.Empty(t, CheckSecrets(program(t, map[string]string{"web/a_test.go": "package p\nfunc f() bool { return a.Token == b }\n"})))
}

func TestSkips(t *testing.T) {
	body := func(call string) map[string]string {
		return map[string]string{"runs/a_test.go": "package p\nimport \"testing\"\nfunc TestX(t *testing.T) { " + call + " }\n"}
	}
	for _, call := range []string{"t.Skip()", "t.SkipNow()", `t.Skip("")`} {
		assert.Len(t, CheckSkips(program(t, body(call))), 1, call)
	}
	for _, call := range []string{`t.Skip("no tofu on PATH: run make build")`, `t.Skipf("%d", 1)`, "t.Log()"} {
		assert.Empty(t, CheckSkips(program(t, body(call))), call)
	}
}

func TestLength(t *testing.T) {
	long := "package p\n" + strings.Repeat("// line\n", 10)
	assert.Empty(t, CheckLength(program(t, map[string]string{"runs/a.go": long}), 11))
	assert.Len(t, CheckLength(program(t, map[string]string{"runs/a.go": long}), 10), 1)
	assert.Len(t, CheckLength(program(t, map[string]string{"runs/queries.sql": long}), 10), 1)
	generated := "// Code generated by hand. DO NOT EDIT.\n\n" + long
	assert.Empty(t, CheckLength(program(t, map[string]string{"runs/a.go": generated}), 10))
}

func TestComments(t *testing.T) {
	whole := "// Package p is.\n//\n// Owns: a. Words: b.\n// Invariants: c.\n// Refuses: d.\n// Tested by: e.\npackage p\n"
	cases := map[string]struct {
		path, text, finding string
	}{
		"whole":                      {"runs/doc.go", whole, ""},
		"none":                       {"runs/doc.go", "package p\n", "runs: the package has no comment"},
		"in another file":            {"runs/a.go", whole, "runs: the package's comment belongs in doc.go"},
		"a heading is missing":       {"runs/doc.go", strings.ReplaceAll(whole, "Refuses: d.", ""), `lacks the heading "Refuses:"`},
		"a program needs a comment":  {"cmd/x/main.go", "package main\n", "cmd/x: the package has no comment"},
		"a program's plain comment":  {"cmd/x/main.go", "// Command x is.\npackage main\n", ""},
		"a package that is excepted": {"runnerapi/wire/doc.go", "// Package wire is.\npackage wire\n", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			findings := CheckComments(program(t, map[string]string{c.path: c.text}))
			if c.finding == "" {
				assert.Empty(t, findings)
				return
			}
			require.Len(t, findings, 1)
			assert.Contains(t, findings[0], c.finding)
		})
	}
}

func TestPackageNames(t *testing.T) {
	assert.Empty(t, CheckPackageNames(program(t, map[string]string{"runs/a.go": "package runs\n"})))
	assert.Len(t, CheckPackageNames(program(t, map[string]string{"runs/x/a.go": "package utils\n"})), 1)
}

func TestRunnerDependencies(t *testing.T) {
	assert.Empty(t, CheckRunner([]string{"net/http", "github.com/jackc/pgxtras", Module + "/runner"}))
	assert.Equal(t,
		[]string{"the runner's binary contains github.com/jackc/pgx/v5/pgconn", "the runner's binary contains github.com/aws/aws-sdk-go-v2/aws"},
		CheckRunner([]string{"github.com/jackc/pgx/v5/pgconn", "github.com/aws/aws-sdk-go-v2/aws", "os"}))
}
