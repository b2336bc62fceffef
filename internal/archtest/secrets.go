package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
)

// secretName is how things are called that somebody could guess bit by bit, if comparing them
// took the longer the more of them was right.
var secretName = regexp.MustCompile(`(?i)(secret|token|password|verifier|challenge|hmackey|signature|passphrase|hash|mac)$`)

// comparers compare like == does.
var comparers = map[string][]string{"bytes": {"Equal", "Compare", "HasPrefix"}, "strings": {"EqualFold", "Compare"}, "reflect": {"DeepEqual"}}

// notSecrets are operands that are called so and are no secrets.
var notSecrets = []string{
	"policies/evaluator: token", // of JSON
	"runner: token",             // of JSON
}

// CheckSecrets finds secrets that are compared by anything but crypto/subtle or hmac.Equal. To
// ask whether there is one at all (== "", == nil) is no comparison, and names that begin with a
// capital and stand alone are constants.
func CheckSecrets(packages []Package) (findings []string) {
	for _, pkg := range packages {
		for _, file := range pkg.Files {
			if file.Syntax == nil || file.Test() {
				continue
			}
			ast.Inspect(file.Syntax, func(n ast.Node) bool {
				operands := compared(n)
				if len(operands) < 2 || slices.ContainsFunc(operands, saysNothing) {
					return true
				}
				for _, operand := range operands {
					if name := lastName(operand); secretName.MatchString(name) && !slices.Contains(notSecrets, pkg.Path+": "+name) {
						findings = append(findings, fmt.Sprintf("%s: compares %s: how long that takes tells how much of it is right; use subtle.ConstantTimeCompare or hmac.Equal", file.At(n), name))
						break
					}
				}
				return true
			})
		}
	}
	return findings
}

// compared gives what a node compares, if it compares.
func compared(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if n.Op == token.EQL || n.Op == token.NEQ {
			return []ast.Expr{n.X, n.Y}
		}
	case *ast.CallExpr:
		if sel, ok := n.Fun.(*ast.SelectorExpr); ok {
			if from, ok := sel.X.(*ast.Ident); ok && slices.Contains(comparers[from.Name], sel.Sel.Name) {
				return n.Args
			}
		}
	}
	return nil
}

// saysNothing is a literal, nil, or a constant of the code.
func saysNothing(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		return e.Name == "nil" || ast.IsExported(e.Name)
	}
	return false
}

// lastName is what an operand is called: x.y[1:] is y.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return lastName(e.X)
	case *ast.ParenExpr:
		return lastName(e.X)
	case *ast.SliceExpr:
		return lastName(e.X)
	case *ast.IndexExpr:
		return lastName(e.X)
	case *ast.CallExpr: // a conversion, such as []byte(x) or string(x)
		switch e.Fun.(type) {
		case *ast.ArrayType:
			return lastName(e.Args[0])
		case *ast.Ident:
			if fun := e.Fun.(*ast.Ident); fun.Name == "string" && len(e.Args) == 1 {
				return lastName(e.Args[0])
			}
		}
	}
	return ""
}
