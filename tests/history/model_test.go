package history

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
)

// value is a workspace's current state: its serial and the mark of who wrote it. The zero
// value is a workspace without state.
type value struct {
	serial int
	mark   string
}

// input is what an operation asked for: a write of new, or a read.
type input struct {
	workspace string
	write     bool
	new       value
}

// output is what was answered: the outcome of a write, or what a read saw.
type output struct {
	outcome outcome
	seen    value
}

type outcome int

const (
	written outcome = iota // acknowledged
	refused                // 409: nothing was changed by it
	unknown                // no answer came
)

// model is a register that takes a write only when its serial is higher (amendment 15).
func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
			byWorkspace := map[string][]porcupine.Operation{}
			for _, o := range all {
				w := o.Input.(input).workspace
				byWorkspace[w] = append(byWorkspace[w], o)
			}
			var parts [][]porcupine.Operation
			for _, part := range byWorkspace {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() []any { return []any{value{}} },
		Step: func(state, in, out any) []any {
			now, asked, answer := state.(value), in.(input), out.(output)
			switch {
			case !asked.write && answer.seen == now:
				return []any{now}
			case !asked.write:
				return nil
			case answer.outcome == refused:
				return []any{now}
			}
			higher := now == value{} || asked.new.serial > now.serial
			switch {
			case answer.outcome == written && higher:
				return []any{asked.new}
			case answer.outcome == unknown && higher:
				return []any{asked.new, now}
			case answer.outcome == unknown:
				return []any{now}
			}
			return nil
		},
	}
	return m.ToModel()
}

func op(from, to int64, in input, out output) porcupine.Operation {
	return porcupine.Operation{Call: from, Return: to, Input: in, Output: out}
}

func TestTheModelKnowsALostUpdate(t *testing.T) {
	write := func(serial int, mark string) input {
		return input{"w", true, value{serial, mark}}
	}
	read := input{workspace: "w"}
	saw := func(serial int, mark string) output { return output{seen: value{serial, mark}} }
	ok, no, lost := output{outcome: written}, output{outcome: refused}, output{outcome: unknown}
	for name, c := range map[string]struct {
		linear  bool
		history []porcupine.Operation
	}{
		"one after the other":               {true, []porcupine.Operation{op(0, 1, write(1, "a"), ok), op(2, 3, read, saw(1, "a")), op(4, 5, write(2, "b"), ok), op(6, 7, read, saw(2, "b"))}},
		"the refused one changes nothing":   {true, []porcupine.Operation{op(0, 9, write(1, "a"), ok), op(0, 9, write(1, "b"), no), op(10, 11, read, saw(1, "a"))}},
		"an unknown one may have happened":  {true, []porcupine.Operation{op(0, 99, write(1, "a"), lost), op(2, 3, read, saw(1, "a"))}},
		"or may not":                        {true, []porcupine.Operation{op(0, 99, write(1, "a"), lost), op(2, 3, write(1, "b"), ok), op(4, 5, read, saw(1, "b"))}},
		"an acknowledged write is gone":     {false, []porcupine.Operation{op(0, 1, write(1, "a"), ok), op(2, 3, read, output{})}},
		"two have won the same serial":      {false, []porcupine.Operation{op(0, 9, write(1, "a"), ok), op(0, 9, write(1, "b"), ok)}},
		"the current one goes back":         {false, []porcupine.Operation{op(0, 1, write(1, "a"), ok), op(2, 3, write(2, "b"), ok), op(4, 5, read, saw(1, "a"))}},
		"a refused one is current":          {false, []porcupine.Operation{op(0, 9, write(1, "a"), no), op(10, 11, read, saw(1, "a"))}},
		"a lower serial was acknowledged":   {false, []porcupine.Operation{op(0, 1, write(5, "a"), ok), op(2, 3, write(4, "b"), ok)}},
		"a reader sees it, a later one not": {false, []porcupine.Operation{op(0, 99, write(1, "a"), lost), op(2, 3, read, saw(1, "a")), op(4, 5, read, output{})}},
	} {
		assert.Equal(t, c.linear, porcupine.CheckOperations(model(), c.history), name)
	}
}
