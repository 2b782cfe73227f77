package nn

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/sanitize"
)

// call is a call of a function with one or two inputs.
type call struct {
	name string
	run  func(p *attn.Pool, dst, a, b attn.Tensor) error
}

// calls are of every function, for rows of d elements.
func calls(t testing.TB, r *rand.Rand, d, positions int) []call {
	weight, bias := randomTensor(r, 1, 1, 1, d).Data, randomTensor(r, 1, 1, 1, d).Data
	list := []call{
		{"RMSNorm", func(p *attn.Pool, dst, a, _ attn.Tensor) error {
			return RMSNorm(p, dst, a, weight, 1e-6)
		}},
		{"L2Norm", func(p *attn.Pool, dst, a, _ attn.Tensor) error { return L2Norm(p, dst, a, 1e-6) }},
		{"LayerNorm", func(p *attn.Pool, dst, a, _ attn.Tensor) error {
			return LayerNorm(p, dst, a, weight, bias, 1e-6)
		}},
		{"Add", Add},
		{"Softmax", func(p *attn.Pool, dst, a, _ attn.Tensor) error { return Softmax(p, dst, a) }},
		{"AddRMSNorm", func(p *attn.Pool, dst, a, b attn.Tensor) error {
			return AddRMSNorm(p, dst, a, a, b, weight, 1e-6)
		}},
		{"GateClamped", func(p *attn.Pool, dst, a, b attn.Tensor) error {
			return GateClamped(p, dst, a, b, 1.702, 7)
		}},
	}
	for a := None; a < activations; a++ {
		list = append(list,
			call{"Activate " + a.String(), func(p *attn.Pool, dst, x, _ attn.Tensor) error {
				return Activate(p, dst, x, a)
			}},
			call{"Gate " + a.String(), func(p *attn.Pool, dst, x, up attn.Tensor) error {
				return Gate(p, dst, x, up, a)
			}})
	}
	at := make([]int32, positions)
	for i := range at {
		at[i] = int32(i * i)
	}
	for _, interleaved := range []bool{false, true} {
		rope, err := NewRope(RopeConfig{Dim: max(2, d/4*2), Base: 1e6, Interleaved: interleaved})
		must(t, err)
		list = append(list,
			call{"Rope.Rotate", func(p *attn.Pool, dst, x, _ attn.Tensor) error {
				return rope.Rotate(p, dst, x, at)
			}},
			call{"Rope.Inverse", func(p *attn.Pool, dst, x, _ attn.Tensor) error {
				return rope.Inverse(p, dst, x, at)
			}})
	}
	return append(list, sectionCalls(t, max(2, d/4*2), positions)...)
}

// sectionCalls are of rotations by three kinds of positions.
func sectionCalls(t testing.TB, dim, positions int) (list []call) {
	pairs := dim / 2
	third := pairs / 3
	at := make([]int32, 3*2*positions) // of two batch entries
	for i := range at {
		at[i] = int32(i * i * 7 % (1 << 19))
	}
	for _, c := range []RopeScaling{{Interleave: true}, {Restart: true}} {
		c.Sections = []int{pairs - 2*third, third, third}
		rope, err := NewRope(RopeConfig{Dim: dim, Base: 1e6, Scaling: c})
		must(t, err)
		list = append(list, call{"Rope.Sections", func(p *attn.Pool, dst, x, _ attn.Tensor) error {
			return rope.Rotate(p, dst, x, at[:3*x.B*x.L])
		}})
	}
	return list
}

// Results are the same on any number of workers, from any callers, and in views of any strides.
func TestPools(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	shapes, workers := [][4]int{{1, 1, 1, 70}, {2, 3, 40, 130}, {1, 1, 1, 70000}, {1, 2, 300, 64}},
		[]int{1, 2, 3}
	if testing.Short() {
		shapes, workers = [][4]int{{1, 1, 1, 17000}, {2, 3, 25, 130}}, []int{3}
	}
	for _, shape := range shapes {
		b, h, l, d := shape[0], shape[1], shape[2], shape[3]
		x, y := randomTensor(r, b, h, l, d), randomTensor(r, b, h, l, d)
		for _, c := range calls(t, r, min(d, 4096), l) {
			if d > 4096 && (c.name == "RMSNorm" || c.name == "LayerNorm" || c.name == "AddRMSNorm") {
				continue // their weights are shorter
			}
			want := zeros(b, h, l, d)
			copyOf := func(x attn.Tensor) attn.Tensor {
				return attn.BHLD(append([]float32(nil), x.Data...), b, h, l, d)
			}
			must(t, c.run(nil, want, copyOf(x), y))
			for _, n := range workers {
				p := attn.NewPool(n)
				var callers sync.WaitGroup
				for range 2 {
					callers.Go(func() {
						got := attn.Rows(make([]float32, b*l*(h*d+3)), b, l, h, d, h*d+3)
						if err := c.run(p, got, copyOf(x), y); err != nil {
							t.Error(c.name, err)
						}
						for i := range b * h * l {
							sameBits(t, c.name, got.Row(i/(h*l), i/l%h, i%l), want.Row(i/(h*l), i/l%h, i%l))
						}
					})
				}
				callers.Wait()
				must(t, p.Close())
				mustFail(t, c.run(p, want, x, y), attn.ErrClosed, "")
				none := attn.Tensor{H: h, L: l, D: d}
				mustFail(t, c.run(p, none, none, none), attn.ErrClosed, "")
				must(t, c.run(nil, none, none, none))
			}
		}
	}
}

// No call allocates, but for what a Rope keeps.
func TestAllocations(t *testing.T) {
	if sanitize.Enabled {
		t.Skip("a sanitizer allocates")
	}
	r := rand.New(rand.NewPCG(8, 8))
	x, y, dst := randomTensor(r, 1, 2, 40, 128), randomTensor(r, 1, 2, 40, 128), zeros(1, 2, 40, 128)
	p := attn.NewPool(2)
	two := func(p *attn.Pool, dst, a, b attn.Tensor) error {
		return Combine(p, dst, a, attn.BHLD(b.Data, 1, 2, 40, 2))
	}
	for _, c := range append(calls(t, r, 128, 40), call{"Combine", two}) {
		for _, p := range []*attn.Pool{nil, p} {
			must(t, c.run(p, dst, x, y))
			if n := testing.AllocsPerRun(20, func() { must(t, c.run(p, dst, x, y)) }); n != 0 {
				t.Errorf("%s allocates %v times", c.name, n)
			}
		}
	}
	must(t, p.Close())
}

// goldenHashes are of what functions compute of the same numbers, on every CPU. Functions that came
// after the first ones have hashes of their own.
var goldenHashes = map[string]string{
	"":              "f9d8125afac5c8812903a9c0bf8f4077d3f094a2d3a9037730df22fcab58b4a3",
	"QuickGELU":     "4249ccdc40d30459e645460fe0d0a2eb3562d0e529d04cafd6301cb135765318",
	"Softmax":       "e2de93a0f649b2685fe2ed2533343237b853eb637d955ee5057c2b6695174aa5",
	"Rope.Sections": "f622841a7391709f43a591a145c10719b46c8a3d44a768476d5c30e856a8c5c9",
}

func TestGolden(t *testing.T) {
	forEachISA(t, func(t *testing.T) {
		hashes := map[string]hash.Hash{}
		for later := range goldenHashes {
			hashes[later] = sha256.New()
		}
		r := rand.New(rand.NewPCG(7, 7))
		for _, d := range []int{6, 64, 130, 5000} {
			x, y := randomTensor(r, 1, 2, 3, d), randomTensor(r, 1, 2, 3, d)
			copy(x.Data[d:], wide(r, d))
			for i, e := range x.Data {
				if e != e {
					x.Data[i] = 1
				}
			}
			for i := range d { // magnitudes that are scaled
				x.Data[2*d+i] *= 0x1p+60
				x.Data[3*d+i] *= 0x1p-60
			}
			for _, c := range calls(t, r, d, 3) {
				dst := zeros(1, 2, 3, d)
				must(t, c.run(nil, dst, x, y))
				sum := hashes[""]
				for later := range goldenHashes {
					if later != "" && strings.HasSuffix(c.name, later) {
						sum = hashes[later]
					}
				}
				for _, e := range dst.Data {
					bits := math.Float32bits(e)
					if e != e {
						bits = 0x7fc00000
					}
					_ = binary.Write(sum, binary.LittleEndian, bits)
				}
			}
		}
		for later, want := range goldenHashes {
			if got := hex.EncodeToString(hashes[later].Sum(nil)); got != want {
				t.Errorf("the hash of %q is %s, want %s", later, got, want)
			}
		}
	})
}

// What kernels prefetch of data that the cache does not hold changes no bit.
func TestFromMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	p := attn.NewPool(2)
	for _, shape := range [][2]int{{40, 70}, {3, 4100}, {700, 1}} {
		rows, d := shape[0], shape[1]
		x, y := randomTensor(r, 1, 1, rows, d), randomTensor(r, 1, 1, rows, d)
		for _, c := range calls(t, r, d, rows) {
			if d == 1 && strings.HasPrefix(c.name, "Rope") {
				continue // of pairs
			}
			results := [2]attn.Tensor{zeros(1, 1, rows, d), zeros(1, 1, rows, d)}
			for i, cache := range []int{host.L2, 0} {
				before := host.L2
				host.L2 = cache
				a := attn.BHLD(slices.Clone(x.Data), 1, 1, rows, d)
				must(t, c.run([]*attn.Pool{nil, p}[i], results[i], a, y))
				host.L2 = before
			}
			sameBits(t, c.name, results[1].Data, results[0].Data)
		}
	}
	must(t, p.Close())
}
