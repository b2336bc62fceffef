package archtest

import (
	"fmt"
	"go/ast"
)

// CheckObjects finds things of a workspace that authz is asked about without their project:
// who has rights in the project would not have them there, or see less than there is.
func CheckObjects(packages []Package) (findings []string) {
	for _, pkg := range packages {
		for _, file := range pkg.Files {
			if file.Syntax == nil || file.Test() {
				continue
			}
			ast.Inspect(file.Syntax, func(n ast.Node) bool {
				literal, ok := n.(*ast.CompositeLit)
				if !ok {
					return true
				}
				sel, ok := literal.Type.(*ast.SelectorExpr)
				if !ok || sel.Sel.Name != "Object" {
					return true
				}
				if id, ok := sel.X.(*ast.Ident); !ok || id.Name != "authz" {
					return true
				}
				says := map[string]bool{}
				for _, element := range literal.Elts {
					if pair, ok := element.(*ast.KeyValueExpr); ok {
						says[pair.Key.(*ast.Ident).Name] = true
					}
				}
				if says["Workspace"] && !says["Project"] || says["Project"] && !says["Organization"] {
					findings = append(findings, fmt.Sprintf("%s: an authz.Object says everything that it is in: organization, project and workspace", file.At(literal)))
				}
				return true
			})
		}
	}
	return findings
}
