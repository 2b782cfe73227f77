package attn

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/tuning"
)

// tuningTrial is a field of tuning.Row with values to try, and the calls that depend on it.
type tuningTrial struct {
	field  string
	values []int // of a bool 0 and 1
	set    func(row *tuning.Row, value int)
	calls  []tuningCall
}

// tuningCall is attention over views, a cache or a store, or a product by a matrix of float32.
type tuningCall struct {
	// kind is "views", "softcap" and "bias" of views, "beside" with heads side by side, "cache",
	// "store" with b sequences whose pages alternate, or "matrix" of lk × d.
	kind string
	shape
	causal Causal
}

func (c tuningCall) name() string {
	name := fmt.Sprintf("%s/B=%d/H=%d/group=%d/Lq=%d/Lk=%d/D=%d", c.kind, c.b, c.kvh,
		c.group, c.lq, c.lk, c.d)
	if c.causal != Full {
		name += "/causal"
	}
	return name
}

// make returns the call.
func (c tuningCall) make(b *testing.B) func() error {
	p := newProblem(random("tuning"), normal, c.shape)
	dst, _, _ := p.results()
	p.opt.Causal = c.causal
	switch c.kind {
	case "softcap":
		p.opt.Softcap = 30
	case "bias":
		p.opt.Bias = tensor(random("bias"), normal, 1, 1, c.lq, c.lk)
	case "beside":
		p.k, p.v = tokenMajor(p.k), tokenMajor(p.v)
	case "cache":
		cache := p.benchCache(b, F32)
		must(b, cache.Append(p.k, p.v))
		return func() error { return cache.Attend(dst, p.q, &p.opt) }
	case "store":
		return p.storeCall(b, dst)
	case "matrix":
		m, err := PackMatrix(p.k, MatrixConfig{Transposed: true})
		must(b, err)
		b.Cleanup(func() { m.Close() })
		product := zeros(1, 1, c.lq, c.lk)
		return func() error { return m.MatMul(product, p.q, nil) }
	}
	return func() error { return Attend(dst, p.q, p.k, p.v, &p.opt) }
}

// storeCall is a call over one sequence for each batch entry, of one query each.
func (p *problem) storeCall(b *testing.B, dst Tensor) func() error {
	n, heads := p.q.B, p.q.H
	s, err := NewStore(StoreConfig{KVHeads: p.k.H, HeadDim: p.k.D, ValueDim: p.v.D,
		Pages: n * (p.k.L + Block - 1) / Block})
	must(b, err)
	b.Cleanup(func() { s.Close() })
	seqs := make([]*Sequence, n)
	for i := range seqs {
		seqs[i] = s.NewSequence()
	}
	for at := 0; at < p.k.L; at += Block {
		for _, seq := range seqs {
			filledSequence(b, seq, min(Block, p.k.L-at))
		}
	}
	q, to := BHLD(p.q.Data, 1, heads, n, p.q.D), BHLD(dst.Data, 1, heads, n, p.v.D)
	return func() error { return AttendSequences(to, q, seqs, &Options{Causal: BottomRight}) }
}

// BenchmarkTuning is the time of calls with another value of a field of the row of this CPU over
// that with the value that the row has, which tells noise where both are the same. One thread:
//
//	GOMAXPROCS=1 go test -run '^$' -bench 'Tuning/PrefetchOne' .
func BenchmarkTuning(b *testing.B) {
	for _, trial := range tuningTrials {
		b.Run(trial.field, func(b *testing.B) {
			for _, c := range trial.calls {
				b.Run(c.name(), func(b *testing.B) { trial.run(b, c.make(b)) })
			}
		})
	}
}

func (x *tuningTrial) run(b *testing.B, call func() error) {
	own := tuned
	defer func() { tuned = own }()
	for _, value := range x.values {
		other := own
		x.set(&other, value)
		must(b, other.Check())
		b.Run(fmt.Sprint("value=", value), func(b *testing.B) {
			ratio(b, func() error { tuned = other; return call() },
				func() error { tuned = own; return call() })
		})
	}
}

var tuningTrials = []tuningTrial{
	{"PrefetchOne", []int{256, 4096, 6144, 8192, 12288},
		func(row *tuning.Row, n int) { row.PrefetchOne = n }, panelCalls(1, 2)},
	{"PrefetchFew", []int{256, 4096, 6144, 8192, 12288},
		func(row *tuning.Row, n int) { row.PrefetchFew = n }, panelCalls(3, 4, 5)},
	{"PrefetchRun", []int{0, 4096, 8192}, func(row *tuning.Row, n int) { row.PrefetchRun = n },
		panelCalls(3, 4, 5)},
	{"OnePanel", []int{0, 1}, func(row *tuning.Row, n int) { row.OnePanel = n > 0 },
		panelCalls(2, 3)},
	{"FourPanels", []int{0, 1}, func(row *tuning.Row, n int) { row.FourPanels = n > 0 },
		panelCalls(1)},
	{"FewRows", []int{64, 96, 128, 256}, func(row *tuning.Row, n int) { row.FewRows = n },
		slices.Concat(callsOf("beside", 4096, 16, 16, 32, 56, 80, 112, 192),
			callsOf("beside", 512, 32, 80, 112), callsOf("beside", 2048, 4, 80, 112))},
	{"MinRows16", []int{2, math.MaxInt}, func(row *tuning.Row, n int) { row.MinRows16 = n },
		slices.Concat(callsOf("views", 1024, 4, 2, 4), callsOf("views", 4096, 16, 2, 4),
			panelCalls(2, 4, 6, 8, 12, 16))},
	{"MinPacked16", []int{2, 13, math.MaxInt},
		func(row *tuning.Row, n int) { row.MinPacked16 = n }, packedCalls},
	{"MinPagedPanels", []int{0, 6}, func(row *tuning.Row, n int) { row.MinPagedPanels = n },
		panelCalls(5, 6, 7, 8, 12, 16, 24)},
	{"MaximaInScore", []int{0, 1}, func(row *tuning.Row, n int) { row.MaximaInScore = n > 0 },
		slices.Concat(prefillCalls, optionCalls)},
	{"QuarterSteps", []int{0, 1}, func(row *tuning.Row, n int) { row.QuarterSteps = n > 0 },
		prefillCalls},
	{"TileRows", []int{48, 96}, func(row *tuning.Row, n int) { row.TileRows = n }, prefillCalls},
}

// prefillCalls are calls of many rows.
var prefillCalls = []tuningCall{
	{"views", shape{1, 8, 1, 1024, 1024, 64, 64}, Full},
	{"views", shape{1, 8, 1, 1024, 1024, 64, 64}, TopLeft},
	{"views", shape{1, 4, 1, 1024, 1024, 128, 128}, Full},
	{"views", shape{8, 12, 1, 128, 128, 64, 64}, Full},
	{"cache", shape{1, 8, 1, 512, 1024, 64, 64}, BottomRight},
}

// optionCalls are calls of many rows whose scores are more than products, so that whole blocks do
// not go from kernel to kernel.
var optionCalls = []tuningCall{
	{"softcap", shape{1, 8, 1, 512, 512, 64, 64}, Full},
	{"softcap", shape{8, 12, 1, 128, 128, 64, 64}, Full},
	{"softcap", shape{1, 4, 1, 1024, 1024, 128, 128}, Full},
	{"bias", shape{1, 8, 1, 512, 512, 64, 64}, Full},
	{"bias", shape{1, 8, 1, 1024, 1024, 64, 64}, TopLeft},
	{"bias", shape{1, 4, 1, 1024, 1024, 128, 128}, Full},
}

// packedCalls are calls over views for which keys are packed, since there are rows enough.
var packedCalls = slices.Concat(callsOf("views", 1024, 4, 8, 12, 16, 32, 52),
	callsOf("views", 4096, 16, 8, 12), callsOf("beside", 4096, 16, 8, 12), prefillCalls)

// callsOf is calls of some rows for each of some heads, of D = 64 and 128.
func callsOf(kind string, lk, heads int, rows ...int) (calls []tuningCall) {
	for _, n := range rows {
		for _, d := range []int{64, 128} {
			calls = append(calls, tuningCall{kind, shape{1, heads, 1, n, lk, d, d}, Full})
		}
	}
	return calls
}

// panelCalls is calls of some rows over packed panels, out of memory and out of caches.
func panelCalls(rows ...int) (calls []tuningCall) {
	for _, n := range rows {
		calls = append(calls,
			tuningCall{"cache", shape{1, 64, n, 1, 4096, 128, 128}, Full},
			tuningCall{"cache", shape{1, 16, n, 1, 4096, 128, 128}, Full},
			tuningCall{"cache", shape{1, 32, n, 1, 4096, 64, 64}, Full},
			tuningCall{"store", shape{16, 8, n, 1, 512, 128, 128}, Full},
			tuningCall{"matrix", shape{1, 1, 1, n, 4096, 4096, 1}, Full},
			tuningCall{"cache", shape{1, 8, n, 1, 1024, 128, 128}, Full},
			tuningCall{"cache", shape{1, 1, n, 1, 512, 128, 128}, Full},
			tuningCall{"store", shape{4, 8, n, 1, 128, 128, 128}, Full},
			tuningCall{"matrix", shape{1, 1, 1, n, 512, 512, 1}, Full})
	}
	return calls
}
