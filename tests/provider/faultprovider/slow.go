package faultprovider

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-run/holdfast/tests/provider/ledger"
)

// gatePoll is how often a waiting change looks whether its gate is open.
const gatePoll = 20 * time.Millisecond

// slow takes its time over each operation. What has begun stands in the ledger at once.
type slow struct{ object }

type slowModel struct {
	ID               types.String `tfsdk:"id"`
	Name             types.String `tfsdk:"name"`
	Value            types.String `tfsdk:"value"`
	CreateDelay      types.String `tfsdk:"create_delay"`
	ReadDelay        types.String `tfsdk:"read_delay"`
	UpdateDelay      types.String `tfsdk:"update_delay"`
	DeleteDelay      types.String `tfsdk:"delete_delay"`
	Gate             types.String `tfsdk:"gate"`
	IgnoreInterrupts types.Bool   `tfsdk:"ignore_interrupts"`
}

func newSlow() resource.Resource { return &slow{object{kind: "fault_slow"}} }

func (*slow) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	delay := schema.StringAttribute{Optional: true, Description: delayMeaning, Validators: durations()}
	resp.Schema = attributes(map[string]schema.Attribute{
		"value":             schema.StringAttribute{Optional: true},
		"create_delay":      delay,
		"read_delay":        delay,
		"update_delay":      delay,
		"delete_delay":      delay,
		"gate":              schema.StringAttribute{Optional: true, Description: "A file without which nothing is created, updated or deleted."},
		"ignore_interrupts": schema.BoolAttribute{Optional: true, Description: "Wait to the end, whatever tofu asks."},
	})
}

func (s *slow) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var planned slowModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	planned.ID = newID()
	s.record(ledger.Creating, planned.ID, planned.Name, &resp.Diagnostics)
	s.wait(ctx, planned, planned.CreateDelay, planned.Gate, &resp.Diagnostics)
	s.record(ledger.Created, planned.ID, planned.Name, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, planned)...)
	}
}

func (s *slow) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var known slowModel
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	s.record(ledger.Reading, known.ID, known.Name, &resp.Diagnostics)
	s.wait(ctx, known, known.ReadDelay, types.StringNull(), &resp.Diagnostics)
}

func (s *slow) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var planned slowModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	s.record(ledger.Updating, planned.ID, planned.Name, &resp.Diagnostics)
	s.wait(ctx, planned, planned.UpdateDelay, planned.Gate, &resp.Diagnostics)
	s.record(ledger.Updated, planned.ID, planned.Name, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, planned)...)
	}
}

func (s *slow) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var known slowModel
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	s.record(ledger.Deleting, known.ID, known.Name, &resp.Diagnostics)
	s.wait(ctx, known, known.DeleteDelay, known.Gate, &resp.Diagnostics)
	s.record(ledger.Deleted, known.ID, known.Name, &resp.Diagnostics)
}

// wait takes the given time over an operation on m, then waits for the gate. An
// interrupt makes it an error, unless m ignores interrupts.
func (s *slow) wait(ctx context.Context, m slowModel, delay, gate types.String, diags *diag.Diagnostics) {
	if diags.HasError() {
		return
	}
	if m.IgnoreInterrupts.ValueBool() {
		ctx = context.WithoutCancel(ctx)
	}
	err := pause(ctx, delay)
	if err == nil && !gate.IsNull() {
		err = awaitFile(ctx, gate.ValueString())
	}
	if ctx.Err() != nil {
		s.record(ledger.Interrupted, m.ID, m.Name, diags)
		diags.AddError("Interrupted", "The operation was interrupted while it waited, so nothing was changed.")
	} else if err != nil {
		diags.AddError("The wait failed", err.Error())
	}
}

// pause sleeps for delay, none when null. It gives ctx's error when that ends first.
func pause(ctx context.Context, delay types.String) error {
	if delay.IsNull() {
		return nil
	}
	length, err := time.ParseDuration(delay.ValueString())
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}

// awaitFile returns when the file exists, or with ctx's error when that ends first.
func awaitFile(ctx context.Context, file string) error {
	tick := time.NewTicker(gatePoll)
	defer tick.Stop()
	for {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
