package attn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/dev/guard"
	"github.com/seed-1415985d/attn/internal/dev/reference"
	"github.com/seed-1415985d/attn/internal/frames"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/matmul"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// problem is one attention call. Its tensors are contiguous [B,H,L,D].
type problem struct {
	q, k, v Tensor
	opt     Options

	// repeat says over which of B, H and L each input repeats itself, where
	// Broadcast may describe it as well.
	repeat [5][3]bool // q, k, v, Mask, Bias
}

// attender is Attend or another way to compute the same.
type attender func(dst, q, k, v Tensor, opt *Options) error

// result is what a call writes, contiguous.
type result struct{ o, lse, weights []float32 }

func (p *problem) describe() string {
	o := p.opt
	text := fmt.Sprintf("B=%d H=%d KVH=%d Lq=%d Lk=%d D=%d Dv=%d Scale=%v Causal=%v Offset=%d "+
		"Window=%v Softcap=%v QueryLens=%v KeyLens=%v Documents=%v KeyDocuments=%v",
		p.q.B, p.q.H, p.k.H, p.q.L, p.k.L, p.q.D, p.v.D, o.Scale, o.Causal, o.Offset, o.Window,
		o.Softcap, o.QueryLens, o.KeyLens, o.Documents, o.KeyDocuments)
	for name, is := range map[string]bool{"Mask": !o.Mask.none(), "Bias": !o.Bias.none(),
		fmt.Sprintf("Distance=%v+%v+%d", dims(o.Distance.Query), dims(o.Distance.Key),
			len(o.Distance.Buckets)): !o.Distance.none(),
		"Slopes": o.Slopes != nil, "Sinks": o.Sinks != nil, "Blocks": !o.Blocks.none(),
		"Integers": o.Integers, "BFloat16": o.BFloat16,
		fmt.Sprintf("Keys=%d×%d×%d", o.Keys.B, o.Keys.H, o.Keys.D): !o.Keys.none()} {
		if is {
			text += " " + name
		}
	}
	if o.Tree != nil {
		text += fmt.Sprintf(" Tree=%v", o.Tree)
	}
	return text
}

// dims is the dimensions of a view.
func dims(x Tensor) [4]int { return [4]int{x.B, x.H, x.L, x.D} }

// tensor returns a contiguous tensor of random values.
func tensor(r *rand.Rand, kind distribution, b, h, l, d int) Tensor {
	t := zeros(b, h, l, d)
	kind.Fill(r, t.Data)
	return t
}

// shape is the dimensions of a problem.
type shape struct{ b, kvh, group, lq, lk, d, dv int }

// newProblem returns a problem without options.
func newProblem(r *rand.Rand, kind distribution, s shape) *problem {
	h := s.kvh * s.group
	return &problem{
		q: tensor(r, kind, s.b, h, s.lq, s.d),
		k: tensor(r, kind, s.b, s.kvh, s.lk, s.d),
		v: tensor(r, kind, s.b, s.kvh, s.lk, s.dv),
	}
}

// length draws a length: mostly small, sometimes around the edges of blocks.
func length(r *rand.Rand, most int) int {
	n := 1 + r.IntN(most)
	switch r.IntN(4) {
	case 0:
		n = 1 + r.IntN(min(most, 20))
	case 1:
		n = Block*(1+r.IntN(3)) + r.IntN(3) - 1
	}
	return min(n, most)
}

// moderate is the work, in multiplications, that the generic code does in a few milliseconds.
const moderate = 600_000

// randomShape draws dimensions that take at most some multiplications.
func randomShape(r *rand.Rand, most int) shape {
	s := shape{1 + r.IntN(3), 1 + r.IntN(3), 1 + r.IntN(4), length(r, 100), length(r, 300),
		length(r, 99), length(r, 99)}
	switch r.IntN(7) {
	case 3:
		return largeHeads(r, s, most)
	case 0: // more than one segment of keys
		s.lk = Segment - 70 + r.IntN(Segment+200)
	case 1: // decode
		s.lq = 1 + r.IntN(3)
	case 2: // dimensions of models
		s.d = 8 << r.IntN(4)
		s.dv = s.d
	}
	for s.b*s.kvh*s.group*s.lq*s.lk*(s.d+s.dv) > most {
		switch r.IntN(7) {
		case 0:
			s.b = (s.b + 1) / 2
		case 1:
			s.kvh = (s.kvh + 1) / 2
		case 2:
			s.group = (s.group + 1) / 2
		case 3:
			s.lq = (s.lq + 1) / 2
		case 4:
			s.d = (s.d + 1) / 2
		case 5:
			s.dv = (s.dv + 1) / 2
		case 6:
			if most < moderate { // else keep some with several segments
				s.lk = (s.lk + 1) / 2
			}
		}
	}
	return s
}

// largeHeads draws dimensions of models, or larger ones than one call of a kernel may have, and
// more than one block of keys.
func largeHeads(r *rand.Rand, s shape, most int) shape {
	dims := [][2]int{{128, 128}, {256, 64}, {576, 512}, {kernel.CallInner + 9, 40}}[r.IntN(4)]
	s.b, s.kvh, s.lk, s.d, s.dv = 1, 1, Block+1+r.IntN(Block), dims[0], dims[1]
	rows := max(1, most/(s.lk*(s.d+s.dv)))
	s.group = min(s.group, rows)
	s.lq = min(s.lq, rows/s.group)
	return s
}

// randomProblem draws a problem with a random composition of all options.
func randomProblem(r *rand.Rand, kind distribution) *problem {
	return problemOf(r, kind, randomShape(r, moderate))
}

// problemOf draws a problem of a given shape.
func problemOf(r *rand.Rand, kind distribution, s shape) *problem {
	p := newProblem(r, kind, s)
	p.randomRepeats(r)
	p.randomPositions(r)
	b, h, lq, lk := p.q.B, p.q.H, p.q.L, p.k.L
	if r.IntN(4) == 0 {
		p.opt.Scale = float32(r.NormFloat64())
	}
	if r.IntN(4) == 0 {
		p.opt.Softcap = 0.5 + 30*r.Float32()
	}
	if r.IntN(3) == 0 {
		p.opt.Mask = p.randomMask(r)
	}
	if r.IntN(3) == 0 {
		bias := tensor(r, kind, oneOr(r, b), oneOr(r, h), lq, lk)
		for range r.IntN(lq * lk) {
			bias.Data[r.IntN(len(bias.Data))] = negInf
		}
		p.opt.Bias = bias
		p.repeat[4] = [3]bool{bias.B == 1, bias.H == 1, lq == 1}
	}
	if r.IntN(4) == 0 {
		p.opt.Slopes = tensor(r, normal, 1, 1, 1, h).Data
	}
	if r.IntN(4) == 0 {
		p.opt.Sinks = tensor(r, normal, 1, 1, 1, h).Data
	}
	return p
}

func oneOr(r *rand.Rand, n int) int {
	if r.IntN(3) == 0 {
		return 1
	}
	return n
}

// randomRepeats makes inputs repeat themselves over some dimensions.
func (p *problem) randomRepeats(r *rand.Rand) {
	for n, t := range []*Tensor{&p.q, &p.k, &p.v} {
		if r.IntN(4) != 0 {
			continue
		}
		over := [3]bool{r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(4) == 0}
		p.repeat[n] = over
		for at := range t.B * t.H * t.L {
			b, h, i := at/t.L/t.H, at/t.L%t.H, at%t.L
			from := t.row(b*zeroIf(over[0]), h*zeroIf(over[1]), i*zeroIf(over[2]))
			copy(t.row(b, h, i), from)
		}
	}
}

func zeroIf(is bool) int {
	if is {
		return 0
	}
	return 1
}

// randomPositions draws what decides by position which keys are visible.
func (p *problem) randomPositions(r *rand.Rand) {
	o := &p.opt
	o.Causal = Causal(r.IntN(3))
	if o.Causal != BottomRight && r.IntN(2) == 0 {
		o.Offset = r.IntN(2*p.k.L+1) - p.k.L/2
	}
	if r.IntN(3) == 0 {
		o.Window = Window{r.IntN(p.k.L + 2), r.IntN(p.k.L + 2)}
	}
	if r.IntN(4) == 0 {
		o.KeyLens = lengths(r, p.q.B, p.k.L)
	}
	if r.IntN(4) == 0 {
		o.QueryLens = lengths(r, p.q.B, p.q.L)
	}
}

func lengths(r *rand.Rand, n, most int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = r.IntN(most + 1)
	}
	return s
}

func (p *problem) randomMask(r *rand.Rand) Mask {
	b, h := oneOr(r, p.q.B), oneOr(r, p.q.H)
	mask := BHLD(make([]bool, b*h*p.q.L*p.k.L), b, h, p.q.L, p.k.L)
	every := 1 + r.IntN(5)
	for i := range mask.Data {
		mask.Data[i] = r.IntN(every+1) != 0
	}
	if r.IntN(2) == 0 { // whole rows and runs of keys
		for range 4 {
			row := mask.row(r.IntN(b), r.IntN(h), r.IntN(mask.L))
			clear(row[r.IntN(len(row)):])
		}
	}
	p.repeat[3] = [3]bool{b == 1, h == 1, mask.L == 1}
	return mask
}

// reference returns the problem as the reference understands it.
func (p *problem) reference() *reference.Call {
	o := &p.opt
	c := &reference.Call{
		B: p.q.B, H: p.q.H, KVH: p.k.H, Lq: p.q.L, Lk: p.k.L, D: p.q.D, Dv: p.v.D,
		Q: p.q.Data, K: p.k.Data, V: p.v.Data,
		Scale: float64(o.Scale), Softcap: float64(o.Softcap),
		Causal: o.Causal == TopLeft, BottomRight: o.Causal == BottomRight, Offset: o.Offset,
		Left: o.Window.Left - 1, Right: o.Window.Right - 1, // its own: −1 is unbounded
		Slopes: o.Slopes, Sinks: o.Sinks, QueryLens: o.QueryLens, KeyLens: o.KeyLens,
	}
	if !o.Mask.none() {
		c.Mask = expand(o.Mask, p.q.B, p.q.H)
	}
	if !o.Bias.none() {
		c.Bias = expand(o.Bias, p.q.B, p.q.H)
	}
	return c
}

// expand repeats a contiguous view over b batches and h heads.
func expand[T any](v View[T], b, h int) []T {
	var out []T
	for at := range b * h * v.L {
		out = append(out, v.row(at/v.L/h%v.B, at/v.L%h%v.H, at%v.L)...)
	}
	return out
}

// results allocates what a call writes, filled with NaN.
func (p *problem) results() (dst, weights Tensor, lse []float32) {
	b, h, lq, keys := p.q.B, p.q.H, p.q.L, p.k.L
	if !p.opt.Keys.none() {
		keys = p.opt.Keys.D
	}
	dst = zeros(b, h, lq, p.v.D)
	weights = zeros(b, h, lq, keys)
	lse = make([]float32, b*h*lq)
	for _, x := range [][]float32{dst.Data, weights.Data, lse} {
		fillWith(x, nan32())
	}
	return dst, weights, lse
}

// solve computes the problem from contiguous tensors.
func (p *problem) solve(t testing.TB, attend attender) *result {
	dst, weights, lse := p.results()
	opt := p.opt
	opt.LSE, opt.Weights = lse, weights
	if err := attend(dst, p.q, p.k, p.v, &opt); err != nil {
		t.Helper()
		t.Fatalf("%s: %v", p.describe(), err)
	}
	return &result{dst.Data, lse, weights.Data}
}

// same fails the test unless two results have the same bits.
func (p *problem) same(t testing.TB, what string, got, want *result) {
	for _, part := range [...]struct {
		name      string
		got, want []float32
	}{{"output", got.o, want.o}, {"LSE", got.lse, want.lse}, {"weights", got.weights, want.weights}} {
		if len(part.got) != len(part.want) {
			t.Helper()
			t.Fatalf("%s: %s has %d elements, want %d", what, part.name, len(part.got), len(part.want))
		}
		if i := firstDifference(part.got, part.want); i >= 0 {
			t.Helper()
			t.Fatalf("%s: %s element %d is %v (%#08x), want %v (%#08x)\n%s", what, part.name, i,
				part.got[i], math.Float32bits(part.got[i]), part.want[i], math.Float32bits(part.want[i]),
				p.describe())
		}
	}
}

// repeated is a view of which every row is the first d elements of data.
func repeated(data []float32, b, h, l, d int) Tensor {
	return Tensor{data, b, h, l, d, Broadcast, Broadcast, Broadcast}
}

// scatter copies a contiguous view to guarded memory with random strides,
// random order of the dimensions and gaps full of filler. Where the view
// repeats itself the stride may be Broadcast, and where a dimension is 1 it may be anything. Some
// views are contiguous and have no strides.
func scatter[T guard.Elem](r *rand.Rand, pool *[]*guard.Buffer[T], used *int, v View[T],
	repeat [3]bool, filler T) (write, read View[T]) {
	counts := [3]int{v.B, v.H, v.L}
	var strides [3]int
	extent, inside := v.D, v.D
	order, contiguous := r.Perm(3), r.IntN(4) == 0
	if contiguous {
		order, repeat = []int{2, 1, 0}, [3]bool{}
	}
	for _, i := range order {
		if repeat[i] && r.IntN(3) != 0 {
			continue
		}
		if strides[i] = inside; !contiguous {
			strides[i] += r.IntN(2) * r.IntN(10)
		}
		inside = strides[i] * counts[i]
		extent += strides[i] * (counts[i] - 1)
	}
	write = View[T]{B: v.B, H: v.H, L: v.L, D: v.D, SB: strides[0], SH: strides[1], SL: strides[2]}
	if v.empty() {
		return write, write
	}
	read = write
	for i, stride := range []*int{&read.SB, &read.SH, &read.SL} {
		switch {
		case contiguous:
			*stride = 0
		case counts[i] == 1 && r.IntN(2) == 0:
			*stride = []int{-7, 0, 1, math.MinInt, math.MaxInt}[r.IntN(5)]
		case strides[i] == 0:
			*stride = Broadcast
		}
	}
	write.Data, read.Data = kerneltest.Place(r, pool, used, extent)
	fillWith(write.Data, filler)
	for at := range v.B * v.H * v.L {
		b, h, i := at/v.L/v.H, at/v.L%v.H, at%v.L
		copy(write.row(b, h, i), v.row(b, h, i))
	}
	return write, read
}

// solveStrided computes the problem from tensors with random strides between
// guard pages to an output of the same kind. It fails if a gap was written to.
func (p *problem) solveStrided(t testing.TB, r *rand.Rand, a *kerneltest.Arena,
	attend attender) *result {
	a.Used = [3]int{}
	nan := float32(math.NaN())
	floats := func(v Tensor, n int) Tensor {
		_, read := scatter(r, &a.Floats, &a.Used[0], v, p.repeat[n], nan)
		return read
	}
	opt := p.opt
	q, k, v := floats(p.q, 0), floats(p.k, 1), floats(p.v, 2)
	if !opt.Mask.none() {
		_, mask := scatter(r, &a.Bools, &a.Used[2], opt.Mask, p.repeat[3], true)
		opt.Mask = mask
	}
	if !opt.Bias.none() {
		bias := floats(opt.Bias, 4)
		opt.Bias = bias
	}
	for _, x := range []*Tensor{&opt.Distance.Query, &opt.Distance.Key} {
		if !x.none() {
			_, *x = scatter(r, &a.Floats, &a.Used[0], *x, [3]bool{}, nan)
		}
	}
	const canary = 12345
	dst, weights, lse := p.results()
	o, _ := scatter(r, &a.Floats, &a.Used[0], dst, [3]bool{}, canary)
	w, _ := scatter(r, &a.Floats, &a.Used[0], weights, [3]bool{}, canary)
	opt.LSE, opt.Weights = lse, w
	if err := attend(o, q, k, v, &opt); err != nil {
		t.Helper()
		t.Fatalf("%s: %v", p.describe(), err)
	}
	gather(t, dst, o, canary)
	gather(t, weights, w, canary)
	return &result{dst.Data, lse, weights.Data}
}

// gather copies an output with gaps to a contiguous view and checks the gaps.
func gather(t testing.TB, dst, from Tensor, canary float32) {
	if dst.empty() {
		return
	}
	for at := range dst.B * dst.H * dst.L {
		b, h, i := at/dst.L/dst.H, at/dst.L%dst.H, at%dst.L
		row := from.row(b, h, i)
		copy(dst.row(b, h, i), row)
		fillWith(row, canary)
	}
	for i, e := range from.Data {
		if e != canary {
			t.Helper()
			t.Fatalf("element %d, in a gap of an output, was overwritten with %v", i, e)
		}
	}
}

// randomOptions draws options for a call that may have no keys.
func randomOptions(r *rand.Rand, batch, heads, lq, lk int) *Options {
	opt := &Options{Causal: Causal(r.IntN(3))}
	if opt.Causal == TopLeft {
		opt.Offset = r.IntN(lk+1) - lq/2
	}
	if r.IntN(3) == 0 {
		opt.Window = Window{Left: r.IntN(lk + 2), Right: r.IntN(lk + 2)}
	}
	if r.IntN(3) == 0 {
		opt.KeyLens = lengths(r, batch, lk)
	}
	if r.IntN(4) == 0 {
		opt.QueryLens = lengths(r, batch, lq)
	}
	if r.IntN(4) == 0 {
		opt.Softcap = 3
	}
	if r.IntN(4) == 0 {
		opt.Slopes = tensor(r, normal, 1, 1, 1, heads).Data
	}
	if r.IntN(4) == 0 {
		opt.Sinks = tensor(r, normal, 1, 1, 1, heads).Data
	}
	if r.IntN(4) == 0 && lk > 0 {
		bias := tensor(r, normal, 1, heads, lq, lk)
		opt.Bias = bias
	}
	if r.IntN(4) == 0 && lk > 0 {
		bits := make([]bool, batch*lq*lk)
		for i := range bits {
			bits[i] = r.IntN(3) > 0
		}
		mask := BHLD(bits, batch, 1, lq, lk)
		opt.Mask = mask
	}
	return opt
}

// drawProducts draws the arithmetic of products over views.
func (o *Options) drawProducts(r *rand.Rand) {
	n := r.IntN(4)
	o.Integers, o.BFloat16 = n == 0, n == 1
}

// drawProductsOver is drawProducts over a cache or store.
func (o *Options) drawProductsOver(r *rand.Rand, f formatPair) {
	for o.drawProducts(r); !o.multiplies(f); o.drawProducts(r) {
	}
}

// multiplies reports whether the options are for keys and values in two formats.
func (o *Options) multiplies(f formatPair) bool {
	return !(o.Integers && min(f.keys, f.values) < I8 || o.BFloat16 && max(f.keys, f.values) >= I8)
}

// rowsOf is rows [i, i+n) of a view.
func rowsOf[T any](v View[T], i, n int) View[T] {
	return v.Slice(i, i+n)
}

// randomKind draws a kind of inputs: often what models compute with, otherwise something extreme.
func randomKind(r *rand.Rand) distribution {
	return []distribution{normal, normal, normal, special, coarse, huge, tiny, zeroes}[r.IntN(8)]
}

// selection is some rows of a problem: batch entries, query heads, queries from first on.
type selection struct {
	batches, heads []int
	first, count   int
}

// pick gathers parts of a view into a contiguous one. A view of one batch
// entry or head stands for all.
func pick[T any](v View[T], batches, heads []int, first, count int) View[T] {
	out := BHLD(make([]T, len(batches)*len(heads)*count*v.D), len(batches), len(heads), count, v.D)
	for b, fromB := range batches {
		for h, fromH := range heads {
			for i := range count {
				copy(out.row(b, h, i), v.row(fromB%v.B, fromH%v.H, first+i))
			}
		}
	}
	return out
}

// part is the problem of the selected rows alone. If the selection has not
// all queries, it has one batch entry.
func (p *problem) part(s selection) *problem {
	group := p.q.H / p.k.H
	var kv []int
	for _, h := range s.heads {
		if len(kv) == 0 || kv[len(kv)-1] != h/group {
			kv = append(kv, h/group)
		}
	}
	out := &problem{
		q: pick(p.q, s.batches, s.heads, s.first, s.count),
		k: pick(p.k, s.batches, kv, 0, p.k.L),
		v: pick(p.v, s.batches, kv, 0, p.k.L),
	}
	o := &out.opt
	*o = p.opt
	if s.count != p.q.L { // say explicitly where the queries are
		o.Offset = p.reference().Position(s.batches[0], s.first)
		if o.Causal == BottomRight {
			o.Causal = TopLeft
		}
	}
	if !o.Mask.none() {
		mask := pick(o.Mask, s.batches, s.heads, s.first, s.count)
		o.Mask = mask
	}
	if !o.Bias.none() {
		bias := pick(o.Bias, s.batches, s.heads, s.first, s.count)
		o.Bias = bias
	}
	o.Slopes, o.Sinks = choice(o.Slopes, s.heads), choice(o.Sinks, s.heads)
	o.KeyLens, o.QueryLens = choice(o.KeyLens, s.batches), choice(o.QueryLens, s.batches)
	for b, n := range o.QueryLens {
		o.QueryLens[b] = min(max(n-s.first, 0), s.count)
	}
	return out
}

func choice[T any](from []T, indices []int) (out []T) {
	if from == nil {
		return nil
	}
	for _, i := range indices {
		out = append(out, from[i])
	}
	return out
}

// of returns the selected rows of a result.
func (s selection) of(p *problem, r *result) *result {
	part := func(data []float32, d int) []float32 {
		return pick(BHLD(data, p.q.B, p.q.H, p.q.L, d), s.batches, s.heads, s.first, s.count).Data
	}
	return &result{part(r.o, p.v.D), part(r.lse, 1), part(r.weights, p.k.L)}
}

func upTo(n int) []int { return stretch(0, n) }

func stretch(lo, hi int) (s []int) {
	for i := lo; i < hi; i++ {
		s = append(s, i)
	}
	return s
}

// tokenMajor copies x so that the heads of a token follow each other.
func tokenMajor(x Tensor) Tensor {
	y := BLHD(make([]float32, len(x.Data)), x.B, x.L, x.H, x.D)
	for b := range x.B {
		for h := range x.H {
			for l := range x.L {
				copy(y.row(b, h, l), x.row(b, h, l))
			}
		}
	}
	return y
}

// firstChunk is what a call begins with.
func (p *problem) firstChunk(t *testing.T) (plan, chunk) {
	dst := zeros(p.q.B, p.q.H, p.q.L, p.v.D)
	plan := newPlan(dst, p.q, p.k, p.v, &p.opt)
	must(t, plan.init(&p.opt))
	plan.decide(&tuned, 1)
	var c chunk
	plan.chunk(0, &c)
	return plan, c
}

// firstSpan is the span that the call's first chunk begins with; it has no blocks if no key is
// seen.
func (p *problem) firstSpan(t *testing.T) (plan plan, s span) {
	plan, c := p.firstChunk(t)
	if c.rows > 0 && c.lo < c.hi {
		plan.nextSpan(&c, c.lo, min(c.hi, (c.lo/Segment+1)*Segment), &s)
	}
	return plan, s
}

// zeros is a contiguous tensor of zeros.
func zeros(b, h, l, d int) Tensor { return BHLD(make([]float32, b*h*l*d), b, h, l, d) }

// scaleBy multiplies by a factor.
func scaleBy(x []float32, factor float32) {
	for i := range x {
		x[i] *= factor
	}
}

// Trees of queries, and what they say without Options.Tree.

// randomTree draws the parents of n queries: a chain, siblings, branches of any length, or queries
// that have no parent.
func randomTree(r *rand.Rand, n int) []int {
	parents := make([]int, n)
	kind, trunk := r.IntN(6), r.IntN(n+1)
	for i := range parents {
		switch {
		case i == 0 || kind == 0:
			parents[i] = -1
		case kind == 1 || kind == 2 && i < trunk:
			parents[i] = i - 1
		case kind == 2: // leaves at the end of a trunk
			parents[i] = trunk - 1
		case kind == 3: // branches that are never far from their root
			parents[i] = (i - 1) / 2
		case kind == 4: // long branches
			parents[i] = max(0, i-1-r.IntN(4))
		default:
			parents[i] = r.IntN(i+1) - 1
		}
	}
	return parents
}

// ancestorsOf is a query and its ancestors, with the number of those that each has.
func ancestorsOf(parents []int, i int) map[int]int {
	var path []int
	for ; i >= 0; i = parents[i] {
		path = append(path, i)
	}
	depths := map[int]int{}
	for n, at := range path {
		depths[at] = len(path) - 1 - n
	}
	return depths
}

// growTree sets options to a random tree over lk keys. It reports whether there
// can be one.
func (o *Options) growTree(r *rand.Rand, lq, lk int) bool {
	if lk < lq {
		return false
	}
	o.Tree, o.Causal, o.Offset, o.QueryLens = randomTree(r, lq), Full, 0, nil
	for b, n := range o.KeyLens {
		o.KeyLens[b] = max(n, lq)
	}
	if r.IntN(2) == 0 {
		o.Window.Left = r.IntN(2*lq + 5)
	}
	return true
}

// treeMask says what a tree, its window, a mask and blocks say of some entries of lk keys.
func (o *Options) treeMask(batch, lk int) Mask {
	lq, heads := len(o.Tree), max(1, o.Mask.H, o.Blocks.H)
	x := BHLD(make([]bool, batch*heads*lq*lk), batch, heads, lq, lk)
	for at := range batch * heads * lq {
		b, h, i := at/lq/heads, at/lq%heads, at%lq
		path, first := ancestorsOf(o.Tree, i), o.firstOwn(b, lk)
		for j := range lk {
			p, seen := first+path[i], j < first
			position := j
			if !seen {
				position, seen = path[j-first]+first, false
				if _, is := path[j-first]; is {
					seen = true
				}
			}
			if w := o.Window; w.Left > 0 && position <= p-w.Left || w.Right > 0 && position >= p+w.Right {
				seen = false
			}
			if !o.Mask.none() {
				seen = seen && o.Mask.Row(b%o.Mask.B, h%o.Mask.H, i)[j]
			}
			if !o.Blocks.none() {
				seen = seen && o.Blocks.Row(b%o.Blocks.B, h%o.Blocks.H, i/Block)[j/Block]
			}
			x.row(b, h, i)[j] = seen
		}
	}
	return x
}

// firstOwn is the first key that is a query's own token.
func (o *Options) firstOwn(b, lk int) int {
	if o.KeyLens != nil {
		lk = o.KeyLens[b]
	}
	return lk - len(o.Tree)
}

// withoutTree is options that mean the same.
func (o Options) withoutTree(batch, lk int) Options {
	if o.Tree != nil {
		o.Mask = o.treeMask(batch, lk)
		o.Tree, o.Window, o.Blocks = nil, Window{}, Mask{}
	}
	return o
}

// treeBias is slopes by the depths of a tree, where their products with distances are exact.
func (o *Options) treeBias(batch, lk int) Tensor {
	lq, heads := len(o.Tree), len(o.Slopes)
	x := zeros(batch, heads, lq, lk)
	for at := range batch * heads * lq {
		b, h, i := at/lq/heads, at/lq%heads, at%lq
		path, first := ancestorsOf(o.Tree, i), o.firstOwn(b, lk)
		for j := range lk {
			distance := j - first
			if distance >= 0 {
				distance = path[distance] // of own tokens that it does not see this may be anything
			}
			x.row(b, h, i)[j] = o.Slopes[h] * float32(distance-path[i])
		}
	}
	return x
}

// Tests of this package and of kernels share what follows: they set rows of the tuning.

func init() { kerneltest.Tuned = &tuned }

type (
	trial        = kerneltest.Trial
	distribution = kerneltest.Distribution
	kernelTest   = kerneltest.KernelTest
)

const (
	normal        = kerneltest.Normal
	special       = kerneltest.Special
	zeroes        = kerneltest.Zeroes
	huge          = kerneltest.Huge
	tiny          = kerneltest.Tiny
	coarse        = kerneltest.Coarse
	anyBits       = kerneltest.AnyBits
	distributions = kerneltest.Distributions
)

var (
	anyTuning       = kerneltest.AnyTuning
	budget          = kerneltest.Budget
	compare         = kerneltest.Compare
	chosen          = kerneltest.Chosen
	equalGeneric    = kerneltest.EqualGeneric
	splitVectors    = kerneltest.SplitVectors
	few             = kerneltest.Few
	firstDifference = kerneltest.FirstDifference
	forEach         = kerneltest.ForEach
	forEachTuning   = kerneltest.ForEachTuning
	fuzzPlays       = kerneltest.FuzzPlays
	fuzzTrials      = kerneltest.FuzzTrials
	implementations = kerneltest.Implementations
	must            = kerneltest.Must
	mustEqualBits   = kerneltest.MustEqualBits
	mustFail        = kerneltest.MustFail
	nan32           = kerneltest.Nan32
	nans            = kerneltest.Nans
	random          = kerneltest.Random
	randomFrom      = kerneltest.RandomFrom
	readingAs       = kerneltest.ReadingAs
	sameBits        = kerneltest.SameBits
	seedInputs      = kerneltest.SeedInputs
	specials        = kerneltest.Specials
	switchTo        = kerneltest.SwitchTo
	use             = kerneltest.Use
	use32           = kerneltest.Use32
	useTuning       = kerneltest.UseTuning
	vectorDims      = kerneltest.VectorDims
	with16Lanes     = kerneltest.With16Lanes
)

// fillWith makes all elements the same.
func fillWith[T any](x []T, e T) { kerneltest.FillWith(x, e) }

// rotateGeneric rotates rows in place with the generic code.
func rotateGeneric(x []float32, rows, stride, n, block int) {
	integers.Rotate(tuning.Generic, x, x, rows, n, stride, stride, block)
}

// largestGeneric is the largest magnitude by the generic code.
func largestGeneric(x []float32) float32 { return integers.Largest(tuning.Generic, x) }

// outputsOf is the outputs of a matrix.
func outputsOf(m *Matrix) int {
	_, _, _, outputs := m.Dims()
	return outputs
}

// nameOf is the name of a matrix's format or type of blocks.
func nameOf(m *Matrix) string {
	if typ, is := m.BlockType(); is {
		return typ.String()
	}
	return m.Format().String()
}

// layoutOf is how a matrix lies in memory.
func layoutOf(m *Matrix) packed.Matrix {
	batch, heads, inputs, outputs := m.Dims()
	l := packed.Matrix{Batch: batch, Heads: heads, Inputs: inputs, Outputs: outputs}
	if typ, is := m.BlockType(); is {
		l.Blocks = blocks.Type(typ)
	} else {
		l.Format = kernel.Format(m.Format())
	}
	return l
}

// sizeOf is the bytes of a matrix's elements.
func sizeOf(m *Matrix) int {
	l := layoutOf(m)
	return l.Size()
}

// partsOfFile is the lengths of what follows the header of a matrix's file, each with a checksum.
func partsOfFile(l packed.Matrix) []int {
	if l.Scaled() {
		return []int{l.ScaleSize() + (64 - frames.ChecksumSize), l.Size()}
	}
	return []int{l.Size()}
}

// formatOfHalf is the format of a matrix of numbers that lie alone.
func formatOfHalf(t BlockType) Format {
	if t == BlockBF16 {
		return BF16
	}
	return F16
}

// oneByOne stands for workers, and does their tasks one after the other.
type oneByOne struct {
	workers int
	memory  *matmul.Memory
	timed   func(tasks int, task func(i int)) // nil: they are not timed
}

func (o *oneByOne) WorkersFor(float64) int { return o.workers }

func (o *oneByOne) Share(x matmul.Work, workers, tasks int, _ float64) {
	if o.timed == nil {
		o.timed = func(tasks int, task func(i int)) {
			for i := range tasks {
				task(i)
			}
		}
	}
	o.timed(workers, func(int) { x.Begin(o.memory) }) // as a phase of which each has a task
	o.timed(tasks, func(i int) { x.Task(o.memory, i) })
}
