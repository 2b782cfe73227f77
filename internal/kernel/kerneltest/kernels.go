package kerneltest

import (
	"math/bits"
	"runtime/debug"
	"slices"
	"testing" // A KernelTest compares a kernel with its generic twin.

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

type KernelTest struct {
	Name string
	dims []Dim
	run  func(c *Trial, n []int)
}

// Dim is one size of a kernel's operands.
type Dim struct {
	name     string
	lo, hi   int // every size from lo to hi is tried
	larger   int // random sizes up to this one are tried, too
	multiple int // sizes are multiples of this; 0 means 1
}

// Compare is the test of a kernel.
func Compare(name string, dims []Dim, run func(c *Trial, n []int)) KernelTest {
	return KernelTest{name, dims, run}
}

func Size(name string, lo, hi, larger int) Dim { return Dim{name, lo, hi, larger, 1} }

// Multiples is a size that is a multiple of some number.
func Multiples(name string, lo, hi, larger, of int) Dim { return Dim{name, lo, hi, larger, of} }

// Four of the largest tiles, the 64 lanes of a dot product, and one.
var VectorDims = []Dim{Size("n", 0, 257, 3000)}

var PairDims = []Dim{Size("rows", 1, 20, 50), Size("keys", 1, kernel.Block, kernel.Block)}

// FewRows tries random sizes with 1 to 5 rows of queries and, as often, with 6 to 35.
func (k *KernelTest) FewRows(t *testing.T) {
	c := NewTrial(t, Random(k.Name))
	n := make([]int, len(k.dims))
	for i := range Budget(1200) {
		for j := range n {
			most := k.dims[j].hi
			if k.dims[j].name == "cols" && c.IntN(3) == 0 {
				most = k.dims[j].larger // more than eight panels
			}
			n[j] = k.dims[j].pick(c, most)
			if k.dims[j].name == "gap" && i%2 == 0 {
				n[j] = 0 // rows without gaps
			}
		}
		n[0] = 1 + i/2%5
		if i%4 > 1 {
			n[0] = 6 + i/4%30
		}
		k.Check(t, c, n)
	}
}

// once runs one case and returns what is wrong with it. A fault in guarded
// memory becomes a panic and is reported with the case.
func (k *KernelTest) once(c *Trial, n []int) (wrong string) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if err := recover(); err != nil {
			wrong = "panic: " + toText(err) + "\n" + string(debug.Stack())
		}
	}()
	c.Reset()
	k.run(c, n)
	c.Compare()
	return c.Text
}

func toText(x any) string {
	if err, ok := x.(error); ok {
		return err.Error()
	}
	s, _ := x.(string)
	return s
}

// pick draws a size; small sizes test the tails of kernels.
func (d *Dim) pick(c *Trial, most int) int {
	if c.IntN(2) == 0 {
		most = min(most, d.lo+20)
	}
	return d.round(d.lo + c.IntN(most-d.lo+1))
}

func (d *Dim) round(n int) int { return n / d.multiple * d.multiple }

func (k *KernelTest) Check(t *testing.T, c *Trial, n []int) {
	if wrong := k.once(c, n); wrong != "" {
		t.Fatalf("%s, sizes %v, distribution %d: %s", k.describe(), n, c.Kind, wrong)
	}
}

func (k *KernelTest) describe() (names []string) {
	for _, d := range k.dims {
		names = append(names, d.name)
	}
	return names
}

// Sweep tries every size of every dimension, with random sizes of the other dimensions.
func (k *KernelTest) Sweep(t *testing.T, c *Trial) {
	n := make([]int, len(k.dims))
	step := 1
	switch {
	case testing.Short() && Tuned.ISA == tuning.Generic:
		step = 7 // an emulator that compares generic code with itself
	case Few():
		step = 3
	}
	for i, swept := range k.dims {
		for at := swept.lo; at <= swept.hi; at += step * swept.multiple {
			for range Budget(12) {
				for j := range n {
					n[j] = k.dims[j].pick(c, k.dims[j].hi)
				}
				n[i] = at
				k.Check(t, c, n)
			}
		}
	}
}

// Grid tries every combination of small sizes of the first two dimensions.
func (k *KernelTest) Grid(t *testing.T, c *Trial) {
	if len(k.dims) < 2 {
		return
	}
	const small = 18
	a, b := k.dims[0], k.dims[1]
	n := make([]int, len(k.dims))
	for x := a.lo; x <= small; x++ {
		for y := b.lo; y <= small; y++ {
			if few := Budget(16); few < 16 && (x+y)%(16/few) != 0 {
				continue
			}
			for j := range n {
				n[j] = k.dims[j].pick(c, k.dims[j].hi)
			}
			n[0], n[1] = x, y
			k.Check(t, c, n)
		}
	}
}

// Large tries random sizes beyond those of the sweep.
func (k *KernelTest) Large(t *testing.T, c *Trial) {
	n := make([]int, len(k.dims))
	for range Budget(60) {
		for j := range n {
			n[j] = k.dims[j].pick(c, k.dims[j].larger)
		}
		k.Check(t, c, n)
	}
}

// FuzzOneOf compares the kernel of a name with its generic twin.
func FuzzOneOf(f *testing.F, all []KernelTest, name string) {
	k := &all[slices.IndexFunc(all, func(k KernelTest) bool { return k.Name == name })]
	n := make([]int, len(k.dims))
	FuzzTrials(f, func(t *testing.T, c *Trial) {
		k.pickFew(c, n)
		k.Check(t, c, n)
	})
}

// pickFew draws mostly tiny sizes, so that the fuzzer tries many calls: one call in four may have a
// size that spans several tiles, and one in some hundreds has only such sizes.
func (k *KernelTest) pickFew(c *Trial, n []int) {
	for i := range n {
		d := &k.dims[i]
		n[i] = d.round(d.lo + c.IntN(min(d.hi-d.lo+1, 6*d.multiple)))
	}
	switch draw := c.IntN(2048); {
	case draw == 0:
		for i := range n {
			n[i] = k.dims[i].pick(c, k.dims[i].larger)
		}
	case draw < 8:
		for i := range n {
			n[i] = k.dims[i].pick(c, k.dims[i].hi)
		}
	case draw < 64:
		i := c.IntN(len(n))
		n[i] = k.dims[i].stretch(c, k.dims[i].larger)
	case draw < 512:
		i := c.IntN(len(n))
		n[i] = k.dims[i].stretch(c, k.dims[i].hi)
	}
}

// stretch draws a size from each power of two equally often.
func (d *Dim) stretch(c *Trial, most int) int {
	most -= d.lo
	return d.round(d.lo + c.IntN(1+min(most, 1<<c.IntN(bits.Len(uint(most))+1))))
}

// SplitVectors runs a comparison over vectors of more elements than a call takes.
func SplitVectors(t *testing.T, run func(c *Trial, x []float32, top float32)) {
	c := NewTrial(t, Random("split vectors"))
	for _, n := range []int{kernel.CallElements + 1, 2 * kernel.CallElements,
		2*kernel.CallElements + 17} {
		for kind := range Distributions {
			if testing.Short() && kind > Special {
				break
			}
			c.Reset()
			c.Kind = kind
			x := c.Input(n)
			run(c, x, c.Kind.Draw(c.Rand))
			if c.Compare(); c.Text != "" {
				t.Fatalf("%d elements, distribution %d: %s", n, kind, c.Text)
			}
		}
	}
}

// EqualGeneric compares kernels with their generic twins with each implementation, and if grid for
// all combinations of small sizes.
func EqualGeneric(t *testing.T, tests []KernelTest, grid bool) {
	ForEach(t, func(t *testing.T) {
		for i := range tests {
			k := &tests[i]
			t.Run(k.Name, func(t *testing.T) {
				c := NewTrial(t, Random(k.Name))
				k.Sweep(t, c)
				if grid {
					k.Grid(t, c)
				}
				k.Large(t, c)
			})
		}
	})
}
