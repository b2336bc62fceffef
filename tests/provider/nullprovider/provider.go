package nullprovider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/holdfast-run/holdfast/tests/provider/ledger"
)

// Address is the provider's name in a configuration's required_providers.
const Address = "registry.opentofu.org/hashicorp/null"

type nullProvider struct{}

// New gives the provider for serving.
func New() provider.Provider { return nullProvider{} }

func (nullProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "null"
}

func (nullProvider) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse) {}

// Configure opens the ledger that the environment names: the real provider has no
// settings, so this one can have none either.
func (nullProvider) Configure(_ context.Context, _ provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	l, err := ledger.Open("")
	if err != nil {
		resp.Diagnostics.AddError("No ledger", err.Error())
		return
	}
	resp.ResourceData = l
}

func (nullProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{newResource}
}

func (nullProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{newDataSource}
}
