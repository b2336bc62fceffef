package faultprovider

import (
	"context"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-run/holdfast/tests/provider/ledger"
)

// crash does its work and then ends the provider's process before tofu hears of it.
type crash struct{ object }

type crashModel struct {
	ID    types.String `tfsdk:"id"`
	Name  types.String `tfsdk:"name"`
	Value types.String `tfsdk:"value"`
	On    types.String `tfsdk:"on"`
}

func newCrash() resource.Resource { return &crash{object{kind: "fault_crash"}} }

func (*crash) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = attributes(map[string]schema.Attribute{
		"value": schema.StringAttribute{Optional: true},
		"on": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString("create"),
			Validators:  oneOf("create", "update", "delete", "never"),
			Description: "The operation that ends in a crash. A deletion goes by what the state says.",
		},
	})
}

func (c *crash) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var planned crashModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	planned.ID = newID()
	c.record(ledger.Created, planned.ID, planned.Name, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	crashOn("create", planned.On)
	resp.Diagnostics.Append(resp.State.Set(ctx, planned)...)
}

func (c *crash) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var planned crashModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	c.record(ledger.Updated, planned.ID, planned.Name, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	crashOn("update", planned.On)
	resp.Diagnostics.Append(resp.State.Set(ctx, planned)...)
}

func (c *crash) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var on types.String
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("on"), &on)...)
	c.object.Delete(ctx, req, resp)
	if !resp.Diagnostics.HasError() {
		crashOn("delete", on)
	}
}

// crashOn ends the process without a word when it is the operation that is to crash.
func crashOn(operation string, on types.String) {
	if on.ValueString() == operation {
		os.Exit(1)
	}
}
