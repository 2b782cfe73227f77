package attn

import "testing"

// Blocks are plain if few rows of a cache see all of their keys and nothing happens to scores.
func TestPlainBlocks(t *testing.T) {
	one := func(p *plan) { p.lq = 1 }
	for name, c := range map[string]struct {
		change func(p *plan)
		lo, hi int
		want   int
	}{
		"all":            {one, 0, 500, 7},
		"up to a key":    {one, 0, 200, 3},
		"key lengths":    {func(p *plan) { p.lq, p.keyLens = 1, []int{300} }, 0, 500, 4},
		"diagonal group": {func(p *plan) { p.lq, p.group, p.heads, p.causal, p.offset = 4, 4, 4, TopLeft, 190 }, 0, 500, 2},
		"group of 16":    {func(p *plan) { p.lq, p.group, p.heads = 1, plainRows, plainRows }, 0, 500, 7},
		"group of 17":    {func(p *plan) { p.lq, p.group, p.heads = 1, plainRows+1, plainRows+1 }, 0, 500, 0},
		"inside a block": {one, 10, 500, 0},
		"less than one":  {one, 448, 500, 0},
		"diagonal":       {func(p *plan) { p.lq, p.causal, p.offset = 4, TopLeft, 190 }, 0, 500, 2},
		"window":         {func(p *plan) { p.lq, p.causal, p.offset, p.left = 4, TopLeft, 499, 300 }, 192, 500, 0},
		"in the window":  {func(p *plan) { p.lq, p.causal, p.offset, p.left = 4, TopLeft, 496, 300 }, 256, 500, 3},
		"behind the end": {func(p *plan) { p.lq, p.causal, p.offset = 1, TopLeft, 100 }, 128, 500, 0},
		"softcap":        {func(p *plan) { p.lq, p.softcap = 1, 30 }, 0, 500, 0},
		"slopes":         {func(p *plan) { p.lq, p.slopes = 1, []float32{1} }, 0, 500, 0},
		"mask":           {func(p *plan) { p.lq, p.mask.Data = 1, []bool{true} }, 0, 500, 0},
		"bias":           {func(p *plan) { p.lq, p.bias.Data = 1, []float32{1} }, 0, 500, 0},
		"views":          {func(p *plan) { p.lq, p.cache = 1, nil }, 0, 500, 0},
	} {
		p := plan{batch: 1, heads: 1, kvHeads: 1, group: 1, lk: 500, d: 8, dv: 8, left: -1, right: -1, cache: &Cache{}}
		c.change(&p)
		p.fitRows()
		var chunk chunk
		p.chunk(0, &chunk)
		if got := p.plainBlocks(&chunk, c.lo, c.hi); got != c.want {
			t.Errorf("%s: %d blocks, want %d", name, got, c.want)
		}
	}
}
