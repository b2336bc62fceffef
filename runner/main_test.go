package runner

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if Enclosed() { // this binary stands for the runner's, which starts itself as tofu
		return
	}
	_ = os.Setenv("HOLDFAST_ESCAPE_TEST", "of the runner") // which no attempt may see
	os.Exit(m.Run())
}
