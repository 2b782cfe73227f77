package linattn

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/sanitize"
	"github.com/seed-1415985d/attn/internal/stop/stoptest"
)

// shortFunctions need no more time for more memory, or are measured by their operations.
const shortFunctions = `NewState State.Len State.Config State.MemoryUse State.Close State.Checkpoint
	State.Fork State.Reset Rule.String Grouping.String`

// TestStopsOfTheWorld measures how long a stop of the world waits for each public function that may
// run long.
func TestStopsOfTheWorld(t *testing.T) {
	if testing.Short() || sanitize.Enabled || !tuned.ISA.SIMD() {
		t.Skip("an emulated CPU has other times, a sanitizer looks at all of an operand at once, and " +
			"Go code may stop anywhere")
	}
	r := rand.New(rand.NewPCG(1, 1))
	pool := attn.NewPool(0)
	stoptest.Check(t, shortFunctions, func(yield func(function, of string, run func() error)) {
		for _, c := range []Config{{Heads: 2, KeyDim: 128, ValueDim: 128, Rule: GatedDelta},
			{Heads: 1, KeyDim: 128, ValueDim: 128, Rule: GatedDelta, ChannelDecay: true},
			{Heads: 1, KeyDim: 2048, ValueDim: 2048, Rule: GatedDelta}} {
			stops(t, r, c, pool, yield)
		}
		x := attn.BHLD(make([]float32, 1<<20), 1, 32, 1<<8, 1<<7)
		yield("Decay", "many channels", func() error {
			return Decay(nil, x, x, make([]float32, 32), nil)
		})
	})
	must(t, pool.Close())
}

func stops(t *testing.T, r *rand.Rand, c Config, p *attn.Pool,
	yield func(function, of string, run func() error)) {
	of, n := name(c), 1<<21/(c.KeyDim*c.ValueDim/64)
	x := randomTokens(t, r, c, n, 1)
	s, dst := newState(t, c), zeros(c.Heads, n, c.ValueDim)
	matrices := zeros(c.Heads, c.KeyDim, c.ValueDim)
	x.whole(t, s)
	must(t, s.Read(matrices))
	yield("State.Append", of, func() error { return x.append(nil, s, dst) })
	yield("State.Append", of+" on a pool", func() error { return x.append(p, s, dst) })
	states, lens := []*State{s, newState(t, c)}, []int{n / 2, n - n/2}
	yield("AppendStates", of, func() error {
		return AppendStates(nil, dst, x.q, x.k, x.v, x.decay, x.beta, states, lens)
	})
	yield("State.Start", of, func() error { s.Reset(); return s.Start(matrices) })
	y := x.slice(0, 21)
	y.whole(t, s)
	last := x.slice(20, 21)
	lastOutput := dst.Slice(20, 21)
	var file bytes.Buffer
	_, err := s.Save(&file)
	must(t, err)
	yield("State.Read", of, func() error { return s.Read(matrices) })
	yield("State.Truncate", of, func() error {
		s.Checkpoint() // Truncate copies to memory that is not new: the system clears pages in one go
		if err := s.Truncate(20); err != nil {
			return err
		}
		return last.append(nil, s, lastOutput)
	})
	yield("State.Save", of, func() error { _, err := s.Save(io.Discard); return err })
	yield("State.Load", of, func() error {
		_, err := s.Load(bytes.NewReader(file.Bytes()))
		return err
	})
}
