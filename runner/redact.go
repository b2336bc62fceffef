package runner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// change is what a plan would do to one resource or output, as far as it matters
// here. All of its parts, known or not, stay in the order of their names.
type change map[string]json.RawMessage

// redact takes sensitive values out of a change. What a client draws from it stays the
// same: which values there are, whether they are known and whether they change.
//
// A sensitive string or number becomes the number of its appearance at its place in the
// change, so that equal values stay equal and others stay different. Of a sensitive map
// or list nothing stays but that it is one, because names and counts tell something too;
// where it changes, it is called unknown until the apply, which clients draw as a change.
func (c change) redact() error {
	if !mentions(c["before_sensitive"]) && !mentions(c["after_sensitive"]) {
		return nil
	}
	var before, after, beforeSensitive, afterSensitive, unknown any
	for name, into := range map[string]*any{
		"before": &before, "after": &after, "before_sensitive": &beforeSensitive, "after_sensitive": &afterSensitive, "after_unknown": &unknown,
	} {
		if raw, ok := c[name]; ok {
			numbers := json.NewDecoder(bytes.NewReader(raw))
			numbers.UseNumber()
			if err := numbers.Decode(into); err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
		}
	}
	r := redaction{seen: map[string]map[string]int{}}
	before, after, unknown = r.pair("", before, after, beforeSensitive, afterSensitive, unknown)
	for name, value := range map[string]any{"before": before, "after": after, "after_unknown": unknown} {
		if _, ok := c[name]; !ok {
			continue
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return err
		}
		c[name] = raw
	}
	return nil
}

// mentions says whether anything at all is sensitive.
func mentions(marks json.RawMessage) bool { return bytes.Contains(marks, []byte("true")) }

// redaction goes through one change.
type redaction struct {
	seen map[string]map[string]int // by place, then by value: the number of its appearance
}

// pair redacts what stands at one place before and after. Inside a list there are no
// places: an element may have moved, so each side goes by its own marks.
func (r redaction) pair(place string, before, after, beforeMarks, afterMarks, unknown any) (any, any, any) {
	if beforeMarks == true || afterMarks == true {
		changed := before != nil && after != nil && (isContainer(before) || isContainer(after)) && !equalJSON(before, after)
		return r.hide(place, before), r.hide(place, after), changed || anyTrue(unknown)
	}
	beforeMap, okBefore := before.(map[string]any)
	afterMap, okAfter := after.(map[string]any)
	if !okBefore && !okAfter {
		return r.side(place, before, beforeMarks), r.side(place, after, afterMarks), unknown
	}
	if !okBefore {
		before = r.side(place, before, beforeMarks)
	}
	if !okAfter {
		after = r.side(place, after, afterMarks)
	}
	beforeEach, _ := beforeMarks.(map[string]any)
	afterEach, _ := afterMarks.(map[string]any)
	unknownEach, _ := unknown.(map[string]any)
	names := map[string]bool{}
	for _, m := range []map[string]any{beforeMap, afterMap, unknownEach} {
		for name := range m {
			names[name] = true
		}
	}
	for name := range names {
		b, a, u := r.pair(place+"."+name, beforeMap[name], afterMap[name], beforeEach[name], afterEach[name], unknownEach[name])
		replace(beforeMap, name, b)
		replace(afterMap, name, a)
		if _, was := unknownEach[name]; !was && (u == nil || u == false) {
			continue
		}
		if unknownEach == nil {
			unknownEach = map[string]any{}
			unknown = unknownEach
		}
		unknownEach[name] = u
	}
	return before, after, unknown
}

func replace(m map[string]any, name string, value any) {
	if _, ok := m[name]; ok {
		m[name] = value
	}
}

// side redacts one side of a change by its own marks.
func (r redaction) side(place string, value, marks any) any {
	if marks == true {
		return r.hide(place, value)
	}
	switch v := value.(type) {
	case map[string]any:
		each, _ := marks.(map[string]any)
		for name := range v {
			v[name] = r.side(place+"."+name, v[name], each[name])
		}
	case []any:
		each, _ := marks.([]any)
		for i := range v {
			if i < len(each) {
				v[i] = r.side(place+"[]", v[i], each[i])
			}
		}
	}
	return value
}

// hide gives what stands in the place of a sensitive value. It is of the same sort: a
// client that was asked to show sensitive values takes the types of a schema for granted.
func (r redaction) hide(place string, value any) any {
	switch v := value.(type) {
	case nil:
		return nil
	case map[string]any:
		return map[string]any{}
	case []any:
		if len(v) == 0 {
			return v
		}
		return []any{r.hide(place+"[]", v[0])}
	case string:
		if v == "" {
			return v // clients take it for no value at all
		}
		return fmt.Sprintf("(sensitive value %d)", r.number(place, "s"+v))
	case json.Number:
		return r.number(place, "n"+v.String())
	default: // a boolean
		return r.number(place, fmt.Sprint(v)) > 1
	}
}

func (r redaction) number(place, value string) int {
	at := r.seen[place]
	if at == nil {
		at = map[string]int{}
		r.seen[place] = at
	}
	if at[value] == 0 {
		at[value] = len(at) + 1
	}
	return at[value]
}

func isContainer(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

func equalJSON(a, b any) bool {
	one, errA := json.Marshal(a)
	other, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(one, other)
}

// anyTrue says whether anything inside is true.
func anyTrue(marks any) bool {
	raw, err := json.Marshal(marks)
	return err == nil && strings.Contains(string(raw), "true")
}
