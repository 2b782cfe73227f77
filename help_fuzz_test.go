package attn

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/tuning"
)

// The fuzzer's bytes are spent as random numbers: first on sizes, strides and
// kinds of values, then on the values themselves.

// seedInputs makes the normal test run try some cases of every target.
func seedInputs(f *testing.F) {
	r := random(f.Name())
	f.Add([]byte{})
	for _, n := range []int{8, 32, 64, 256} {
		f.Add(anyBytes(r, n))
	}
	f.Add(make([]byte, 64))
}

func anyBytes(r *rand.Rand, n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// fuzzTrials runs f on trials that spend the fuzzer's bytes, the same with each
// implementation that is compared with the generic one.
func fuzzTrials(f *testing.F, run func(t *testing.T, c *trial)) {
	seedInputs(f)
	c := newTrial(f, nil)
	c.stock = newStock()
	compared := slices.DeleteFunc(implementations(), func(i tuning.ISA) bool {
		return i == tuning.Generic && chosen.ISA != tuning.Generic
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		defer func() { tuned = chosen }()
		useTuning(t, with16Lanes(tuned))
		for _, tuned.ISA = range compared {
			c.Rand = randomFrom(data)
			run(t, c)
		}
	})
}

// fuzzPlays runs f on plays of many steps that spend the fuzzer's bytes, each with one
// implementation, drawn like everything else. The normal test run plays often, since one play takes
// few of the steps that there are.
func fuzzPlays(f *testing.F, run func(t *testing.T, c *trial)) {
	seedInputs(f)
	r := random(f.Name() + ", plays")
	for range 300 {
		f.Add(anyBytes(r, 64))
	}
	c := newTrial(f, nil)
	c.stock = newStock()
	all := implementations()
	f.Fuzz(func(t *testing.T, data []byte) {
		defer func() { tuned = chosen }()
		useTuning(t, with16Lanes(tuned))
		c.Rand = randomFrom(data)
		tuned.ISA = all[c.IntN(len(all))]
		run(t, c)
	})
}
