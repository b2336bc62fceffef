package wire_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

const document = "../../docs/runner-protocol.md"

// section gives what stands below the last heading of that name, up to the next heading.
func section(page, heading string) string {
	at := strings.LastIndex(page, "\n"+heading+"\n")
	if at < 0 {
		return ""
	}
	rest := page[at+len(heading)+2:]
	if end := strings.Index(rest, "\n#"); end >= 0 {
		rest = rest[:end]
	}
	return rest
}

// TestTheDocumentNamesEverything: each message has a table with each of its fields, and
// each path, header, kind, stream, outcome and code is named.
func TestTheDocumentNamesEverything(t *testing.T) {
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	page := string(text)
	file, err := parser.ParseFile(token.NewFileSet(), "wire.go", nil, 0)
	require.NoError(t, err)
	messages, constants := 0, 0
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			message, ok := n.Type.(*ast.StructType)
			if !ok {
				return true
			}
			messages++
			table := section(page, "### "+n.Name.Name)
			require.NotEmpty(t, table, "no section about %s", n.Name.Name)
			for _, field := range message.Fields.List {
				tag, err := strconv.Unquote(field.Tag.Value)
				require.NoError(t, err)
				name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
				assert.Contains(t, table, "`"+name+"`", "a field of %s", n.Name.Name)
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				literal, ok := n.Values[min(i, len(n.Values)-1)].(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					continue
				}
				constants++
				value, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				assert.Regexp(t, "`[^`]*"+value+"[`: ]", page, "the constant %s", name.Name)
			}
		}
		return true
	})
	assert.Greater(t, messages, 15)
	assert.Greater(t, constants, 25)
	assert.Contains(t, page, "This is version **"+strconv.Itoa(wire.Version)+"**")
}
