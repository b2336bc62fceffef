package faultprovider

import (
	"context"
	"math/rand/v2"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-run/holdfast/tests/provider/ledger"
)

// hugeLimit is the largest content in bytes. Twice it, old and new in one message, still
// passes between tofu and a provider.
const hugeLimit = 100_000_000

// letters are what content is made of: 64, all of which JSON writes as they are.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// huge has an attribute of a given size.
type huge struct{ object }

type hugeModel struct {
	ID      types.String `tfsdk:"id"`
	Name    types.String `tfsdk:"name"`
	Size    types.Int64  `tfsdk:"size"`
	Random  types.Bool   `tfsdk:"random"`
	Content types.String `tfsdk:"content"`
}

func newHuge() resource.Resource { return &huge{object{kind: "fault_huge"}} }

func (*huge) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = attributes(map[string]schema.Attribute{
		"size": schema.Int64Attribute{
			Required: true, Description: "Bytes of content.",
			Validators:    []validator.Int64{between{0, hugeLimit}},
			PlanModifiers: []planmodifier.Int64{int64planmodifier.RequiresReplace()},
		},
		"random": schema.BoolAttribute{
			Optional: true, Description: "Content that does not compress.",
			PlanModifiers: []planmodifier.Bool{boolplanmodifier.RequiresReplace()},
		},
		"content": schema.StringAttribute{
			Computed:      true,
			PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
		},
	})
}

func (h *huge) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var planned hugeModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	planned.ID = newID()
	planned.Content = types.StringValue(content(int(planned.Size.ValueInt64()), planned.Random.ValueBool()))
	h.record(ledger.Created, planned.ID, planned.Name, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, planned)...)
	}
}

func (h *huge) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var planned hugeModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	h.record(ledger.Updated, planned.ID, planned.Name, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, planned)...)
	}
}

func content(size int, random bool) string {
	if !random {
		return strings.Repeat(letters, size/len(letters)+1)[:size]
	}
	text := make([]byte, size)
	for i := range text {
		text[i] = letters[rand.IntN(len(letters))]
	}
	return string(text)
}
