package attn

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/measure"
)

// benchShape is a case that the published comparisons measure.
type benchShape struct {
	name string
	shape
	causal Causal
	shown  float64 // of the pairs of query and key, the share that is visible
}

var benchShapes = []benchShape{
	{"prefill/d=64/causal=false", shape{1, 8, 1, 1024, 1024, 64, 64}, Full, 1},
	{"prefill/d=64/causal=true", shape{1, 8, 1, 1024, 1024, 64, 64}, TopLeft, 0.5},
	{"prefill/d=128/causal=false", shape{1, 8, 1, 2048, 2048, 128, 128}, Full, 1},
	{"prefill/d=128/causal=true", shape{1, 8, 1, 2048, 2048, 128, 128}, TopLeft, 0.5},
	{"bert/d=64", shape{8, 12, 1, 128, 128, 64, 64}, Full, 1},
	{"decode/d=128", shape{1, 32, 1, 1, 4096, 128, 128}, Full, 1},
	{"decode_gqa/d=128", shape{1, 8, 4, 1, 4096, 128, 128}, Full, 1},
	{"tiny/d=64", shape{1, 1, 1, 16, 16, 64, 64}, Full, 1},
	{"ragged/d=80", shape{1, 8, 1, 1000, 1000, 80, 80}, Full, 1},
	{"ragged/d=40", shape{1, 8, 1, 1023, 1025, 40, 40}, Full, 1},
}

// flops is the useful work of a call: 4·B·H·Lq·Lk·D, of which a causal mask leaves half.
func (s *benchShape) flops() float64 {
	return s.shown * 2 * float64(s.b*s.kvh*s.group) * float64(s.lq) * float64(s.lk) * float64(s.d+s.dv)
}

func (s *benchShape) problem() *problem {
	p := newProblem(random(s.name), normal, s.shape)
	p.opt.Causal = s.causal
	return p
}

// perSecond reports work in units of 10⁹ a second.
func perSecond(b *testing.B, perCall float64, unit string) {
	b.ReportMetric(perCall*float64(b.N)/b.Elapsed().Seconds()/1e9, unit)
}

func (s *benchShape) run(b *testing.B, p *problem, call func(dst Tensor) error) {
	dst := zeros(p.q.B, p.q.H, p.q.L, p.v.D)
	b.ReportAllocs()
	for b.Loop() {
		if err := call(dst); err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b, s.flops(), "GFLOP/s")
	if s.lq == 1 {
		perSecond(b, 4*float64(len(p.k.Data)+len(p.v.Data)), "GB/s")
	}
}

func BenchmarkAttend(b *testing.B) {
	for _, s := range benchShapes {
		b.Run(s.name, func(b *testing.B) {
			p := s.problem()
			s.run(b, p, func(dst Tensor) error { return Attend(dst, p.q, p.k, p.v, &p.opt) })
		})
	}
}

// typeName is the part of a benchmark's name that a cache's type adds: nothing for F32.
func typeName(kind Format) string {
	if kind == F32 {
		return ""
	}
	return "/type=" + strings.ToLower(kind.String())
}

var allFormats = []Format{F32, F16, BF16, I8, I4}

func BenchmarkCache(b *testing.B) {
	for _, s := range benchShapes {
		for _, kind := range allFormats {
			if kind != F32 && s.lq > 1 {
				continue
			}
			b.Run(s.name+typeName(kind), func(b *testing.B) {
				p := s.problem()
				c := p.benchCache(b, kind)
				if err := c.Append(p.k, p.v); err != nil {
					b.Fatal(err)
				}
				s.run(b, p, func(dst Tensor) error { return c.Attend(dst, p.q, &p.opt) })
				if s.lq == 1 {
					perSecond(b, float64(c.MemoryUse()), "GB/s") // of the cache's own bytes
				}
			})
		}
	}
}

// benchCache is a cache with room for a problem's keys and values.
func (p *problem) benchCache(b *testing.B, kind Format) *Cache {
	c, err := NewCache(CacheConfig{Batch: p.k.B, KVHeads: p.k.H, HeadDim: p.k.D, ValueDim: p.v.D,
		Capacity: p.k.L, Format: kind})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// BenchmarkGrouped decodes one token with different numbers of query heads for each key/value
// head, in both layouts.
func BenchmarkGrouped(b *testing.B) {
	for _, group := range []int{1, 4, 8, 32} {
		s := benchShape{"grouped", shape{1, 8, group, 1, 4096, 128, 128}, Full, 1}
		p := s.problem()
		for _, layout := range []struct {
			name string
			view func(x *Tensor) Tensor
		}{
			{"BHLD", func(x *Tensor) Tensor { return *x }},
			{"BLHD", func(x *Tensor) Tensor { return BLHD(x.Data, x.B, x.L, x.H, x.D) }},
		} {
			b.Run(fmt.Sprintf("group=%d/layout=%s", group, layout.name), func(b *testing.B) {
				k, v := layout.view(&p.k), layout.view(&p.v)
				s.run(b, p, func(dst Tensor) error { return Attend(dst, p.q, k, v, &p.opt) })
			})
		}
	}
}

// BenchmarkOptions shows what each option costs.
func BenchmarkOptions(b *testing.B) {
	s := benchShape{"options", shape{1, 8, 1, 512, 512, 64, 64}, Full, 1}
	mask := BHLD(make([]bool, 512*512), 1, 1, 512, 512)
	for i := range mask.Data {
		mask.Data[i] = i%7 != 0
	}
	bias := tensor(random("bias"), normal, 1, 1, 512, 512)
	heads := make([]float32, 8)
	for _, o := range []struct {
		name  string
		shown float64 // the share of the pairs that are visible by position
		opt   Options
	}{
		{"none", 1, Options{}},
		{"mask", 1, Options{Mask: mask}},
		{"bias", 1, Options{Bias: bias}},
		{"softcap", 1, Options{Softcap: 30}},
		{"slopes", 1, Options{Slopes: heads}},
		{"sinks", 1, Options{Sinks: heads}},
		{"window=64", 65. / 512, Options{Window: Window{Left: 65, Right: 1}}},
		{"lse", 1, Options{LSE: make([]float32, 8*512)}},
	} {
		b.Run(o.name, func(b *testing.B) {
			p, s := s.problem(), s
			s.shown = o.shown
			s.run(b, p, func(dst Tensor) error { return Attend(dst, p.q, p.k, p.v, &o.opt) })
		})
	}
}

// BenchmarkPairs shows what masks and biases cost, which have an element for each pair of query and
// key.
func BenchmarkPairs(b *testing.B) {
	for _, s := range []benchShape{
		{"prefill/d=64", shape{1, 2, 1, 1024, 1024, 64, 64}, Full, 1},
		{"causal/d=64", shape{1, 2, 1, 1024, 1024, 64, 64}, TopLeft, 0.5},
		{"grouped/d=64", shape{1, 2, 4, 512, 512, 64, 64}, Full, 1},
		{"ragged/d=64", shape{1, 2, 1, 1023, 1023, 64, 64}, Full, 1},
	} {
		h, r := s.kvh*s.group, random(s.name)
		bias := tensor(r, normal, 1, h, s.lq, s.lk)
		some := tensor(r, normal, 1, h, s.lq, s.lk)
		mask, all := BHLD(make([]bool, len(bias.Data)), 1, h, s.lq,
			s.lk), BHLD(make([]bool, len(bias.Data)), 1, h, s.lq, s.lk)
		for i := range bias.Data {
			mask.Data[i], all.Data[i] = r.IntN(7) != 0, true
			if r.IntN(7) == 0 {
				some.Data[i] = negInf
			}
		}
		for _, o := range []struct {
			name string
			opt  Options
		}{
			{"none", Options{}},
			{"bias", Options{Bias: bias}},
			{"bias_with_inf", Options{Bias: some}},
			{"mask", Options{Mask: mask}},
			{"mask_all_true", Options{Mask: all}},
		} {
			b.Run(s.name+"/"+o.name, func(b *testing.B) {
				p := s.problem()
				o.opt.Causal = s.causal
				s.run(b, p, func(dst Tensor) error { return Attend(dst, p.q, p.k, p.v, &o.opt) })
			})
		}
	}
}

// BenchmarkKernel measures kernels by themselves, on operands in the L1 cache.
func BenchmarkKernel(b *testing.B) {
	for _, d := range []int{64, 128} {
		benchmarkPasses(b, d)
	}
	x, dst := tensor(random("x"), normal, 1, 1, 1, 1024).Data, make([]float32, 1024)
	for _, k := range []struct {
		name string
		call func()
	}{
		{"exp", func() { exp(dst, x) }},
		{"dot", func() { kerneltest.Used32 = dot(x, x) }},
		{"max", func() { kerneltest.Used32 = maxOf(x) }},
		{"softcap", func() { floats.Softcap(tuned.ISA, dst, 30, 1./30) }},
	} {
		b.Run(k.name+"/n=1024", func(b *testing.B) {
			for b.Loop() {
				k.call()
			}
			perSecond(b, float64(len(x)), "Gelem/s")
		})
	}
}

func benchmarkPasses(b *testing.B, d int) {
	r := random("passes")
	const rows = minTileRows
	q, k, v := tensor(r, normal, 1, 1, rows, d).Data, tensor(r, normal, 1, 1, Block, d).Data, tensor(r,
		normal, 1, 1, Block, d).Data
	packed, layout := make([]float32, Block*d), kernel.PanelLayout{Keys: Block, Cols: d, Stride: panel,
		PanelStride: Block * panel}
	s, o := make([]float32, rows*Block), make([]float32, rows*d)
	m, l, alpha := make([]float32, rows), make([]float32, rows), make([]float32, rows)
	visible := make([]uint64, rows)
	for i := range visible {
		visible[i] = ^uint64(0) >> i
	}
	scores := tensor(r, normal, 1, 1, rows, Block).Data
	const products = 2 * rows * Block
	sums := kernel.Sums{O: o, P: scores, Alpha: alpha, Rows: rows, OStride: d, PStride: Block}
	for _, pass := range []struct {
		name string
		work float64
		unit string
		call func()
	}{
		{"pack_keys", float64(Block * d), "Gelem/s", func() {
			floats.PackKeys(&tuned, packed, k, d,
				Block, d)
		}},
		{"pack_values", float64(Block * d), "Gelem/s", func() {
			floats.PackValues(&tuned, packed, v, d,
				Block, d)
		}},
		{"score", float64(products * d), "GFLOP/s", func() {
			floats.Score(&tuned, s, q, k, rows, d, Block/panel, nil)
		}},
		{"score_rows", float64(products * d), "GFLOP/s", func() {
			floats.ScoreRows(tuned.ISA, s, q, floats.KeyRows{K: k, Stride: d, N: Block}, rows, d, nil)
		}},
		{"softmax", rows * Block, "Gelem/s", func() {
			copy(s, scores)
			floats.Softmax(&tuned, s, m, l, alpha, nil, rows, f32.Log2E)
		}},
		{"softmax_masked", rows * Block, "Gelem/s", func() {
			copy(s, scores)
			floats.Softmax(&tuned, s, m, l, alpha, visible, rows, f32.Log2E)
		}},
		{"accumulate", float64(products * d), "GFLOP/s", func() {
			floats.Accumulate(&tuned, &sums, v, &layout)
		}},
		{"accumulate_masked", float64(products * d), "GFLOP/s", func() {
			floats.AccumulateMasked(&tuned, &sums, v, &layout)
		}},
	} {
		b.Run(fmt.Sprintf("%s/d=%d", pass.name, d), func(b *testing.B) {
			clear(m)
			clear(l)
			for b.Loop() {
				pass.call()
			}
			perSecond(b, pass.work, pass.unit)
		})
	}
}

// BenchmarkRagged compares sizes that fill no vectors, panels, blocks or tiles with a round size
// near them. It reports the rate of multiply-adds as a share of the round size's: the median over
// pairs of calls.
func BenchmarkRagged(b *testing.B) {
	square := func(l, d int) shape { return shape{1, 2, 1, l, l, d, d} }
	for _, c := range []struct {
		name        string
		odd, nearby shape
	}{
		{"L=1000/of=1024", square(1000, 64), square(1024, 64)},
		{"L=1023/of=1024", square(1023, 64), square(1024, 64)},
		{"L=1025/of=1024", square(1025, 64), square(1024, 64)},
		{"L=77/of=64", shape{1, 6, 1, 77, 77, 64, 64}, shape{1, 8, 1, 64, 64, 64, 64}},
		{"L=77/of=80", shape{1, 6, 1, 77, 77, 64, 64}, shape{1, 6, 1, 80, 80, 64, 64}},
		{"D=40/of=32", square(512, 40), square(512, 32)},
		{"D=40/of=48", square(512, 40), square(512, 48)},
		{"D=80/of=64", square(512, 80), square(512, 64)},
		{"D=96/of=64", square(512, 96), square(512, 64)},
		{"D=96/of=128", square(512, 96), square(512, 128)},
		{"D=112/of=128", square(512, 112), square(512, 128)},
		{"D=256/of=128", square(512, 256), square(512, 128)},
		{"D=64,Dv=128/of=64", shape{1, 2, 1, 512, 512, 64, 128}, square(512, 64)},
		{"D=128,Dv=64/of=128", shape{1, 2, 1, 512, 512, 128, 64}, square(512, 128)},
	} {
		for _, causal := range []Causal{Full, TopLeft} {
			name := c.name + map[Causal]string{Full: "/causal=false", TopLeft: "/causal=true"}[causal]
			b.Run(name, func(b *testing.B) {
				b.ReportMetric(efficiency(b, c.odd, c.nearby, causal), "of-nearby")
			})
		}
	}
}

// efficiency is the rate of one shape as a share of the rate of another.
func efficiency(b *testing.B, odd, nearby shape, causal Causal) float64 {
	perFlop := func(s shape) func() float64 {
		c := benchShape{"ragged", s, causal, 1}
		p := c.problem()
		dst := BHLD(make([]float32, len(p.q.Data)/s.d*s.dv), s.b, s.kvh, s.lq, s.dv)
		return func() float64 {
			start := time.Now()
			if err := Attend(dst, p.q, p.k, p.v, &p.opt); err != nil {
				b.Fatal(err)
			}
			return float64(time.Since(start)) / c.flops()
		}
	}
	x, y := perFlop(odd), perFlop(nearby)
	x()
	y()
	var ratios []float64
	for b.Loop() {
		a, b := x(), y()
		ratios = append(ratios, b/a)
	}
	return measure.Median(ratios)
}

// coldBytes is how many bytes of keys and values a benchmark goes through in each layout before it
// comes to the same ones again: in turns with two other layouts, several times what an L3 cache
// holds.
const coldBytes = 96 << 20

// coldCopies calls a function for one token over copies of a problem's keys and values in turn.
type coldCopies struct {
	name string
	n    int
	call func(i int) error
	took []time.Duration
}

// BenchmarkCold decodes a token over keys and values that are in no cache, from the layouts that
// callers may have. These take turns, so that they meet the same machine; each has the median of
// its rates, of bytes of keys and values, and views the medians of their ratios.
func BenchmarkCold(b *testing.B) {
	for _, s := range []shape{
		{1, 8, 2, 1, 2048, 128, 128},
		{1, 32, 1, 1, 2048, 128, 128},
		{1, 4, 4, 1, 4096, 64, 64},
	} {
		b.Run(fmt.Sprintf("H=%d/KVH=%d/Lk=%d/D=%d", s.kvh*s.group, s.kvh, s.lk, s.d), func(b *testing.B) {
			p := newProblem(random("cold"), normal, s)
			layouts := []*coldCopies{
				p.coldViews("BHLD", BHLD[float32]),
				p.coldViews("BLHD", func(x []float32, b, h, l, d int) Tensor { return BLHD(x, b, l, h, d) }),
				p.coldCaches(b),
			}
			for i := 0; b.Loop(); i++ {
				for _, l := range layouts {
					start := time.Now()
					if err := l.call(i % l.n); err != nil {
						b.Fatal(err)
					}
					l.took = append(l.took, time.Since(start))
				}
			}
			b.ReportMetric(0, "ns/op") // of all layouts together: says nothing
			for _, l := range layouts {
				b.ReportMetric(p.coldTokenBytes()/float64(measure.Median(l.took)), l.name+"-GB/s")
			}
			b.ReportMetric(ratioOfRates(layouts[1], layouts[0]), "BLHD/BHLD")
			b.ReportMetric(ratioOfRates(layouts[0], layouts[2]), "BHLD/Cache")
			b.ReportMetric(ratioOfRates(layouts[1], layouts[2]), "BLHD/Cache")
		})
	}
}

func (p *problem) coldTokenBytes() float64 { return 4 * float64(len(p.k.Data)+len(p.v.Data)) }

// coldCopiesOf is how many copies of keys and values are more than the caches hold.
func (p *problem) coldCopiesOf() int { return 1 + int(coldBytes/p.coldTokenBytes()) }

func (p *problem) coldViews(name string, view func(x []float32, b, h, l,
	d int) Tensor) *coldCopies {
	c := &coldCopies{name: name, n: p.coldCopiesOf()}
	var keys, values []Tensor
	for range c.n {
		keys = append(keys, view(slices.Clone(p.k.Data), p.k.B, p.k.H, p.k.L, p.k.D))
		values = append(values, view(slices.Clone(p.v.Data), p.v.B, p.v.H, p.v.L, p.v.D))
	}
	dst := zeros(p.q.B, p.q.H, p.q.L, p.v.D)
	c.call = func(i int) error { return Attend(dst, p.q, keys[i], values[i], &p.opt) }
	return c
}

func (p *problem) coldCaches(b *testing.B) *coldCopies {
	c := &coldCopies{name: "Cache", n: p.coldCopiesOf()}
	var caches []*Cache
	for range c.n {
		cache := p.benchCache(b, F32)
		if err := cache.Append(p.k, p.v); err != nil {
			b.Fatal(err)
		}
		caches = append(caches, cache)
	}
	dst := zeros(p.q.B, p.q.H, p.q.L, p.v.D)
	c.call = func(i int) error { return caches[i].Attend(dst, p.q, &p.opt) }
	return c
}

// ratioOfRates is the median of the ratios of a's rates to b's, turn by turn.
func ratioOfRates(a, b *coldCopies) float64 {
	ratios := make([]float64, len(a.took))
	for i := range ratios {
		ratios[i] = float64(b.took[i]) / float64(a.took[i])
	}
	return measure.Median(ratios)
}

// typedCacheShapes are the calls of BenchmarkTypes.
var typedCacheShapes = []struct {
	name                 string
	heads, kv, lq, lk, d int
}{
	{"decode", 32, 32, 1, 4096, 128},
	{"decode_gqa", 32, 8, 1, 4096, 128},
	{"prefill", 8, 8, 512, 2048, 128},
}

// randomCache is a cache of a type with random tokens.
func randomCache(b *testing.B, kind Format, kv, n, d int) *Cache {
	c, err := NewCache(CacheConfig{Batch: 1, KVHeads: kv, HeadDim: d, ValueDim: d, Capacity: n,
		Format: kind})
	must(b, err)
	b.Cleanup(func() { must(b, c.Close()) })
	must(b, c.Append(tensor(random("k"), normal, 1, kv, n, d),
		tensor(random("v"), normal, 1, kv, n, d)))
	return c
}

// BenchmarkTypes is a call over a cache of each type over the same call of a cache of float32, and
// a call of one thread over one of two.
func BenchmarkTypes(b *testing.B) {
	pool := NewPool(2)
	defer pool.Close()
	for _, s := range typedCacheShapes {
		for _, kind := range allFormats {
			c := randomCache(b, kind, s.kv, s.lk, s.d)
			q, dst := tensor(random("q"), normal, 1, s.heads, s.lq, s.d), zeros(1, s.heads, s.lq, s.d)
			call := func() error { return c.Attend(dst, q, &Options{Causal: BottomRight}) }
			if kind != F32 {
				f := randomCache(b, F32, s.kv, s.lk, s.d)
				b.Run(fmt.Sprintf("%s/type=%v/of=F32", s.name, kind), func(b *testing.B) {
					ratio(b, call, func() error { return f.Attend(dst, q, &Options{Causal: BottomRight}) })
				})
			}
			b.Run(fmt.Sprintf("%s/type=%v/of=2threads", s.name, kind), func(b *testing.B) {
				ratio(b, call, func() error {
					return pool.AttendCache(dst, q, c, &Options{Causal: BottomRight})
				})
			})
		}
	}
}

// BenchmarkLook compares calls whose masks or blocks show part of the keys with calls that read as
// many without them, in turns: the ratio of their times.
func BenchmarkLook(b *testing.B) {
	r := random("look")
	const d = 64
	p := newProblem(r, normal, shape{1, 8, 1, 1024, 4096, d, d})
	dst := zeros(1, 8, 1024, d)
	run := func(q, k, v, o Tensor, opt *Options) func() error {
		return func() error { return Attend(o, q, k, v, opt) }
	}
	row := make([]bool, 4096)
	fillWith(row[:256], true)
	b.Run("one row shows 256 of 4096, over KeyLens", func(b *testing.B) {
		m := Mask{row, 1, 1, 1024, 4096, 1, 1, Broadcast}
		ratio(b, run(p.q, p.k, p.v, dst, &Options{Mask: m}),
			run(p.q, p.k, p.v, dst, &Options{KeyLens: []int{256}}))
	})
	for _, n := range []int{1024, 4096} {
		lookAtPatterns(b, r, n)
	}
	long := newProblem(r, normal, shape{1, 1, 1, 8192, 8192, d, d})
	out := zeros(1, 1, 8192, d)
	blocks := BHLD(make([]bool, 128*128), 1, 1, 128, 128)
	for _, i := range r.Perm(len(blocks.Data))[:len(blocks.Data)/8] {
		blocks.Data[i] = true
	}
	b.Run("an eighth of the blocks, over all", func(b *testing.B) {
		ratio(b, run(long.q, long.k, long.v, out, &Options{Blocks: blocks}),
			run(long.q, long.k, long.v, out, nil))
	})
	token := newProblem(r, normal, shape{1, 8, 1, 1, 4096, 128, 128})
	c, err := filled(token.k, token.v)
	must(b, err)
	one, _, _ := token.results()
	clear(row)
	fillWith(row[640:704], true)
	m := BHLD(row, 1, 1, 1, 4096)
	short := newProblem(r, normal, shape{1, 8, 1, 1, 64, 128, 128})
	c64, err := filled(short.k, short.v)
	must(b, err)
	b.Run("decoding with one block of 64, over KeyLens", func(b *testing.B) {
		ratio(b, func() error { return c.Attend(one, token.q, &Options{Mask: m}) },
			func() error { return c64.Attend(one, token.q, &Options{KeyLens: []int{64}}) })
	})
}

// lookAtPatterns measures masks of n queries and keys, and biases that say the same.
func lookAtPatterns(b *testing.B, r *rand.Rand, n int) {
	const heads = 8
	p := newProblem(r, normal, shape{1, heads, 1, n, n, 64, 64})
	dst := zeros(1, heads, n, 64)
	run := func(opt *Options) func() error {
		return func() error { return Attend(dst, p.q, p.k, p.v, opt) }
	}
	whole := run(nil)
	for _, c := range []struct {
		name string
		over func() error
		see  func(i, j int) bool
	}{
		{"all false, over no mask", whole, func(i, j int) bool { return false }},
		{"all true, over no mask", whole, func(i, j int) bool { return true }},
		{"16 documents, over no mask", whole, func(i, j int) bool { return i/(n/16) == j/(n/16) }},
		{"16 ragged documents, over no mask", whole,
			func(i, j int) bool { return (i+7)/(n/16+1) == (j+7)/(n/16+1) }},
		{"half of the pairs, over no mask", whole, func(i, j int) bool { return r.IntN(2) == 0 }},
		{"causal, over Causal", run(&Options{Causal: TopLeft}),
			func(i, j int) bool { return j <= i }},
	} {
		mask, bias := BHLD(make([]bool, n*n), 1, 1, n, n), zeros(1, 1, n, n)
		for at := range mask.Data {
			if mask.Data[at] = c.see(at/n, at%n); !mask.Data[at] {
				bias.Data[at] = negInf
			}
		}
		b.Run(fmt.Sprintf("%d: %s", n, c.name), func(b *testing.B) {
			ratio(b, run(&Options{Mask: mask}), c.over)
		})
		b.Run(fmt.Sprintf("%d: Bias, %s", n, c.name), func(b *testing.B) {
			ratio(b, run(&Options{Bias: bias}), c.over)
		})
	}
	b.Run(fmt.Sprintf("%d: 16th of the keys by KeyLens, over no mask", n), func(b *testing.B) {
		ratio(b, run(&Options{KeyLens: []int{n / 16}}), whole)
	})
}

// BenchmarkTree compares trees of queries with as many causal ones: the ratio of their times.
func BenchmarkTree(b *testing.B) {
	r := random("trees")
	for _, c := range []struct{ heads, kv, lq, lk int }{{8, 8, 64, 8192}, {32, 8, 64, 8192},
		{8, 8, 8, 4096}, {32, 8, 8, 4096}, {2, 2, 4096, 4096}} {
		p := newProblem(r, normal, shape{1, c.kv, c.heads / c.kv, c.lq, c.lk, 128, 128})
		dst, causal := zeros(1, c.heads, c.lq, 128), &Options{Causal: BottomRight}
		branches := make([]int, c.lq) // two of each
		for i := range branches {
			branches[i] = (i - 1) / 2
		}
		branches[0] = -1
		slopes := make([]float32, c.heads)
		cache, err := filled(p.k, p.v)
		must(b, err)
		for _, t := range []struct {
			name string
			opt  Options
		}{{"branches", Options{Tree: branches}}, {"chain", Options{Tree: stretch(-1, c.lq-1)}},
			{"branches with slopes", Options{Tree: branches, Slopes: slopes}}} {
			name := fmt.Sprintf("%s/H=%d/KVH=%d/Lq=%d/Lk=%d", t.name, c.heads, c.kv, c.lq, c.lk)
			other := *causal
			other.Slopes = t.opt.Slopes
			b.Run("views/"+name, func(b *testing.B) {
				ratio(b, func() error { return Attend(dst, p.q, p.k, p.v, &t.opt) },
					func() error { return Attend(dst, p.q, p.k, p.v, &other) })
			})
			b.Run("cache/"+name, func(b *testing.B) {
				ratio(b, func() error { return cache.Attend(dst, p.q, &t.opt) },
					func() error { return cache.Attend(dst, p.q, &other) })
			})
		}
		must(b, cache.Close())
	}
}

// BenchmarkLists compares one query of 128 heads over 2048 of 131072 latent tokens with a call over
// 2048 tokens that lie together, in turns: the ratio of their times.
func BenchmarkLists(b *testing.B) {
	const heads, keys, listed, d, dv = 128, 131072, 2048, 576, 512
	r := random("lists")
	q, dst := tensor(r, normal, 1, heads, 1, d), zeros(1, heads, 1, dv)
	list := make([]int32, listed)
	for i, j := range r.Perm(keys)[:listed] {
		list[i] = int32(j)
	}
	slices.Sort(list)
	tokens := tensor(r, normal, 1, 1, listed, d)
	for _, format := range []Format{BF16, I8} {
		config := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: d, ValueDim: dv, Capacity: keys,
			Format: format, ValuesInKeys: true}
		scattered, err := NewCache(config)
		must(b, err)
		for range keys / listed {
			must(b, scattered.Append(tokens, Tensor{}))
		}
		config.Capacity = listed
		side, err := NewCache(config)
		must(b, err)
		must(b, side.Append(tokens, Tensor{}))
		for _, integers := range []bool{false, true}[:1+zeroIf(format != I8)] {
			b.Run(fmt.Sprintf("%v, integers %t", format, integers), func(b *testing.B) {
				ratio(b, func() error {
					return scattered.Attend(dst, q, &Options{Integers: integers,
						Keys: BHLD(list, 1, 1, 1, listed)})
				}, func() error { return side.Attend(dst, q, &Options{Integers: integers}) })
			})
		}
		must(b, scattered.Close())
		must(b, side.Close())
	}
}

// BenchmarkDocuments compares documents with calls of their own, and with a call of all queries and
// keys, in turns. Heads of a token are side by side, as projections make them, or apart.
func BenchmarkDocuments(b *testing.B) {
	const heads, d = 12, 64
	for _, c := range [][2]int{{16, 8}, {16, 16}, {16, 32}, {16, 64}, {16, 256}, {500, 8}} {
		n, each := c[0]*c[1], c[1]
		r := random("documents")
		x := tensor(r, normal, 1, 1, n, 4*heads*d).Data
		columns := func(i int) Tensor { return Rows(x[i*heads*d:], 1, n, heads, d, 4*heads*d) }
		p := newProblem(r, normal, shape{1, heads, 1, n, n, d, d})
		lens := make([]int, c[0])
		fillWith(lens, each)
		for layout, t := range map[string][4]Tensor{
			"side by side": {columns(3), columns(0), columns(1), columns(2)},
			"apart":        {zeros(1, heads, n, d), p.q, p.k, p.v},
		} {
			by := func() error { return Attend(t[0], t[1], t[2], t[3], &Options{Documents: lens}) }
			b.Run(fmt.Sprintf("%d of %d %s, over as many calls", c[0], each, layout),
				func(b *testing.B) {
					ratio(b, by, func() error {
						for i := range c[0] {
							one := func(j int) Tensor { return t[j].Slice(i*each, i*each+each) }
							if err := Attend(one(0), one(1), one(2), one(3), nil); err != nil {
								return err
							}
						}
						return nil
					})
				})
			if c[0] == 16 {
				b.Run(fmt.Sprintf("16 of %d %s, over a call of all", each, layout), func(b *testing.B) {
					ratio(b, by, func() error { return Attend(t[0], t[1], t[2], t[3], nil) })
				})
			}
		}
	}
}

// BenchmarkEncoderBatch compares texts of log-uniform length by Documents with a batch that is
// padded to the longest of them: attention with KeyLens and QueryLens, and a whole layer of a BERT
// of 768 channels, whose products have a row for each token of padding.
func BenchmarkEncoderBatch(b *testing.B) {
	const texts, most, heads, d = 16, 512, 12, 64
	r := random("texts")
	lens := make([]int, texts)
	total := 0
	for i := range lens {
		lens[i] = int(8 * math.Pow(most/8, r.Float64()))
		total += lens[i]
	}
	lens[0], total = most, total+most-lens[0]
	const channels = heads * d
	var weights [4]*Matrix // Q, K and V; what joins heads; up; down
	for i, s := range [4][2]int{{channels, 3 * channels}, {channels, channels},
		{channels, 4 * channels}, {4 * channels, channels}} {
		m, err := PackMatrix(tensor(r, normal, 1, 1, s[0], s[1]), MatrixConfig{})
		must(b, err)
		weights[i] = m
	}
	x := tensor(r, normal, 1, 1, texts*most, channels).Data
	qkv, joined, wide := zeros(1, 1, texts*most, 3*channels).Data,
		zeros(1, 1, texts*most, channels).Data, zeros(1, 1, texts*most, 4*channels).Data
	attention := func(batch, n int, opt *Options) error {
		part := func(i int) Tensor { return Rows(qkv[i*channels:], batch, n, heads, d, 3*channels) }
		return Attend(BLHD(joined, batch, n, heads, d), part(0), part(1), part(2), opt)
	}
	layer := func(batch, n int, opt *Options) error {
		rows := func(x []float32, width int) Tensor { return BHLD(x, 1, 1, batch*n, width) }
		return errors.Join(
			weights[0].MatMul(rows(qkv, 3*channels), rows(x, channels), nil),
			attention(batch, n, opt),
			weights[1].MatMul(rows(qkv, channels), rows(joined, channels), nil),
			weights[2].MatMul(rows(wide, 4*channels), rows(qkv, channels), nil),
			weights[3].MatMul(rows(joined, channels), rows(wide, 4*channels), nil))
	}
	for name, call := range map[string]func(batch, n int, opt *Options) error{
		"attention": attention, "a layer": layer,
	} {
		b.Run(name, func(b *testing.B) {
			ratio(b, func() error { return call(texts, most, &Options{KeyLens: lens, QueryLens: lens}) },
				func() error { return call(1, total, &Options{Documents: lens}) })
		})
	}
	b.Run("attention, over calls of each text", func(b *testing.B) {
		ratio(b, func() error { return attention(1, total, &Options{Documents: lens}) }, func() error {
			at := 0
			for _, n := range lens {
				part := func(i int) Tensor {
					return Rows(qkv[at*3*channels+i*channels:], 1, n, heads, d, 3*channels)
				}
				err := Attend(BLHD(joined[at*channels:], 1, n, heads, d), part(0), part(1), part(2), nil)
				if at += n; err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// BenchmarkInt4 is a call over a cache of I4, or of I8 with values in I4, over the same call over
// one of I8, in turns.
func BenchmarkInt4(b *testing.B) {
	for _, s := range []struct {
		name  string
		shape shape
	}{
		{"decode", shape{1, 32, 1, 1, 4096, 128, 128}},
		{"grouped", shape{1, 8, 4, 1, 4096, 128, 128}},
		{"short", shape{1, 8, 4, 1, 256, 128, 128}},
		{"prefill", shape{1, 8, 1, 1024, 1024, 128, 128}},
		{"prefill/d=64", shape{1, 8, 1, 1024, 1024, 64, 64}},
	} {
		p := newProblem(random(b.Name()), normal, s.shape)
		p.q, p.k, p.v = contiguous(p.q), contiguous(p.k), contiguous(p.v)
		bytes, err := formatPair{I8, I8}.filled(p.k, p.v)
		must(b, err)
		dst, _, _ := p.results()
		for _, f := range []formatPair{{I4, I4}, {I8, I4}} {
			c, err := f.filled(p.k, p.v)
			must(b, err)
			for _, integers := range []bool{true, false} {
				opt := &Options{Causal: BottomRight, Integers: integers}
				b.Run(fmt.Sprintf("%s/%v/integers=%v", s.name, f, integers), func(b *testing.B) {
					ratio(b, func() error { return c.Attend(dst, p.q, opt) },
						func() error { return bytes.Attend(dst, p.q, opt) })
				})
			}
			must(b, c.Close())
		}
		must(b, bytes.Close())
	}
}
