package attn

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/guard"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// sameBits is equality of the numeric contract: any NaN equals any other.
func sameBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// firstDifference returns the index of the first element whose bits differ, −1 if none.
func firstDifference(a, b []float32) int {
	if bytesOf(a[:len(b)]) == bytesOf(b) {
		return -1 // as nearly always, and far faster than the loop
	}
	for i := range b {
		if !sameBits(a[i], b[i]) {
			return i
		}
	}
	return -1
}

// bytesOf is the memory of x.
func bytesOf(x []float32) string {
	return unsafe.String((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// random returns the same generator for the same name in every run.
func random(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(1, h.Sum64()))
}

// randomFrom returns a generator that spends the fuzzer's bytes first, so that
// the fuzzer decides on shapes and values, and goes on deterministically.
func randomFrom(data []byte) *rand.Rand {
	return rand.New(&byteSource{data, rand.NewPCG(2, uint64(crc32.ChecksumIEEE(data)))})
}

type byteSource struct {
	data []byte
	more *rand.PCG
}

func (s *byteSource) Uint64() uint64 {
	if len(s.data) < 8 {
		return s.more.Uint64()
	}
	x := binary.LittleEndian.Uint64(s.data)
	s.data = s.data[8:]
	return x
}

// distribution is a kind of float32 inputs.
type distribution int

const (
	normal distribution = iota // what models compute with
	// normal with zeros, infinities, NaN, subnormals and extremes among them
	special
	zeroes  // nothing but zeros of both signs
	huge    // around ±1e30: products overflow
	tiny    // subnormal
	coarse  // few different values: ties everywhere
	anyBits // every float32 there is
	distributions
)

var specials = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1,
	float32(math.Inf(1)), float32(math.Inf(-1)),
	float32(math.NaN()), math.Float32frombits(0xffc00000), math.Float32frombits(0x7f800001),
	math.Float32frombits(0xffbfffff),
	math.Float32frombits(1), math.Float32frombits(0x80000001), math.Float32frombits(0x007fffff),
	math.Float32frombits(0x00800000),
	math.MaxFloat32, -math.MaxFloat32, 1e30, -1e30, 88.7, -87.3, -87.4, -103.9,
}

func (d distribution) draw(r *rand.Rand) float32 {
	switch d {
	case special:
		if r.IntN(16) == 0 {
			return specials[r.IntN(len(specials))]
		}
	case zeroes:
		return float32(math.Copysign(0, float64(r.IntN(2))-0.5))
	case huge:
		return float32(r.NormFloat64() * 1e30)
	case tiny:
		return math.Float32frombits(r.Uint32() & (1<<31 | 1<<23 - 1))
	case coarse:
		return float32(r.IntN(9)-4) / 4
	case anyBits:
		return math.Float32frombits(r.Uint32())
	}
	return float32(r.NormFloat64())
}

func (d distribution) fill(r *rand.Rand, x []float32) {
	for i := range x {
		x[i] = d.draw(r)
	}
}

// trial is one call of a kernel and of its generic twin on the same operands.
// Operands lie between inaccessible pages, inputs in read-only memory.
type trial struct {
	*rand.Rand
	kind    distribution
	arena   *arena
	stock   *stock // in fuzz targets
	outputs []outputs
	complain
}

// outputs is what the kernel and its twin write to.
type outputs struct{ got, want []float32 }

// complain holds the first thing that went wrong.
type complain struct{ text string }

func (c *complain) fail(format string, args ...any) {
	if c.text == "" {
		c.text = fmt.Sprintf(format, args...)
	}
}

// arena keeps guarded buffers for reuse from trial to trial.
type arena struct {
	floats []*guard.Buffer[float32]
	words  []*guard.Buffer[uint64]
	bools  []*guard.Buffer[bool]
	used   [3]int
}

// place returns n elements between guard pages as a writable and a read-only
// slice: at the front of a buffer, at its back, or at any alignment in between.
func place[T guard.Elem](r *rand.Rand, pool *[]*guard.Buffer[T], used *int, n int) (write,
	read []T) {
	i := *used
	*used++
	if i == len(*pool) {
		*pool = append(*pool, nil)
	}
	if b := (*pool)[i]; b == nil || b.Cap() < n+16 {
		if b != nil {
			b.Free()
		}
		b, err := guard.New[T](max(n+16, 16<<10))
		if err != nil {
			panic(err)
		}
		(*pool)[i] = b
	}
	b := (*pool)[i]
	switch r.IntN(5) {
	case 0, 1:
		return b.Front(n)
	case 2, 3:
		return b.Back(n)
	}
	at := r.IntN(16)
	write, read = b.Front(n + at)
	return write[at:], read[at:]
}

func (a *arena) free() {
	for _, b := range a.floats {
		b.Free()
	}
	for _, b := range a.words {
		b.Free()
	}
	for _, b := range a.bools {
		b.Free()
	}
}

// place returns n elements between guard pages, as place does.
func (c *trial) place(n int) (write, read []float32) {
	return place(c.Rand, &c.arena.floats, &c.arena.used[0], n)
}

// input returns n values in read-only memory.
func (c *trial) input(n int) []float32 { return c.inputOf(n, c.kind) }

func (c *trial) inputOf(n int, kind distribution) []float32 {
	write, read := c.place(n)
	c.fill(kind, write)
	return read
}

// inputBias is input with many elements that mean something of their own: zeros and −Inf.
func (c *trial) inputBias(n int) []float32 {
	write, read := c.place(n)
	c.fill(c.kind, write)
	special := []float32{0, float32(math.Copysign(0, -1)), negInf}
	kinds, rare := 2+c.IntN(2), c.IntN(3)*30
	for i := range write {
		if rare < 60 && c.IntN(rare+1) > 0 || rare == 0 {
			write[i] = special[c.IntN(kinds)]
		}
	}
	return read
}

// output returns memory for the kernel and for its twin with the same content
// in both. All of it is compared, so what a kernel must leave alone is too.
func (c *trial) output(n int) (got, want []float32) { return c.outputOf(n, c.kind) }

func (c *trial) outputOf(n int, kind distribution) (got, want []float32) {
	got, _ = c.place(n)
	c.fill(kind, got)
	k := len(c.outputs)
	c.outputs = slices.Grow(c.outputs, 1)[:k+1]
	o := &c.outputs[k] // the memory of the trial before, if it had as many
	o.got, o.want = got, append(o.want[:0], got...)
	return got, o.want
}

// visibleBits returns a set of keys for each row: all, none, few, any, a range.
func (c *trial) visibleBits(n int) []uint64 {
	write, read := place(c.Rand, &c.arena.words, &c.arena.used[1], n)
	end := Block
	if c.IntN(2) == 0 {
		end = c.IntN(Block + 1) // no key after it is visible in any row
	}
	for i := range write {
		write[i] = c.visible() & lowBits(end)
	}
	return read
}

func (c *trial) visible() uint64 {
	switch c.IntN(6) {
	case 0:
		return 0
	case 1:
		return ^uint64(0)
	case 2:
		return 1 << c.IntN(64)
	case 3:
		return c.Uint64() & c.Uint64() & c.Uint64() & c.Uint64()
	case 4:
		lo := c.IntN(64)
		return lowBits(lo+1+c.IntN(64-lo)) &^ lowBits(lo)
	}
	return c.Uint64()
}

func (c *trial) inputBools(n int) []bool {
	write, read := place(c.Rand, &c.arena.bools, &c.arena.used[2], n)
	kind := c.IntN(3)
	for i := range write {
		write[i] = kind == 0 || kind == 1 && c.IntN(2) == 0
	}
	return read
}

// equal compares results that are not in memory.
func (c *trial) equal(name string, got, want any) {
	if g, ok := got.(float32); ok && sameBits(g, want.(float32)) {
		return
	}
	if got != want {
		c.fail("%s = %v, generic %v", name, got, want)
	}
}

// compare looks at everything that was written.
func (c *trial) compare() {
	for k, o := range c.outputs {
		if i := firstDifference(o.got, o.want); i >= 0 {
			c.fail("output %d, element %d of %d is %v (%#08x), generic %v (%#08x)", k, i, len(o.want),
				o.got[i], math.Float32bits(o.got[i]), o.want[i], math.Float32bits(o.want[i]))
		}
	}
}

// reset prepares the trial for the next case.
func (c *trial) reset() {
	c.outputs, c.text = c.outputs[:0], ""
	c.arena.used = [3]int{}
	c.kind = distribution(c.IntN(int(distributions)))
	if c.IntN(2) == 0 {
		c.kind = normal + distribution(c.IntN(2))
	}
}

func newTrial(t testing.TB, r *rand.Rand) *trial {
	c := &trial{Rand: r, arena: new(arena)}
	t.Cleanup(c.arena.free)
	return c
}

var used32 float32

// use32 keeps a result alive.
func use32(x float32) error {
	used32 = x
	return nil
}

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
