package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// Module is the import path that every package of the repository starts with.
const Module = "github.com/holdfast-run/holdfast"

// Package is one package of the repository as the rules see it.
type Package struct {
	Path  string // below the module, such as "internal/testdb"; "." is the root
	Name  string // as in its package clause
	Files []File
}

// File is one source file. Syntax is nil for files that are not Go.
type File struct {
	Path   string // below the repository's root
	Source string
	Syntax *ast.File

	fset *token.FileSet
}

// Test reports whether only `go test` compiles the file.
func (f File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// At gives the place of a node in the way editors understand.
func (f File) At(n ast.Node) string {
	return fmt.Sprintf("%s:%d", f.Path, f.fset.Position(n.Pos()).Line)
}

// Imports gives the import paths of a Go file with the place of each.
func (f File) Imports() map[string]string {
	found := map[string]string{}
	if f.Syntax == nil {
		return found
	}
	for _, spec := range f.Syntax.Imports {
		found[strings.Trim(spec.Path.Value, `"`)] = f.At(spec)
	}
	return found
}

// Load reads the repository at root: the packages that `go list` names, with every .go
// file in their folders (also those a build tag leaves out) and every .sql file.
func Load(root string) ([]Package, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "list", "-find", "-json=ImportPath,Name,Dir", "./...")
	cmd.Dir = root
	out, err := output(cmd)
	if err != nil {
		return nil, err
	}
	var packages []Package
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var listed struct{ ImportPath, Name, Dir string }
		if err := dec.Decode(&listed); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the answer of go list: %w", err)
		}
		sources, err := readFolder(root, listed.Dir)
		if err != nil {
			return nil, err
		}
		pkg, err := NewPackage(below(listed.ImportPath), sources)
		if err != nil {
			return nil, err
		}
		packages = append(packages, pkg)
	}
	return packages, nil
}

// NewPackage parses sources, which map a file's path to its text, into a package.
func NewPackage(path string, sources map[string]string) (Package, error) {
	pkg := Package{Path: path}
	for _, name := range sortedKeys(sources) {
		file := File{Path: name, Source: sources[name], fset: token.NewFileSet()}
		if strings.HasSuffix(name, ".go") {
			var err error
			file.Syntax, err = parser.ParseFile(file.fset, name, file.Source, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return Package{}, err
			}
			if pkg.Name == "" || !file.Test() {
				pkg.Name = strings.TrimSuffix(file.Syntax.Name.Name, "_test")
			}
		}
		pkg.Files = append(pkg.Files, file)
	}
	return pkg, nil
}

// GoRoot gives the folder of the Go distribution that compiles the repository at root.
func GoRoot(root string) (string, error) {
	cmd := exec.Command("go", "env", "GOROOT")
	cmd.Dir = root
	out, err := output(cmd)
	return strings.TrimSpace(string(out)), err
}

// Dependencies gives the import paths of everything that is linked into a program.
func Dependencies(root, program string) ([]string, error) {
	cmd := exec.Command("go", "list", "-buildvcs=false", "-deps", program)
	cmd.Dir = root
	out, err := output(cmd)
	return strings.Fields(string(out)), err
}

func readFolder(root, dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	sources := map[string]string{}
	for _, entry := range entries {
		ext := filepath.Ext(entry.Name())
		if entry.IsDir() || (ext != ".go" && ext != ".sql") {
			continue
		}
		full := filepath.Join(dir, entry.Name())
		text, err := os.ReadFile(full)
		if err != nil {
			return nil, err
		}
		name, err := filepath.Rel(root, full)
		if err != nil {
			return nil, err
		}
		sources[filepath.ToSlash(name)] = string(text)
	}
	return sources, nil
}

// output runs cmd and gives what it printed, with its complaint in the error.
func output(cmd *exec.Cmd) ([]byte, error) {
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, complaint.String())
	}
	return out, nil
}

// below strips the module from an import path. Paths of other modules stay as they are.
func below(importPath string) string {
	if importPath == Module {
		return "."
	}
	return strings.TrimPrefix(importPath, Module+"/")
}

// within reports whether path is folder or lies below it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

func withinAny(path string, folders []string) bool {
	for _, folder := range folders {
		if within(path, folder) {
			return true
		}
	}
	return false
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
