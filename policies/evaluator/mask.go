package evaluator

import (
	"slices"
	"sort"
	"strings"
)

// A text is a secret by itself, wherever it stands, from this length on. Shorter ones are too
// much like anything else.
const (
	leastEqual  = 6 // bytes, of a value that equals a secret
	leastWithin = 8 // bytes, of a secret that a value contains
	mostWithin  = 500
)

// cleaner takes secrets out of a plan, which it reads twice: first it learns them.
type cleaner struct {
	sensitive []string        // names of input variables
	given     map[string]any  // the input variables of the plan
	secrets   map[string]bool // texts
	within    []string        // those that are looked for inside of other texts, longest first
	knows     bool
}

// note learns the texts in a value that is marked.
func (c *cleaner) note(value any) {
	if c.knows {
		return
	}
	switch v := value.(type) {
	case string:
		if len(v) >= leastEqual {
			c.secrets[v] = true
		}
	case map[string]any:
		for _, inner := range v {
			c.note(inner)
		}
	case []any:
		for _, inner := range v {
			c.note(inner)
		}
	}
}

// learned ends the first reading.
func (c *cleaner) learned() {
	c.knows = true
	for secret := range c.secrets {
		if len(secret) >= leastWithin {
			c.within = append(c.within, secret)
		}
	}
	sort.Slice(c.within, func(i, j int) bool {
		return len(c.within[i]) > len(c.within[j]) || (len(c.within[i]) == len(c.within[j]) && c.within[i] < c.within[j])
	})
	c.within = c.within[:min(len(c.within), mostWithin)]
}

func (c *cleaner) secret(text string) bool {
	return c.secrets[text] || slices.ContainsFunc(c.within, func(secret string) bool { return len(secret) <= len(text) && strings.Contains(text, secret) })
}

// mask removes from value what the mask marks, where true stands for all of it, and what is a
// secret by itself. A mask that does not fit its value removes the value, for then nobody knows
// what it meant. keep is false when nothing of value is left.
func (c *cleaner) mask(value, marks any) (masked any, keep bool) {
	masked, keep = c.masked(value, marks)
	if !keep {
		c.note(value)
		return nil, false
	}
	return c.scrub(masked)
}

func (c *cleaner) masked(value, marks any) (masked any, keep bool) {
	switch m := marks.(type) {
	case nil:
		return value, true
	case bool:
		return value, !m
	case map[string]any:
		object, ok := value.(map[string]any)
		if !ok {
			return value, value == nil || !marked(m)
		}
		for key, mark := range m {
			inner, there := object[key]
			if !there {
				continue
			}
			if left, keep := c.masked(inner, mark); keep {
				object[key] = left
			} else {
				c.note(inner)
				delete(object, key)
			}
		}
		return object, true
	case []any:
		list, ok := value.([]any)
		if !ok || len(m) > len(list) {
			return value, value == nil || !marked(m)
		}
		for i, mark := range m {
			left, keep := c.masked(list[i], mark)
			if !keep {
				c.note(list[i])
				left = nil // the others keep their places
			}
			list[i] = left
		}
		return list, true
	}
	return value, false
}

// scrub removes the texts that are secrets by themselves.
func (c *cleaner) scrub(value any) (left any, keep bool) {
	if !c.knows || len(c.secrets) == 0 {
		return value, true
	}
	switch v := value.(type) {
	case string:
		return v, !c.secret(v)
	case map[string]any:
		for key, inner := range v {
			if left, keep := c.scrub(inner); keep {
				v[key] = left
			} else {
				delete(v, key)
			}
		}
	case []any:
		for i, inner := range v {
			left, keep := c.scrub(inner)
			if !keep {
				left = nil
			}
			v[i] = left
		}
	}
	return value, true
}

// marked tells whether a mask marks anything.
func marked(marks any) bool {
	switch m := marks.(type) {
	case bool:
		return m
	case map[string]any:
		for _, mark := range m {
			if marked(mark) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(m, marked)
	}
	return false
}
