package scimapi

import (
	"net/http"
	"strings"

	protocol "github.com/elimity-com/scim"
	"github.com/scim2/filter-parser/v2"

	"github.com/holdfast-run/holdfast/scim"
)

// matchOf reads which resources a list is asked for. Only what an index can find is taken.
func matchOf(params protocol.ListRequestParams) (m scim.Match, err error) {
	if params.FilterValidator == nil {
		return m, nil
	}
	if !narrow(&m, params.FilterValidator.GetFilter(), "") {
		return m, invalidFilter()
	}
	return m, nil
}

// narrow adds what the expression selects; false when it cannot be said so. within is the
// attribute that a filter in brackets is about.
func narrow(m *scim.Match, e filter.Expression, within string) bool {
	switch e := e.(type) {
	case *filter.LogicalExpression:
		return e.Operator == filter.AND && narrow(m, e.Left, within) && narrow(m, e.Right, within)
	case *filter.ValuePath:
		return within == "" && narrow(m, e.ValueFilter, strings.ToLower(e.AttributePath.AttributeName))
	case *filter.AttributeExpression:
		text, ok := e.CompareValue.(string)
		name := strings.ToLower(e.AttributePath.AttributeName)
		if within != "" {
			name = within + "." + name
		} else if sub := e.AttributePath.SubAttributeName(); sub != "" {
			name += "." + strings.ToLower(sub)
		}
		field := map[string]**string{
			"id": &m.ID, "username": &m.UserName, "externalid": &m.ExternalID, "displayname": &m.DisplayName, "emails.value": &m.Email, "emails": &m.Email,
		}[name]
		if !ok || e.Operator != filter.EQ || field == nil {
			return false
		}
		if *field != nil && **field != text {
			text = "\x00" // two values at once, which nothing has
		}
		*field = &text
		return true
	}
	return false
}

func pageOf(params protocol.ListRequestParams) scim.Page {
	const farEnough = 1 << 31 // no list is as long
	return scim.Page{Limit: params.Count, Offset: min(params.StartIndex, farEnough) - 1}
}

// shown leaves out the attributes that nobody asked for.
func shown(r *http.Request, attributes protocol.ResourceAttributes) protocol.ResourceAttributes {
	query := r.URL.Query()
	only, without := names(query.Get("attributes")), names(query.Get("excludedAttributes"))
	for name := range attributes {
		lower := strings.ToLower(name)
		if without[lower] || (len(only) > 0 && !only[lower]) {
			delete(attributes, name)
		}
	}
	return attributes
}

// names reads a list with commas. The part of an attribute stands for the whole.
func names(text string) map[string]bool {
	found := map[string]bool{}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		if at := strings.LastIndex(name, ":"); at >= 0 {
			name = name[at+1:]
		}
		name, _, _ = strings.Cut(name, ".")
		if name != "" {
			found[name] = true
		}
	}
	return found
}
