package faultprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-run/holdfast/tests/provider/ledger"
)

// Address is the provider's name in a configuration's required_providers.
const Address = "registry.opentofu.org/holdfast-run/fault"

type faultProvider struct{}

// New gives the provider for serving.
func New() provider.Provider { return faultProvider{} }

func (faultProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "fault"
}

func (faultProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		Attributes: map[string]schema.Attribute{
			"ledger": schema.StringAttribute{Optional: true, Description: "File that gets a line for each object made, changed or deleted."},
		},
	}
}

func (faultProvider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var file types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("ledger"), &file)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if file.IsUnknown() {
		resp.Diagnostics.AddAttributeError(path.Root("ledger"), "The ledger's file is not known yet",
			"Name it by a constant or a variable, not by the attribute of a resource.")
		return
	}
	l, err := ledger.Open(file.ValueString())
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("ledger"), "No ledger", err.Error())
		return
	}
	resp.ResourceData = l
	resp.DataSourceData = l
}

func (faultProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{newPlain, newSlow, newNth, newPartial, newCrash, newHuge}
}

func (faultProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{newLookup}
}
