package faultprovider

import (
	"context"
	"crypto/rand"
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-run/holdfast/tests/provider/ledger"
)

// object is what the resource types have in common: a name, an id, the ledger, reading
// that changes nothing, deleting, and importing by id. Each type embeds it and adds its fault.
type object struct {
	kind   string // resource type, such as "fault_plain"
	ledger *ledger.Ledger
}

func (o *object) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = o.kind
}

func (o *object) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	// There is no data while tofu only validates.
	o.ledger, _ = req.ProviderData.(*ledger.Ledger)
}

func (o *object) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

func (o *object) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	id, name := identity(ctx, req.State, &resp.Diagnostics)
	o.record(ledger.Deleted, id, name, &resp.Diagnostics)
}

func (o *object) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, path.Root("id"), req, resp)
}

// record writes to the ledger what happened to the object: for "created", "updated" and
// "deleted" the entry is the deed.
func (o *object) record(event ledger.Event, id, name types.String, diags *diag.Diagnostics) {
	if diags.HasError() {
		return
	}
	err := o.ledger.Record(event, ledger.Object{Type: o.kind, ID: id.ValueString(), Name: name.ValueString()})
	if err != nil {
		diags.AddError("Nothing was done, because the ledger could not be written", err.Error())
	}
}

// identity reads id and name from a state.
func identity(ctx context.Context, state tfsdk.State, diags *diag.Diagnostics) (id, name types.String) {
	diags.Append(state.GetAttribute(ctx, path.Root("id"), &id)...)
	diags.Append(state.GetAttribute(ctx, path.Root("name"), &name)...)
	return id, name
}

// newID gives an object an id of its own.
func newID() types.String {
	return types.StringValue("obj-" + strings.ToLower(rand.Text()))
}

// attributes adds id and name to what a resource type has of its own.
func attributes(own map[string]schema.Attribute) schema.Schema {
	all := map[string]schema.Attribute{
		"id": schema.StringAttribute{
			Computed:      true,
			PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
		},
		"name": schema.StringAttribute{Optional: true, Description: "Stands in the ledger beside the id."},
	}
	maps.Copy(all, own)
	return schema.Schema{Attributes: all}
}
