package kerneltest

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

	"github.com/seed-1415985d/attn/internal/dev/guard"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// SameBits is equality of the numeric contract: any NaN equals any other.
func SameBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// FirstDifference returns the index of the first element whose bits differ, −1 if none.
func FirstDifference(a, b []float32) int {
	if bytesOf(a[:len(b)]) == bytesOf(b) {
		return -1 // as nearly always, and far faster than the loop
	}
	for i := range b {
		if !SameBits(a[i], b[i]) {
			return i
		}
	}
	return -1
}

// bytesOf is the memory of x.
func bytesOf(x []float32) string {
	return unsafe.String((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// Random returns the same generator for the same name in every run.
func Random(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(1, h.Sum64()))
}

// RandomFrom returns a generator that uses the fuzzer's bytes first, so that the fuzzer decides on
// shapes and values, and then continues deterministically.
func RandomFrom(data []byte) *rand.Rand {
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

// Distribution is a kind of float32 inputs.
type Distribution int

const (
	Normal Distribution = iota // numbers as in models
	// normal with zeros, infinities, NaN, subnormals and extremes among them
	Special
	Zeroes  // nothing but zeros of both signs
	Huge    // around ±1e30: products overflow
	Tiny    // subnormal
	Coarse  // few different values: ties everywhere
	AnyBits // every float32 there is
	Distributions
)

var Specials = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1,
	float32(math.Inf(1)), float32(math.Inf(-1)),
	float32(math.NaN()), math.Float32frombits(0xffc00000), math.Float32frombits(0x7f800001),
	math.Float32frombits(0xffbfffff),
	math.Float32frombits(1), math.Float32frombits(0x80000001), math.Float32frombits(0x007fffff),
	math.Float32frombits(0x00800000),
	math.MaxFloat32, -math.MaxFloat32, 1e30, -1e30, 88.7, -87.3, -87.4, -103.9,
}

func (d Distribution) Draw(r *rand.Rand) float32 {
	switch d {
	case Special:
		if r.IntN(16) == 0 {
			return Specials[r.IntN(len(Specials))]
		}
	case Zeroes:
		return float32(math.Copysign(0, float64(r.IntN(2))-0.5))
	case Huge:
		return float32(r.NormFloat64() * 1e30)
	case Tiny:
		return math.Float32frombits(r.Uint32() & (1<<31 | 1<<23 - 1))
	case Coarse:
		return float32(r.IntN(9)-4) / 4
	case AnyBits:
		return math.Float32frombits(r.Uint32())
	}
	return float32(r.NormFloat64())
}

func (d Distribution) Fill(r *rand.Rand, x []float32) {
	for i := range x {
		x[i] = d.Draw(r)
	}
}

// Trial is one call of a kernel and of its generic twin on the same operands.
// Operands lie between inaccessible pages, inputs in read-only memory.
type Trial struct {
	*rand.Rand
	Kind    Distribution
	arena   *Arena
	stock   *stock // in fuzz targets
	Outputs []outputs
	complain
}

// outputs are the destinations of the kernel and of its twin.
type outputs struct{ got, want []float32 }

// complain holds the first thing that went wrong.
type complain struct{ Text string }

func (c *complain) Wrong(format string, args ...any) {
	if c.Text == "" {
		c.Text = fmt.Sprintf(format, args...)
	}
}

// Arena keeps guarded buffers for reuse from trial to trial.
type Arena struct {
	Floats []*guard.Buffer[float32]
	words  []*guard.Buffer[uint64]
	Bools  []*guard.Buffer[bool]
	Used   [3]int
}

// Place returns n elements between guard pages as a writable and a read-only
// slice: at the front of a buffer, at its back, or at any alignment in between.
func Place[T guard.Elem](r *rand.Rand, pool *[]*guard.Buffer[T], used *int, n int) (write,
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

func (a *Arena) Free() {
	for _, b := range a.Floats {
		b.Free()
	}
	for _, b := range a.words {
		b.Free()
	}
	for _, b := range a.Bools {
		b.Free()
	}
}

// Place returns n elements between guard pages, as place does.
func (c *Trial) Place(n int) (write, read []float32) {
	return Place(c.Rand, &c.arena.Floats, &c.arena.Used[0], n)
}

// Input returns n values in read-only memory.
func (c *Trial) Input(n int) []float32 { return c.InputOf(n, c.Kind) }

func (c *Trial) InputOf(n int, kind Distribution) []float32 {
	write, read := c.Place(n)
	c.Fill(kind, write)
	return read
}

// InputBias is Input with many special elements: zeros and −Inf.
func (c *Trial) InputBias(n int) []float32 {
	write, read := c.Place(n)
	c.Fill(c.Kind, write)
	special := []float32{0, float32(math.Copysign(0, -1)), kernel.NegInf}
	kinds, rare := 2+c.IntN(2), c.IntN(3)*30
	for i := range write {
		if rare < 60 && c.IntN(rare+1) > 0 || rare == 0 {
			write[i] = special[c.IntN(kinds)]
		}
	}
	return read
}

// Results returns memory for the kernel and for its twin with the same content in both. All of it
// is compared, including memory that a kernel must not change.
func (c *Trial) Results(n int) (got, want []float32) { return c.ResultsOf(n, c.Kind) }

func (c *Trial) ResultsOf(n int, kind Distribution) (got, want []float32) {
	got, _ = c.Place(n)
	c.Fill(kind, got)
	k := len(c.Outputs)
	c.Outputs = slices.Grow(c.Outputs, 1)[:k+1]
	o := &c.Outputs[k] // the memory of the trial before, if it had as many
	o.got, o.want = got, append(o.want[:0], got...)
	return got, o.want
}

// VisibleBits returns a set of keys for each row: all, none, few, any, a range.
func (c *Trial) VisibleBits(n int) []uint64 {
	write, read := Place(c.Rand, &c.arena.words, &c.arena.Used[1], n)
	end := kernel.Block
	if c.IntN(2) == 0 {
		end = c.IntN(kernel.Block + 1) // no key after it is visible in any row
	}
	for i := range write {
		write[i] = c.Visible() & kernel.LowBits(end)
	}
	return read
}

func (c *Trial) Visible() uint64 {
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
		return kernel.LowBits(lo+1+c.IntN(64-lo)) &^ kernel.LowBits(lo)
	}
	return c.Uint64()
}

func (c *Trial) InputBools(n int) []bool {
	write, read := Place(c.Rand, &c.arena.Bools, &c.arena.Used[2], n)
	kind := c.IntN(3)
	for i := range write {
		write[i] = kind == 0 || kind == 1 && c.IntN(2) == 0
	}
	return read
}

// Equal compares results that are not in memory.
func (c *Trial) Equal(name string, got, want any) {
	if g, ok := got.(float32); ok && SameBits(g, want.(float32)) {
		return
	}
	if got != want {
		c.Wrong("%s = %v, generic %v", name, got, want)
	}
}

// Compare looks at everything that was written.
func (c *Trial) Compare() {
	for k, o := range c.Outputs {
		if i := FirstDifference(o.got, o.want); i >= 0 {
			c.Wrong("output %d, element %d of %d is %v (%#08x), generic %v (%#08x)", k, i, len(o.want),
				o.got[i], math.Float32bits(o.got[i]), o.want[i], math.Float32bits(o.want[i]))
		}
	}
}

// Reset prepares the trial for the next case.
func (c *Trial) Reset() {
	c.Outputs, c.Text = c.Outputs[:0], ""
	c.arena.Used = [3]int{}
	c.Kind = Distribution(c.IntN(int(Distributions)))
	if c.IntN(2) == 0 {
		c.Kind = Normal + Distribution(c.IntN(2))
	}
}

func NewTrial(t testing.TB, r *rand.Rand) *Trial {
	c := &Trial{Rand: r, arena: new(Arena)}
	t.Cleanup(c.arena.Free)
	return c
}

var Used32 float32

// Use32 keeps a result alive.
func Use32(x float32) error {
	Used32 = x
	return nil
}

// The fuzzer's bytes are spent as random numbers: first on sizes, strides and
// kinds of values, then on the values themselves.

// SeedInputs makes the normal test run try some cases of every target.
func SeedInputs(f *testing.F) {
	r := Random(f.Name())
	f.Add([]byte{})
	for _, n := range []int{8, 32, 64, 256} {
		f.Add(AnyBytes(r, n))
	}
	f.Add(make([]byte, 64))
}

func AnyBytes(r *rand.Rand, n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// FuzzTrials runs f on trials that spend the fuzzer's bytes, the same with each
// implementation that is compared with the generic one.
func FuzzTrials(f *testing.F, run func(t *testing.T, c *Trial)) {
	SeedInputs(f)
	c := NewTrial(f, nil)
	c.stock = newStock()
	compared := slices.DeleteFunc(Implementations(), func(i tuning.ISA) bool {
		return i == tuning.Generic && Chosen.ISA != tuning.Generic
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Cleanup(func() { *Tuned = Chosen })
		UseTuning(t, With16Lanes(*Tuned))
		for _, i := range compared {
			SwitchTo(i)
			c.Rand = RandomFrom(data)
			run(t, c)
		}
	})
}

// FuzzPlays runs f on plays of many steps that use the fuzzer's bytes, each with one
// implementation, drawn like everything else. The normal test run plays often, since one play has
// few of the possible steps.
func FuzzPlays(f *testing.F, run func(t *testing.T, c *Trial)) {
	SeedInputs(f)
	r := Random(f.Name() + ", plays")
	for range 300 {
		f.Add(AnyBytes(r, 64))
	}
	c := NewTrial(f, nil)
	c.stock = newStock()
	all := Implementations()
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Cleanup(func() { *Tuned = Chosen })
		UseTuning(t, With16Lanes(*Tuned))
		c.Rand = RandomFrom(data)
		SwitchTo(all[c.IntN(len(all))])
		run(t, c)
	})
}
