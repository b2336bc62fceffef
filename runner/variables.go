package runner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

var identifier = regexp.MustCompile(`^[\pL\p{Nl}_][\pL\p{Nl}\p{Mn}\p{Mc}\p{Nd}\p{Pc}_-]*$`)

// writeVariables puts values of input variables into files that tofu loads by
// itself, last of all such files, so that init, plan and apply see the same and no
// file of the configuration wins over them. Literal values go into a JSON file,
// where tofu takes strings as they are; expressions go into an HCL file. A later
// entry of the same key wins, of either sort. Errors name the key only.
func (s sandbox) writeVariables(variables []wire.Variable) error {
	literal := map[string]string{}
	expressions := map[string]string{}
	for _, v := range variables {
		if !identifier.MatchString(v.Key) {
			return fmt.Errorf("%q cannot be the name of an input variable: it must be letters, digits, _ and -, and not start with a digit", v.Key)
		}
		if err := checkText(v); err != nil {
			return err
		}
		delete(literal, v.Key)
		delete(expressions, v.Key)
		if v.HCL {
			expressions[v.Key] = v.Value
		} else {
			literal[v.Key] = v.Value
		}
	}
	base, err := lastOf(s.work, "~holdfast", isAutoVariables, func(last string) string { return last + "~holdfast" })
	if err != nil {
		return err
	}
	if len(literal) > 0 {
		var text bytes.Buffer
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(literal); err != nil {
			return err
		}
		if err := writeNew(filepath.Join(s.work, base+".auto.tfvars.json"), text.Bytes()); err != nil {
			return err
		}
	}
	if len(expressions) > 0 {
		var text bytes.Buffer
		for _, key := range sortedKeys(expressions) {
			fmt.Fprintf(&text, "%s = %s\n", key, expressions[key])
		}
		return writeNew(filepath.Join(s.work, base+".auto.tfvars"), text.Bytes())
	}
	return nil
}

// isAutoVariables says whether tofu loads the file by itself, in the order of names.
func isAutoVariables(name string) bool {
	return strings.HasSuffix(name, ".auto.tfvars") || strings.HasSuffix(name, ".auto.tfvars.json")
}

// checkText refuses values that would not reach tofu as they are.
func checkText(v wire.Variable) error {
	if strings.ContainsRune(v.Value, 0) {
		return fmt.Errorf("the value of the variable %q has a NUL byte, which tofu cannot be given", v.Key)
	}
	if !utf8.ValidString(v.Value) {
		return fmt.Errorf("the value of the variable %q is not valid UTF-8", v.Key)
	}
	return nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
