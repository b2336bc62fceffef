package storetest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-run/holdfast/artifacts/storetest"
	"github.com/holdfast-run/holdfast/fault"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	storetest.Contract(t, storetest.NewMemory())
}

func TestMemoryDown(t *testing.T) {
	m := storetest.NewMemory()
	m.SetDown(true)
	assert.True(t, fault.Is(m.Put(t.Context(), "k", strings.NewReader("x")), fault.Unavailable))
	m.SetDown(false)
	assert.NoError(t, m.Put(t.Context(), "k", strings.NewReader("x")))
	assert.Equal(t, []string{"k"}, m.Keys())
}
