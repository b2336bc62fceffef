package devstack

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhatPostgreSQLKeepsInMemory(t *testing.T) {
	for memory, want := range map[uint64]uint64{0: 128 << 20, 512 << 20: 128 << 20, 8 << 30: 1 << 30, 24 << 30: 2 << 30} {
		assert.Equal(t, want, buffers(memory), "with %d MB", memory>>20)
	}
	assert.Greater(t, memory(), uint64(64<<20), "this machine has more")
}
