package attn

import "testing"

// Along the streams of a call with few rows, each key and value behind the first
// block is asked for once. Heads beside each other share in that.
func TestStreamsMeetAllTokens(t *testing.T) {
	readingAs(t, pagedReads)
	const heads, keys, d, dv = 4, 5*Block + 9, 16, 24
	for _, rows := range []int{1, inPlaceRows + 1, 60} {
		view := func(h, l, d int) Tensor { return BLHD(make([]float32, h*l*d), 1, l, h, d) }
		q, k, v, dst := view(heads*rows, 1, d), view(heads, keys, d), view(heads, keys, dv), view(heads*rows, 1, dv)
		p := newPlan(dst, q, k, v, nil)
		must(t, p.init(nil))
		p.fitRows()
		if p.headsPerChunk != heads {
			t.Fatalf("%d heads go together, want %d", p.headsPerChunk, heads)
		}
		for _, x := range []*Tensor{&p.k, &p.v} {
			asked := p.askedAlong(x)
			for at, n := range asked {
				want := 1
				if at/x.SL < Block {
					want = 0
				}
				if n != want {
					t.Fatalf("%d rows: element %d of token %d is asked for %d times, want %d", rows, at%x.SL, at/x.SL, n, want)
				}
			}
		}
	}
}

// askedAlong counts for each element of x how often the call asks for it.
func (p *plan) askedAlong(x *Tensor) []int {
	asked := make([]int, len(x.Data))
	for i := range p.items() {
		var c chunk
		p.chunk(i, &c)
		for first := 0; first < x.L; first += Block {
			for g := range c.heads {
				h := *c.head(g, new(chunk))
				stream := p.prefetchPointer(x, &h, first)
				if stream == 0 {
					continue
				}
				from := int(stream+prefetchWindow-address(x.Data, 0)) / 4
				for j := from; j < min(from+Block*x.D, len(asked)); j++ {
					asked[j]++
				}
			}
		}
	}
	return asked
}
