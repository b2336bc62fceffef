package scimapi

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	protocol "github.com/elimity-com/scim"
	scimerrors "github.com/elimity-com/scim/errors"
	matching "github.com/elimity-com/scim/filter"
	"github.com/elimity-com/scim/schema"
	"github.com/scim2/filter-parser/v2"
)

// patched carries out the operations, of which the protocol has checked the syntax. The document
// is of no use after an error.
func patched(document protocol.ResourceAttributes, operations []protocol.PatchOperation, core schema.Schema, extensions ...schema.Schema) error {
	p := patching{document: document, core: core, extensions: extensions}
	for _, o := range operations {
		if err := p.apply(o); err != nil {
			return err
		}
	}
	return nil
}

type patching struct {
	document   map[string]any
	core       schema.Schema
	extensions []schema.Schema
}

// apply carries out one operation. Without a path its value says several things, each by the
// name of an attribute or of an extension.
func (p patching) apply(o protocol.PatchOperation) error {
	if o.Path != nil {
		return p.at(o.Op, *o.Path, o.Value)
	}
	values, ok := o.Value.(map[string]any)
	if !ok {
		return scimerrors.ScimErrorInvalidValue
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if inner, ok := values[name].(map[string]any); ok && p.extension(name) != nil {
			for _, member := range slices.Sorted(maps.Keys(inner)) {
				uri := name
				if err := p.at(o.Op, filter.Path{AttributePath: filter.AttributePath{URIPrefix: &uri, AttributeName: member}}, inner[member]); err != nil {
					return err
				}
			}
			continue
		}
		path, err := filter.ParsePath([]byte(name))
		if err != nil {
			return scimerrors.ScimErrorInvalidPath
		}
		if err := p.at(o.Op, path, values[name]); err != nil {
			return err
		}
	}
	return nil
}

func (p patching) extension(id string) *schema.Schema {
	for i := range p.extensions {
		if p.extensions[i].ID == id {
			return &p.extensions[i]
		}
	}
	return nil
}

// at changes what the path is about.
func (p patching) at(op string, path filter.Path, value any) error {
	target, ref := p.document, p.core
	if uri := path.AttributePath.URI(); uri != "" && uri != p.core.ID {
		extension := p.extension(uri)
		if extension == nil {
			return scimerrors.ScimErrorInvalidPath
		}
		inner, ok := p.document[uri].(map[string]any)
		if !ok {
			inner = map[string]any{}
			p.document[uri] = inner
		}
		target, ref = inner, *extension
	}
	name := path.AttributePath.AttributeName
	if strings.EqualFold(name, "externalId") {
		return setOrDelete(target, "externalId", op, value)
	}
	attribute, ok := ref.Attributes.ContainsAttribute(name)
	if !ok {
		return scimerrors.ScimErrorInvalidPath
	}
	part := ""
	if sub := path.AttributePath.SubAttributeName() + path.SubAttributeName(); sub != "" {
		found, ok := attribute.SubAttributes().ContainsAttribute(sub)
		if !ok {
			return scimerrors.ScimErrorInvalidPath
		}
		part = found.Name()
	}
	switch {
	case attribute.MultiValued():
		return changeList(target, attribute, path.ValueExpression, part, op, value)
	case part != "":
		inner, _ := target[attribute.Name()].(map[string]any)
		if inner = maps.Clone(inner); inner == nil {
			inner = map[string]any{}
		}
		target[attribute.Name()] = inner
		return setOrDelete(inner, part, op, value)
	}
	if said, ok := value.(map[string]any); ok && op != protocol.PatchOperationRemove {
		inner, _ := target[attribute.Name()].(map[string]any)
		merged := maps.Clone(inner)
		if merged == nil {
			merged = map[string]any{}
		}
		maps.Copy(merged, said)
		value = merged
	}
	return setOrDelete(target, attribute.Name(), op, value)
}

func setOrDelete(target map[string]any, name, op string, value any) error {
	if op == protocol.PatchOperationRemove {
		delete(target, name)
	} else {
		target[name] = value
	}
	return nil
}

// changeList changes the values of an attribute that has several: those that the expression
// selects, or all; in each its part, or the whole of it.
func changeList(target map[string]any, attribute schema.CoreAttribute, expression filter.Expression, part, op string, value any) error {
	list, _ := target[attribute.Name()].([]any)
	if expression == nil && part == "" {
		target[attribute.Name()] = changedWhole(list, op, value)
		return nil
	}
	var chosen func(any) bool
	if expression == nil {
		chosen = func(any) bool { return true }
	} else {
		validator := matching.NewFilterValidator(expression, schema.Schema{Attributes: matching.MultiValuedFilterAttributes(attribute)})
		chosen = func(one any) bool {
			object, ok := one.(map[string]any)
			return ok && validator.PassesFilter(object) == nil
		}
	}
	changed, hit := make([]any, 0, len(list)), false
	for _, one := range list {
		if !chosen(one) {
			changed = append(changed, one)
			continue
		}
		hit = true
		object, _ := one.(map[string]any)
		switch {
		case part != "":
			object = maps.Clone(object)
			if err := setOrDelete(object, part, op, value); err != nil {
				return err
			}
			changed = append(changed, object)
		case op != protocol.PatchOperationRemove:
			changed = append(changed, value)
		}
	}
	if !hit && op != protocol.PatchOperationRemove {
		made, ok := described(expression)
		if !ok {
			return scimerrors.ScimErrorNoTarget
		}
		if whole, isObject := value.(map[string]any); part == "" && isObject {
			maps.Copy(made, whole)
		} else {
			made[part] = value
		}
		changed = append(changed, made)
	}
	target[attribute.Name()] = changed
	return nil
}

// changedWhole adds values, replaces all, or removes: those that are named, or all.
func changedWhole(list []any, op string, value any) []any {
	values, ok := value.([]any)
	if !ok && value != nil {
		values = []any{value}
	}
	switch {
	case op == protocol.PatchOperationReplace:
		return values
	case op == protocol.PatchOperationAdd:
		added := slices.Clone(list)
		known := indexOf(list)
		for _, one := range values {
			if key, ok := keyOf(one); ok {
				if known[key] {
					continue
				}
				known[key] = true
			} else if slices.ContainsFunc(added, func(had any) bool { return reflect.DeepEqual(had, one) }) {
				continue
			}
			added = append(added, one)
		}
		return added
	case len(values) == 0:
		return nil
	}
	gone := indexOf(values)
	return slices.DeleteFunc(slices.Clone(list), func(one any) bool {
		key, ok := keyOf(one)
		return ok && gone[key]
	})
}

// keyOf is what tells one value from another: its member value, as the protocol has it.
func keyOf(one any) (string, bool) {
	object, _ := one.(map[string]any)
	value, ok := object["value"].(string)
	return value, ok
}

func indexOf(list []any) map[string]bool {
	found := make(map[string]bool, len(list))
	for _, one := range list {
		if key, ok := keyOf(one); ok {
			found[key] = true
		}
	}
	return found
}

// described makes the value that an expression such as type eq "work" describes: identity
// providers set an address before there is one.
func described(e filter.Expression) (map[string]any, bool) {
	switch e := e.(type) {
	case *filter.AttributeExpression:
		if e.Operator == filter.EQ {
			return map[string]any{e.AttributePath.AttributeName: e.CompareValue}, true
		}
	case *filter.LogicalExpression:
		left, ok := described(e.Left)
		right, also := described(e.Right)
		if e.Operator == filter.AND && ok && also {
			maps.Copy(left, right)
			return left, true
		}
	}
	return nil, false
}
