package nullprovider

import (
	"context"
	"math/rand/v2"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// nullDataSource is null_data_source: outputs are inputs.
type nullDataSource struct{}

type dataModel struct {
	ID       types.String `tfsdk:"id"`
	Inputs   types.Map    `tfsdk:"inputs"`
	Outputs  types.Map    `tfsdk:"outputs"`
	Random   types.String `tfsdk:"random"`
	Computed types.String `tfsdk:"has_computed_default"`
}

func newDataSource() datasource.DataSource { return nullDataSource{} }

func (nullDataSource) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "null_data_source"
}

func (nullDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"id":                   schema.StringAttribute{Computed: true},
		"inputs":               schema.MapAttribute{ElementType: types.StringType, Optional: true},
		"outputs":              schema.MapAttribute{ElementType: types.StringType, Computed: true},
		"random":               schema.StringAttribute{Computed: true},
		"has_computed_default": schema.StringAttribute{Optional: true, Computed: true},
	}}
}

func (nullDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var asked dataModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &asked)...)
	if resp.Diagnostics.HasError() {
		return
	}
	asked.ID = types.StringValue("static")
	asked.Outputs = asked.Inputs
	asked.Random = types.StringValue(strconv.FormatInt(rand.Int64(), 10))
	if asked.Computed.IsNull() {
		asked.Computed = types.StringValue("default")
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, asked)...)
}
