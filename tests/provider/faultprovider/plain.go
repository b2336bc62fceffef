package faultprovider

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-run/holdfast/tests/provider/ledger"
)

// plain does what it is told. A file that it observes can change or vanish behind tofu's back.
type plain struct{ object }

type plainModel struct {
	ID       types.String `tfsdk:"id"`
	Name     types.String `tfsdk:"name"`
	Value    types.String `tfsdk:"value"`
	Observes types.String `tfsdk:"observes"`
	Observed types.String `tfsdk:"observed"`
}

func newPlain() resource.Resource { return &plain{object{kind: "fault_plain"}} }

func (*plain) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = attributes(map[string]schema.Attribute{
		"value":    schema.StringAttribute{Optional: true},
		"observes": schema.StringAttribute{Optional: true, Description: "A file whose text stands for the real object."},
		"observed": schema.StringAttribute{Computed: true, Description: "The file's text when last seen."},
	})
}

func (p *plain) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var planned plainModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	planned.ID = newID()
	planned.look(&resp.Diagnostics)
	p.record(ledger.Created, planned.ID, planned.Name, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, planned)...)
	}
}

func (p *plain) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var known plainModel
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if there := known.look(&resp.Diagnostics); !there {
		resp.State.RemoveResource(ctx)
		return
	}
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, known)...)
	}
}

func (p *plain) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var planned plainModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	planned.look(&resp.Diagnostics)
	p.record(ledger.Updated, planned.ID, planned.Name, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, planned)...)
	}
}

// look sets Observed to what the observed file says now, null when none is observed, and
// reports whether the object is there. A file that never was there observes as null.
func (m *plainModel) look(diags *diag.Diagnostics) (there bool) {
	seenBefore := !m.Observed.IsNull() && !m.Observed.IsUnknown()
	m.Observed = types.StringNull()
	if m.Observes.IsNull() {
		return true
	}
	text, err := os.ReadFile(m.Observes.ValueString())
	if errors.Is(err, fs.ErrNotExist) {
		return !seenBefore
	}
	if err != nil {
		diags.AddAttributeError(path.Root("observes"), "The observed file cannot be read", err.Error())
		return true
	}
	m.Observed = types.StringValue(string(text))
	return true
}
