package faultprovider

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// delayMeaning describes an attribute that holds a length of time.
const delayMeaning = `A length of time, such as "1500ms" or "2m".`

// text is a check of a string that is known.
type text struct {
	meaning string
	check   func(string) error
}

func (t text) Description(context.Context) string         { return t.meaning }
func (t text) MarkdownDescription(context.Context) string { return t.meaning }

func (t text) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if err := t.check(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, t.meaning, err.Error())
	}
}

// durations accepts what time.ParseDuration does.
func durations() []validator.String {
	return []validator.String{text{delayMeaning, func(value string) error {
		_, err := time.ParseDuration(value)
		return err
	}}}
}

// oneOf accepts the given words.
func oneOf(words ...string) []validator.String {
	meaning := "One of " + strings.Join(words, ", ") + "."
	return []validator.String{text{meaning, func(value string) error {
		if !slices.Contains(words, value) {
			return fmt.Errorf("%q is none of them", value)
		}
		return nil
	}}}
}

// between accepts numbers from low to high.
type between struct{ low, high int64 }

func (b between) Description(context.Context) string {
	return fmt.Sprintf("From %d to %d.", b.low, b.high)
}
func (b between) MarkdownDescription(ctx context.Context) string { return b.Description(ctx) }

func (b between) ValidateInt64(ctx context.Context, req validator.Int64Request, resp *validator.Int64Response) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if value := req.ConfigValue.ValueInt64(); value < b.low || value > b.high {
		resp.Diagnostics.AddAttributeError(req.Path, b.Description(ctx), fmt.Sprintf("%d is outside.", value))
	}
}
