package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

var identifier = regexp.MustCompile(`^[\pL\p{Nl}_][\pL\p{Nl}\p{Mn}\p{Mc}\p{Nd}\p{Pc}_-]*$`)

// values are those of input variables, by the name.
type values struct {
	literal     map[string]string // texts as they are
	expressions map[string]string // in HCL
}

// valuesOf sorts the values. A later entry of the same key wins, of either sort. Errors
// name the key only.
func valuesOf(variables []wire.Variable) (values, error) {
	v := values{literal: map[string]string{}, expressions: map[string]string{}}
	for _, given := range variables {
		if !identifier.MatchString(given.Key) {
			return v, fmt.Errorf("%q cannot be the name of an input variable: it must be letters, digits, _ and -, and not start with a digit", given.Key)
		}
		if err := checkText(given); err != nil {
			return v, err
		}
		delete(v.literal, given.Key)
		delete(v.expressions, given.Key)
		if given.HCL {
			v.expressions[given.Key] = given.Value
		} else {
			v.literal[given.Key] = given.Value
		}
	}
	return v, nil
}

// writeVariables puts values of input variables into files that tofu loads by
// itself, last of all such files, so that init, plan and apply see the same and no
// file of the configuration wins over them. Literal values go into a JSON file,
// where tofu takes strings as they are; expressions go into an HCL file.
func (s sandbox) writeVariables(v values) error {
	base, err := lastOf(s.work, "~holdfast", isAutoVariables, func(last string) string { return last + "~holdfast" })
	if err != nil {
		return err
	}
	if len(v.literal) > 0 {
		var text bytes.Buffer
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v.literal); err != nil {
			return err
		}
		if err := writeNew(filepath.Join(s.work, base+".auto.tfvars.json"), text.Bytes()); err != nil {
			return err
		}
	}
	if len(v.expressions) > 0 {
		var text bytes.Buffer
		for _, key := range sortedKeys(v.expressions) {
			fmt.Fprintf(&text, "%s = %s\n", key, v.expressions[key])
		}
		return writeNew(filepath.Join(s.work, base+".auto.tfvars"), text.Bytes())
	}
	return nil
}

// checkExpressions refuses expressions that tofu cannot evaluate: in the run, it would
// quote them to say what is wrong. All at once are as they will be in the run; one by
// one they tell which it is.
func (b binary) checkExpressions(ctx context.Context, box sandbox, expressions map[string]string) error {
	keys := sortedKeys(expressions)
	if len(keys) == 0 || b.evaluates(ctx, box, expressions, keys...) == nil {
		return nil
	}
	for _, key := range keys {
		if exitCode(b.evaluates(ctx, box, expressions, key)) == 1 {
			return fail("The value of variable %s is not a valid HCL expression. It cannot use references and functions.", key)
		}
	}
	return fail("The HCL values of the variables %s could not be evaluated together.", strings.Join(keys, ", "))
}

// evaluates is nil if tofu can evaluate the expressions, each also in parentheses, in
// which it cannot be more than one. It does so in a folder with nothing else, and what it
// prints goes nowhere.
func (b binary) evaluates(ctx context.Context, box sandbox, expressions map[string]string, keys ...string) error {
	dir, err := os.MkdirTemp(box.path, "values-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var declared, plain, enclosed bytes.Buffer
	for i, key := range keys { // not by their keys: some names cannot be declared
		fmt.Fprintf(&declared, "variable \"v%d\" {}\n", i)
		fmt.Fprintf(&plain, "v%d = %s\n", i, expressions[key])
		fmt.Fprintf(&enclosed, "v%d = (\n%s\n)\n", i, expressions[key])
	}
	for name, text := range map[string][]byte{
		"main.tf": declared.Bytes(), "plain.auto.tfvars": plain.Bytes(), "enclosed.auto.tfvars": enclosed.Bytes(),
	} {
		if err := writeNew(filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, b.path, "plan", "-input=false", "-lock=false", "-no-color")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, ownEnvironment(), ownGroup()
	return cmd.Run()
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
