package archtest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// headings are what a package's comment tells a newcomer.
var headings = []string{"Owns:", "Words:", "Invariants:", "Refuses:", "Tested by:"}

// plainComment lists the packages whose comment needs no headings, with the reason.
var plainComment = map[string]string{
	"runnerapi/wire": "types without behaviour; runnerapi tells their rules",
	"tests":          "tests of whole programs own nothing",
}

// meaninglessNames are names of packages that say nothing of what they hold.
var meaninglessNames = []string{"utils", "util", "common", "models", "model", "helpers", "helper", "misc"}

// CheckComments finds packages that do not introduce themselves: each has a doc.go whose
// comment carries the headings. A program needs only a comment, in any file.
func CheckComments(packages []Package) (findings []string) {
	for _, pkg := range packages {
		comment, inDoc := packageComment(pkg)
		if comment == "" {
			findings = append(findings, fmt.Sprintf("%s: the package has no comment: write doc.go", pkg.Path))
			continue
		}
		if pkg.Name == "main" || withinAny(pkg.Path, sortedKeys(plainComment)) {
			continue
		}
		if !inDoc {
			findings = append(findings, fmt.Sprintf("%s: the package's comment belongs in doc.go", pkg.Path))
			continue
		}
		for _, heading := range headings {
			if !strings.Contains(comment, heading) {
				findings = append(findings, fmt.Sprintf("%s/doc.go: the comment lacks the heading %q", pkg.Path, heading))
			}
		}
	}
	return findings
}

// packageComment gives the comment of doc.go, else of any file of the package.
func packageComment(pkg Package) (comment string, inDoc bool) {
	for _, file := range pkg.Files {
		if file.Syntax == nil || file.Syntax.Doc == nil {
			continue
		}
		if filepath.Base(file.Path) == "doc.go" {
			return file.Syntax.Doc.Text(), true
		}
		comment = file.Syntax.Doc.Text()
	}
	return comment, false
}

// CheckPackageNames finds packages named after nothing.
func CheckPackageNames(packages []Package) (findings []string) {
	for _, pkg := range packages {
		if slices.Contains(meaninglessNames, pkg.Name) {
			findings = append(findings, fmt.Sprintf("%s: the name %q does not say what lives there", pkg.Path, pkg.Name))
		}
	}
	return findings
}

// runnerWithout are the modules that the runner's binary must not contain: it reaches
// neither the database nor the store, whatever it is told.
var runnerWithout = []string{"github.com/jackc/pgx", "github.com/aws/aws-sdk-go-v2"}

// CheckRunner finds modules among a program's dependencies that the runner must do without.
func CheckRunner(dependencies []string) (findings []string) {
	for _, path := range dependencies {
		if withinAny(path, runnerWithout) {
			findings = append(findings, "the runner's binary contains "+path)
		}
	}
	return findings
}
