package faultprovider

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-run/holdfast/tests/provider/ledger"
)

// nth fails to be created once, when the creates counted in a file reach a number. The
// file outlives the provider, so the same create succeeds in the next apply.
type nth struct{ object }

type nthModel struct {
	ID      types.String `tfsdk:"id"`
	Name    types.String `tfsdk:"name"`
	Counter types.String `tfsdk:"counter"`
	FailAt  types.Int64  `tfsdk:"fail_at"`
}

func newNth() resource.Resource { return &nth{object{kind: "fault_nth"}} }

func (*nth) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = attributes(map[string]schema.Attribute{
		"counter": schema.StringAttribute{Required: true, Description: "A file that counts creates, also those of other resources that name it."},
		"fail_at": schema.Int64Attribute{Required: true, Description: "The create that fails; the first is 1."},
	})
}

func (n *nth) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var planned nthModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	count, err := countUp(planned.Counter.ValueString())
	if err != nil {
		resp.Diagnostics.AddError("The creates cannot be counted", err.Error())
		return
	}
	if count == planned.FailAt.ValueInt64() {
		resp.Diagnostics.AddError("Failed as asked", fmt.Sprintf("This was create number %d; nothing was made.", count))
		return
	}
	planned.ID = newID()
	n.record(ledger.Created, planned.ID, planned.Name, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, planned)...)
	}
}

func (n *nth) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var planned nthModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	n.record(ledger.Updated, planned.ID, planned.Name, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, planned)...)
	}
}

// countUp adds one to the number in the file, which is none at first, and gives the
// result. The lock keeps the count right when two processes share the file.
func countUp(file string) (int64, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return 0, fmt.Errorf("lock %s: %w", file, err)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return 0, err
	}
	var count int64
	if said := strings.TrimSpace(string(text)); said != "" {
		if count, err = strconv.ParseInt(said, 10, 64); err != nil {
			return 0, fmt.Errorf("%s holds no number: %w", file, err)
		}
	}
	count++
	_, err = f.WriteAt([]byte(strconv.FormatInt(count, 10)+"\n"), 0)
	return count, err
}
