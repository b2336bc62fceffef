package faultprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-run/holdfast/tests/provider/ledger"
)

// partial makes its object and then reports an error, so tofu keeps it as tainted.
type partial struct{ object }

type partialModel struct {
	ID   types.String `tfsdk:"id"`
	Name types.String `tfsdk:"name"`
	Fail types.Bool   `tfsdk:"fail"`
}

func newPartial() resource.Resource { return &partial{object{kind: "fault_partial"}} }

func (*partial) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = attributes(map[string]schema.Attribute{
		"fail": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(true)},
	})
}

func (p *partial) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var planned partialModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	planned.ID = newID()
	p.record(ledger.Created, planned.ID, planned.Name, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, planned)...)
	if planned.Fail.ValueBool() {
		resp.Diagnostics.AddError("Failed as asked", "The object was made, but it did not become ready.")
	}
}

func (p *partial) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var planned partialModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	p.record(ledger.Updated, planned.ID, planned.Name, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, planned)...)
	}
}
