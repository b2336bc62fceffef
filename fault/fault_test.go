package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-run/holdfast/fault"
)

func TestKindSurvivesWrapping(t *testing.T) {
	err := fmt.Errorf("outer: %w", fault.New(fault.Conflict, "stale_serial", "serial %d", 4).Because(errors.New("cause")))
	assert.Equal(t, fault.Conflict, fault.KindOf(err))
	assert.True(t, fault.Is(err, fault.Conflict))
	assert.False(t, fault.Is(err, fault.Locked))
	assert.True(t, fault.HasCode(err, "stale_serial"))
	assert.Equal(t, "outer: serial 4: cause", err.Error())
}

func TestUnclassifiedIsInternal(t *testing.T) {
	assert.Equal(t, fault.Internal, fault.KindOf(errors.New("boom")))
	assert.False(t, fault.Is(errors.New("boom"), fault.Internal), "only a classified error is of a kind")
}

func TestEveryKindHasAName(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range fault.Kinds() {
		assert.NotEmpty(t, k.String())
		assert.False(t, seen[k.String()])
		seen[k.String()] = true
	}
	assert.Len(t, seen, 13)
}

func TestAtAndBecauseCopy(t *testing.T) {
	base := fault.New(fault.Invalid, "x", "y")
	at := base.At("/data")
	assert.Empty(t, base.Pointer)
	assert.Equal(t, "/data", at.Pointer)
}

func TestWithCopies(t *testing.T) {
	base := fault.New(fault.Forbidden, "x", "y").With("max-age", 900)
	more := base.With("other", "z")
	assert.Equal(t, map[string]any{"max-age": 900}, base.Meta)
	assert.Equal(t, map[string]any{"max-age": 900, "other": "z"}, more.Meta)
}

func TestAPanicIsCaught(t *testing.T) {
	panics := func(what any) (err error) {
		defer fault.Caught(&err)
		if what != nil {
			panic(what)
		}
		return errors.New("of its own")
	}
	assert.ErrorContains(t, panics("boom"), "panic: boom")
	assert.ErrorContains(t, panics("boom"), "TestAPanicIsCaught", "where it was")
	assert.Equal(t, fault.Internal, fault.KindOf(panics("boom")))
	assert.EqualError(t, panics(nil), "of its own")
}
