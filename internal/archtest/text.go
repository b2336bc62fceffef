package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

var (
	updateRuns = regexp.MustCompile(`(?i)\bupdate\s+(only\s+)?(\w+\.)?runs\b`)
	selectStar = regexp.MustCompile(`(?i)\bselect\s+(distinct\s+)?(\w+\.)?\*`)
	sqlComment = regexp.MustCompile(`--[^\n]*`)
)

// CheckSQL finds SQL that only its owner may write and SQL that nobody may.
func CheckSQL(packages []Package) (findings []string) {
	for _, pkg := range packages {
		for _, file := range pkg.Files {
			for _, text := range statements(file) {
				if at := updateRuns.FindStringIndex(text.sql); at != nil && file.Path != "runs/queries.sql" && !file.Test() {
					findings = append(findings, text.at(at[0])+": updates the table runs: a run's status has one writer, runs/queries.sql")
				}
				if at := selectStar.FindStringIndex(text.sql); at != nil {
					findings = append(findings, text.at(at[0])+": selects every column: name them, so that a new column changes no answer")
				}
			}
		}
	}
	return findings
}

// statement is a text in which SQL may stand, and where it begins.
type statement struct {
	path string
	line int
	sql  string
}

func (s statement) at(offset int) string {
	return fmt.Sprintf("%s:%d", s.path, s.line+strings.Count(s.sql[:offset], "\n"))
}

// statements gives the text in which SQL may stand: a whole .sql file without its
// comments, and each string literal of a Go file.
func statements(file File) (found []statement) {
	if file.Syntax == nil {
		return []statement{{file.Path, 1, sqlComment.ReplaceAllString(file.Source, "")}}
	}
	ast.Inspect(file.Syntax, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				found = append(found, statement{file.Path, file.fset.Position(lit.Pos()).Line, text})
			}
		}
		return true
	})
	return found
}

// CheckWireTags finds JSON:API struct tags outside tfeapi, the only home of wire types.
func CheckWireTags(packages []Package) (findings []string) {
	for _, pkg := range packages {
		if within(pkg.Path, "tfeapi") {
			continue
		}
		for _, file := range pkg.Files {
			if file.Syntax == nil || file.Test() {
				continue
			}
			ast.Inspect(file.Syntax, func(n ast.Node) bool {
				if field, ok := n.(*ast.Field); ok && field.Tag != nil && strings.Contains(field.Tag.Value, "jsonapi:") {
					findings = append(findings, file.At(field)+": a jsonapi tag outside tfeapi: other packages know nothing of the wire")
				}
				return true
			})
		}
	}
	return findings
}

// CheckSkips finds tests that skip without saying why.
func CheckSkips(packages []Package) (findings []string) {
	for _, pkg := range packages {
		for _, file := range pkg.Files {
			if file.Syntax == nil || !file.Test() {
				continue
			}
			ast.Inspect(file.Syntax, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && skipsSilently(call) {
					findings = append(findings, file.At(call)+": skips a test without a reason: give Skip a string")
				}
				return true
			})
		}
	}
	return findings
}

func skipsSilently(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok || (id.Name != "t" && id.Name != "b" && id.Name != "tb" && id.Name != "f") {
		return false
	}
	switch sel.Sel.Name {
	case "SkipNow":
		return true
	case "Skip", "Skipf":
		if len(call.Args) == 0 {
			return true
		}
		lit, literal := call.Args[0].(*ast.BasicLit)
		return literal && len(lit.Value) <= len(`""`)
	}
	return false
}

// CheckLength finds files that a reader cannot hold in mind.
func CheckLength(packages []Package, limit int) (findings []string) {
	for _, pkg := range packages {
		for _, file := range pkg.Files {
			if file.Syntax != nil && ast.IsGenerated(file.Syntax) {
				continue
			}
			if lines := strings.Count(file.Source, "\n"); lines > limit {
				findings = append(findings, fmt.Sprintf("%s: %d lines, the limit is %d: split it by what a reader looks for", file.Path, lines, limit))
			}
		}
	}
	return findings
}
