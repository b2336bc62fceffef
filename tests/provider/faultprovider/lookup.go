package faultprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-run/holdfast/tests/provider/ledger"
)

// lookup is read while tofu plans, so it makes plans slow or failing.
type lookup struct{ ledger *ledger.Ledger }

type lookupModel struct {
	Value  types.String `tfsdk:"value"`
	Delay  types.String `tfsdk:"delay"`
	Fail   types.String `tfsdk:"fail"`
	Result types.String `tfsdk:"result"`
}

func newLookup() datasource.DataSource { return &lookup{} }

func (*lookup) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "fault_lookup"
}

func (*lookup) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"value":  schema.StringAttribute{Optional: true},
		"delay":  schema.StringAttribute{Optional: true, Description: delayMeaning, Validators: durations()},
		"fail":   schema.StringAttribute{Optional: true, Description: "Fail with this text."},
		"result": schema.StringAttribute{Computed: true},
	}}
}

func (l *lookup) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	l.ledger, _ = req.ProviderData.(*ledger.Ledger)
}

func (l *lookup) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var asked lookupModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &asked)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := l.ledger.Record(ledger.LookedUp, ledger.Object{Type: "fault_lookup", Name: asked.Value.ValueString()}); err != nil {
		resp.Diagnostics.AddError("The ledger could not be written", err.Error())
		return
	}
	if err := pause(ctx, asked.Delay); err != nil {
		resp.Diagnostics.AddError("Interrupted", "The lookup was interrupted while it waited.")
		return
	}
	if !asked.Fail.IsNull() {
		resp.Diagnostics.AddError("Failed as asked", asked.Fail.ValueString())
		return
	}
	asked.Result = asked.Value
	resp.Diagnostics.Append(resp.State.Set(ctx, asked)...)
}
