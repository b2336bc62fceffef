package nullprovider

import (
	"context"
	"math/rand/v2"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-run/holdfast/tests/provider/ledger"
)

// nullResource is null_resource: an id and nothing behind it.
type nullResource struct{ ledger *ledger.Ledger }

type resourceModel struct {
	ID       types.String `tfsdk:"id"`
	Triggers types.Map    `tfsdk:"triggers"`
}

func newResource() resource.Resource { return &nullResource{} }

func (*nullResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "null_resource"
}

func (*nullResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"id": schema.StringAttribute{
			Computed:      true,
			PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
		},
		"triggers": schema.MapAttribute{
			ElementType: types.StringType, Optional: true,
			PlanModifiers: []planmodifier.Map{mapplanmodifier.RequiresReplace()},
		},
	}}
}

func (n *nullResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	// There is no data while tofu only validates.
	n.ledger, _ = req.ProviderData.(*ledger.Ledger)
}

func (n *nullResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var planned resourceModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	planned.ID = types.StringValue(strconv.FormatInt(rand.Int64(), 10))
	n.record(ledger.Created, planned.ID, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, planned)...)
	}
}

func (*nullResource) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

// Update is never called, since any change replaces the resource; the framework wants it.
func (*nullResource) Update(_ context.Context, _ resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.Diagnostics.AddError("null_resource was updated in place", "A change of triggers replaces it, so this is a bug of the test provider.")
}

func (n *nullResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var id types.String
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("id"), &id)...)
	n.record(ledger.Deleted, id, &resp.Diagnostics)
}

func (n *nullResource) record(event ledger.Event, id types.String, diags *diag.Diagnostics) {
	if diags.HasError() {
		return
	}
	if err := n.ledger.Record(event, ledger.Object{Type: "null_resource", ID: id.ValueString()}); err != nil {
		diags.AddError("Nothing was done, because the ledger could not be written", err.Error())
	}
}
