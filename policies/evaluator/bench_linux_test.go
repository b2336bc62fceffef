package evaluator

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// planOf is a plan of about this many bytes: resources with tags, nested blocks and a secret each.
func planOf(size int) string {
	var b strings.Builder
	b.WriteString(`{"format_version":"1.2","resource_changes":[`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"address":"aws_instance.a[%d]","mode":"managed","type":"aws_instance","name":"a","index":%d,"provider_name":"registry.opentofu.org/hashicorp/aws","change":{"actions":["create"],"before":null,
			"after":{"ami":"ami-%d","tags":{"owner":"ops","name":"n%d"},"password":"S3CRET-%d","ebs":[{"size":%d,"kind":"gp3","zone":"eu-central-1a"}],"user_data":"%s"},"after_sensitive":{"password":true},"after_unknown":{"id":true}}}`,
			i, i, i, i, i%97, i, strings.Repeat("x", 200))
	}
	b.WriteString(`]}`)
	return b.String()
}

// BenchmarkAPlan strips and judges plans by the examples, each in a policy-runner of its own. MiB is the
// most that it held.
func BenchmarkAPlan(b *testing.B) {
	bundle := examples(b)
	for _, size := range []int{1 << 20, 10 << 20, 50 << 20} {
		plan := planOf(size)
		var derivative []byte
		limits := Limits{Memory: 1 << 30, Time: time.Minute, Budget: 30 * time.Second}
		run := func(b *testing.B, r Request, body io.Reader) []byte {
			cmd := exec.Command("/proc/self/exe", Command)
			cmd.Env = []string{}
			var out, errs bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = io.MultiReader(strings.NewReader(requestOf(b, r)), body), &out, &errs
			require.NoError(b, cmd.Run(), errs.String())
			b.ReportMetric(float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024, "MiB")
			return out.Bytes()
		}
		b.Run(fmt.Sprintf("strip-%dMB", size>>20), func(b *testing.B) {
			for range b.N {
				derivative = run(b, Request{Mode: Derive, Limits: limits}, io.MultiReader(strings.NewReader(plan), strings.NewReader(plan)))
			}
		})
		b.Run(fmt.Sprintf("judge-%dMB", size>>20), func(b *testing.B) {
			for range b.N {
				out := run(b, Request{Mode: Evaluate, Bundle: &bundle, Limits: limits}, bytes.NewReader(derivative))
				require.NotContains(b, string(out), `"errored"`)
			}
		})
	}
}
