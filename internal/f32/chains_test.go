package f32

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32/f32test"
)

// Chains, on either path of this CPU, and chains by emulation are FMA after FMA in each lane, also
// where one lane has a rare sum and others have none.
func TestChains(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	count := 20000
	if testing.Short() {
		count = 2000
	}
	for range count {
		stride := Lanes + r.IntN(3)
		a, b := make([]float32, r.IntN(4)), make([]float32, 4*stride)
		var start [Lanes]float32
		for i := range start {
			_, b[i], start[i] = f32test.Triple(r)
		}
		for x := range a {
			a[x], b[x*stride+r.IntN(Lanes)], start[r.IntN(Lanes)] = f32test.Triple(r)
		}
		checkChains(t, start, a, b, stride)
	}
}

func checkChains(t *testing.T, start [Lanes]float32, a, b []float32, stride int) {
	t.Helper()
	want, got, slow := start, start, start
	for i := range want {
		for x, e := range a {
			want[i] = exact(e, b[x*stride+i], want[i])
		}
	}
	Chains(&got, a, b, stride)
	emulatedChains(&slow, a, b, stride)
	for i, w := range want {
		for _, g := range []float32{got[i], slow[i]} {
			if math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
				t.Fatalf("chain %d of %x by %x from %x is %x, want %x", i, a, b, start[i], g, w)
			}
		}
	}
}

// Edges are in all lanes, with different ones next to each other.
func TestChainsEdges(t *testing.T) {
	for _, e := range edges {
		for at, y := range edges {
			for i := 0; i < len(edges); i += Lanes {
				var start [Lanes]float32
				b := make([]float32, Lanes)
				for j := range start {
					start[j], b[j] = edges[(i+j)%len(edges)], y
				}
				b[at%Lanes] = 1
				checkChains(t, start, []float32{e}, b, Lanes)
			}
		}
	}
}
