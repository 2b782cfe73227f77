package attn

import (
	"math"
	"math/bits"
	"strconv"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/views"
)

// Validation: arguments become a plan, or an error.

// newPlan returns a plan of the arguments of one call, not yet validated. It returns a value, and
// no later step stores a slice through a pointer, so that the compiler sees that the caller's
// buffers do not escape, and leaves them on the caller's stack. Inlined, it would be copied three
// times.
//
//go:noinline
func newPlan(dst, q, k, v Tensor, opt *Options) plan {
	if opt.onlyScalars() {
		return plan{dst: dst, q: q, source: source{k: k, v: v}}
	}
	return plan{dst: dst, q: q, source: source{k: k, v: v}, bufferOptions: opt.bufferOptions()}
}

// noOptions stands for nil Options. (Zeroing a new one in each call would slow small calls by a few
// per cent.)
var noOptions Options

// bufferOptions returns the options that refer to memory.
func (o *Options) bufferOptions() bufferOptions {
	return bufferOptions{given: true, mask: o.Mask, blocked: o.Blocks, lists: o.Keys, bias: o.Bias,
		distant: o.Distance, weights: o.Weights, slopes: o.Slopes, sinks: o.Sinks, lse: o.LSE,
		parents: o.Tree, queryLens: o.QueryLens, keyLens: o.KeyLens}
}

// init validates the arguments of a call over views. On an error nothing was written.
func (p *plan) init(opt *Options) error {
	k, v := &p.k, &p.v
	p.kvHeads, p.lk, p.d, p.dv = k.H, k.L, k.D, v.D
	if p.quickValid(k.B) {
		return p.initScalars(opt)
	}
	if err := p.initKeys(); err != nil {
		return err
	}
	return p.initCall(k.B, opt)
}

// initPacked validates the arguments of a call over a cache with length tokens in each batch entry,
// or over sequences of a store.
func (p *plan) initPacked(s *packed.Blocks, batch, length int, opt *Options) error {
	p.packed, p.unrotate = s, s.Unrotate
	p.kvHeads, p.lk, p.d, p.dv = s.Heads, length, s.D, s.DV
	if p.quickValid(batch) {
		return p.initScalars(opt)
	}
	return p.initCall(batch, opt)
}

// initCall validates all arguments except keys and values.
func (p *plan) initCall(batch int, opt *Options) error {
	if err := p.initQueries(batch); err != nil {
		return err
	}
	if err := p.initOutput(); err != nil {
		return err
	}
	return p.initOptions(opt)
}

// initKeys validates the keys and values.
func (p *plan) initKeys() error {
	k, v := &p.k, &p.v
	if err := checkView("k", k); err != nil {
		return err
	}
	if err := checkView("v", v); err != nil {
		return err
	}
	p.kvHeads, p.lk, p.d, p.dv = k.H, k.L, k.D, v.D
	if v.B != k.B || v.H != k.H || v.L != k.L {
		return fail(ErrShape, "v is [%d %d %d …], want k's [%d %d %d …]", v.B, v.H, v.L, k.B, k.H, k.L)
	}
	return nil
}

// initQueries validates the queries against the keys.
func (p *plan) initQueries(batch int) error {
	q := &p.q
	p.batch, p.heads, p.lq = q.B, q.H, q.L
	err := checkView("q", q)
	switch {
	case err != nil:
		return err
	case q.B != batch:
		return fail(ErrShape, "q.B is %d, want %d as in the keys", q.B, batch)
	case q.D != p.d:
		return fail(ErrShape, "q.D is %d, want the keys' %d", q.D, p.d)
	case p.kvHeads == 0 && q.H != 0 || p.kvHeads != 0 && q.H%p.kvHeads != 0:
		return fail(ErrShape, "q.H is %d, want a multiple of the %d key/value heads", q.H, p.kvHeads)
	}
	if p.kvHeads > 0 {
		p.group = q.H / p.kvHeads
	}
	return nil
}

// initOutput validates dst against the queries and values.
func (p *plan) initOutput() error {
	dst := &p.dst
	if err := checkView("dst", dst); err != nil {
		return err
	}
	if dst.B != p.batch || dst.H != p.heads || dst.L != p.lq || dst.D != p.dv {
		return fail(ErrShape, "dst is [%d %d %d %d], want [%d %d %d %d]",
			dst.B, dst.H, dst.L, dst.D, p.batch, p.heads, p.lq, p.dv)
	}
	return checkDistinct("dst", dst)
}

// initOptions validates the options, and that outputs are apart from inputs.
func (p *plan) initOptions(opt *Options) error {
	if opt == nil {
		opt = &noOptions
	}
	// The scratch of a call. With 64-bit ints it cannot be too large, so quick validation need not
	// check it.
	if _, ok := views.Product(4*Block, p.d+p.dv); !ok && !p.empty() {
		return fail(ErrUnsupported, "k.D is %d and v.D %d, want at most %d in all on this architecture",
			p.d, p.dv, maxElements/4/Block)
	}
	if err := p.initScalars(opt); err != nil {
		return err
	}
	if err := p.initLengths(); err != nil {
		return err
	}
	if p.parents != nil {
		if err := p.initTree(); err != nil {
			return err
		}
	}
	if err := p.initLists(opt); err != nil {
		return err
	}
	if err := p.initPairs(opt); err != nil {
		return err
	}
	if err := p.initDistance(); err != nil {
		return err
	}
	if p.slopes != nil && len(p.slopes) != p.heads {
		return fail(ErrLength, "len(Slopes) is %d, want one for each of %d heads", len(p.slopes), p.heads)
	}
	if p.sinks != nil && len(p.sinks) != p.heads {
		return fail(ErrLength, "len(Sinks) is %d, want one for each of %d heads", len(p.sinks), p.heads)
	}
	if (opt.Documents != nil || opt.KeyDocuments != nil) &&
		(p.sequences == nil || !p.sequences.Documents) {
		return errDocuments(opt)
	}
	rows, ok := views.Product(p.batch, p.heads, p.lq)
	if p.lse != nil && !(ok && len(p.lse) == rows) {
		return fail(ErrLength, "len(LSE) is %d, want B×H×Lq = %d×%d×%d",
			len(p.lse), p.batch, p.heads, p.lq)
	}
	return p.checkMemory()
}

// empty reports that the call has no row.
func (p *plan) empty() bool { return p.batch == 0 || p.heads == 0 || p.lq == 0 }

// initPairs validates the options that have an element for each pair of query and key.
func (p *plan) initPairs(opt *Options) error {
	if !opt.Mask.none() {
		if err := checkPairs("Mask", &p.mask, p, 3, p.lq, p.lk); err != nil {
			return err
		}
	}
	if !opt.Blocks.none() {
		rows := (p.lq + Block - 1) / Block
		if p.sequences != nil {
			rows = p.sequences.BlockRows
		}
		if err := checkPairs("Blocks", &p.blocked, p, 2, rows, (p.lk+Block-1)/Block); err != nil {
			return err
		}
	}
	if !opt.Bias.none() {
		if err := checkPairs("Bias", &p.bias, p, 3, p.lq, p.lk); err != nil {
			return err
		}
	}
	if opt.Weights.none() {
		return nil
	}
	keys := p.lk
	if !opt.Keys.none() {
		keys = p.lists.D
	}
	if err := checkPairs("Weights", &p.weights, p, 0, p.lq, keys); err != nil {
		return err
	}
	if keys == 0 {
		p.weights = Tensor{} // nothing to write; its rows could have any offset
	}
	return checkDistinct("Weights", &p.weights)
}

// checkMemory verifies that outputs share no memory with each other and with inputs.
func (p *plan) checkMemory() error {
	all := [...]views.Extent{
		extentOf("dst", &p.dst), extentOf("Weights", &p.weights), views.ExtentOfSlice("LSE", p.lse),
		extentOf("k", &p.k), extentOf("v", &p.v), extentOf("q", &p.q),
		extentOf("Mask", &p.mask), extentOf("Blocks", &p.blocked), extentOf("Keys", &p.lists),
		extentOf("Bias", &p.bias), extentOf("Distance.Query", &p.distant.Query),
		extentOf("Distance.Key", &p.distant.Key),
		views.ExtentOfSlice("Distance.Buckets", p.distant.Buckets),
		views.ExtentOfSlice("Slopes", p.slopes), views.ExtentOfSlice("Sinks", p.sinks),
	}
	for i, at := range [len(all)]uintptr{
		operand.Address(p.dst.Data, 0), operand.Address(p.weights.Data, 0), operand.Address(p.lse, 0),
		operand.Address(p.k.Data, 0), operand.Address(p.v.Data, 0), operand.Address(p.q.Data, 0),
		operand.Address(p.mask.Data, 0), operand.Address(p.blocked.Data, 0),
		operand.Address(p.lists.Data, 0), operand.Address(p.bias.Data, 0),
		operand.Address(p.distant.Query.Data, 0), operand.Address(p.distant.Key.Data, 0),
		operand.Address(p.distant.Buckets, 0),
		operand.Address(p.slopes, 0), operand.Address(p.sinks, 0),
	} {
		all[i].Begin = at
	}
	return views.CheckApart(all[:3], all[3:])
}

func (p *plan) initScalars(opt *Options) error {
	if opt == nil {
		opt = &noOptions
	}
	p.scoreScale, p.softcap, p.causal, p.offset = opt.Scale, opt.Softcap, opt.Causal, opt.Offset
	p.left, p.right = min(opt.Window.Left, 2*maxLength+1)-1, min(opt.Window.Right, 2*maxLength+1)-1
	if p.bfloat16 = opt.BFloat16; p.bfloat16 {
		if err := p.checkBFloat16(opt); err != nil {
			return err
		}
	}
	if p.integers = opt.Integers; p.integers {
		if err := p.checkIntegers(); err != nil {
			return err
		}
	}
	if p.scoreScale-p.scoreScale != 0 {
		return fail(ErrOption, "Scale is %v, want a finite number", p.scoreScale)
	}
	if !(p.softcap >= 0 && p.softcap <= math.MaxFloat32) {
		return fail(ErrOption, "Softcap is %v, want a finite number of at least 0", p.softcap)
	}
	if p.causal < Full || p.causal > BottomRight {
		return fail(ErrOption, "Causal is %v, want Full, TopLeft or BottomRight", p.causal)
	}
	most := maxLength
	if p.update {
		most *= 2 // a position and the state's first key each have that range
	}
	if p.offset < -most || p.offset > most {
		return fail(ErrOption, "Offset is %d, want %d to %d", p.offset, -most, most)
	}
	if p.causal == BottomRight && p.offset != 0 {
		return fail(ErrOption, "Offset is %d, want 0 with BottomRight, which aligns by the lengths",
			p.offset)
	}
	if w := opt.Window; w.Left < 0 || w.Right < 0 {
		return fail(ErrOption, "Window is {%d %d}, want at least 0, which is unbounded", w.Left, w.Right)
	}
	if p.scoreScale == 0 {
		p.scoreScale = float32(1 / math.Sqrt(float64(p.d)))
	}
	if p.flip = p.scoreScale < 0; p.flip {
		p.scoreScale = -p.scoreScale
	}
	if f := p.scoreScale / p.softcap; p.softcap > 0 && f-f != 0 {
		return fail(ErrOption, "Softcap is %v with a Scale of %v, want more: Scale/Softcap overflows",
			p.softcap, p.scoreScale)
	}
	p.biased = p.bias.Data != nil || !p.distant.none()
	if p.natural = p.softcap > 0 || p.biased || p.slopes != nil; p.natural {
		p.unit = 1
	} else {
		p.unit = p.scoreScale
	}
	if p.c = float32(float64(p.unit) * f32.Log2E); p.c-p.c != 0 {
		return fail(ErrOption, "Scale is %v, want a magnitude of at most %v: times log₂e it overflows",
			opt.Scale, float32(math.MaxFloat32/f32.Log2E))
	}
	return nil
}

func (p *plan) initLengths() error {
	if err := views.CheckLengths("QueryLens", p.queryLens, p.batch, p.lq); err != nil {
		return err
	}
	return views.CheckLengths("KeyLens", p.keyLens, p.batch, p.lk)
}

// checkPairs validates an argument for pairs of some rows and columns. In its first dimensions, as
// many as repeats says, a length of 1 stands for all, and the stride becomes 0.
func checkPairs[T any](name string, v *View[T], p *plan, repeats, rows, cols int) error {
	view := *v
	if cols == 0 && v.D == 0 { // no keys: like other empty views
		view.L, view.D = 0, 1
	}
	if err := checkView(name, &view); err != nil {
		return err
	}
	v.SB, v.SH, v.SL = view.SB, view.SH, view.SL
	want, fits := [3]int{p.batch, p.heads, rows}, v.D == cols
	for i, n := range [3]int{v.B, v.H, v.L} {
		fits = fits && (n == want[i] || i < repeats && n == 1)
	}
	if !fits {
		return errPairs(name, [4]int{v.B, v.H, v.L, v.D}, want, repeats, cols)
	}
	if repeats > 0 && v.B == 1 {
		v.SB = 0
	}
	if repeats > 1 && v.H == 1 {
		v.SH = 0
	}
	if repeats > 2 && v.L == 1 {
		v.SL = 0
	}
	return nil
}

func errPairs(name string, is [4]int, want [3]int, repeats, cols int) error {
	if repeats == 0 {
		return fail(ErrShape, "%s is %d, want [%d %d %d %d]", name, is, want[0], want[1], want[2], cols)
	}
	var each [3]string
	for i, n := range want {
		if each[i] = strconv.Itoa(n); i < repeats {
			each[i] = views.OrOne(n)
		}
	}
	more := ""
	if repeats == len(each) {
		more = "; a stride of attn.Broadcast repeats elements, too"
	}
	return fail(ErrShape, "%s is %d, want [%s, %s, %s, %d]%s", name, is, each[0], each[1], each[2],
		cols, more)
}

// quickValid reports that a call's views are certain to pass the thorough checks, and that no
// option refers to further memory. Most calls are like that, and for a small call the thorough
// checks would cost more than the computation. In doubt it returns false.
func (p *plan) quickValid(batch int) bool {
	dst, q, k, v := &p.dst, &p.q, &p.k, &p.v
	var kEnd, vEnd int
	if p.given {
		return false
	}
	if p.packed == nil {
		kEnd, vEnd = k.compact(), v.compact()
		if kEnd == 0 || vEnd == 0 || v.B != k.B || v.H != k.H || v.L != k.L {
			return false
		}
	}
	end, qEnd := dst.compact(), q.compact()
	if end == 0 || qEnd == 0 || q.B != batch || q.D != p.d || q.H%p.kvHeads != 0 ||
		dst.B != q.B || dst.H != q.H || dst.L != q.L || dst.D != p.dv || !apart(dst, q, end, qEnd) ||
		p.packed == nil && !(apart(dst, k, end, kEnd) && apart(dst, v, end, vEnd)) {
		return false
	}
	p.batch, p.heads, p.group, p.lq = q.B, q.H, q.H/p.kvHeads, q.L
	return true
}

// apart reports that the memory of view a, which has elements, ends before view b begins, or begins
// after its end.
func apart(a, b *Tensor, aEnd, bEnd int) bool {
	const size = unsafe.Sizeof(a.Data[0])
	aBegin, bBegin := uintptr(unsafe.Pointer(&a.Data[0])), uintptr(unsafe.Pointer(&b.Data[0]))
	return aBegin+uintptr(aEnd)*size <= bBegin || bBegin+uintptr(bEnd)*size <= aBegin
}

// onlyScalars reports that only numeric options are given.
func (o *Options) onlyScalars() bool {
	return o == nil || o.Mask.none() && o.Blocks.none() && o.Keys.none() && o.Bias.none() &&
		o.Weights.none() && o.Distance.none() && o.Slopes == nil && o.Sinks == nil && o.LSE == nil &&
		o.Tree == nil && o.QueryLens == nil && o.KeyLens == nil && o.Documents == nil &&
		o.KeyDocuments == nil
}

// compact returns the index after the last element of a valid view without repeated elements:
// positions, heads and batches do not overlap, in this order or with heads inside positions, no
// size overflows, and the buffer is long enough. Then its strides are made explicit. For any other
// view it returns 0.
func (v *View[T]) compact() (end int) {
	if bits.UintSize < 64 || v.B <= 0 || v.H <= 0 || v.L <= 0 || v.D <= 0 ||
		uint(v.B|v.H|v.L|v.D) >= maxLength {
		return 0
	}
	if v.SB|v.SH|v.SL == 0 {
		head := v.L * v.D
		batch := v.H * head
		if uint64(head)>>32 != 0 || uint64(batch)>>32 != 0 || v.B*batch > len(v.Data) {
			return 0
		}
		v.SB, v.SH, v.SL = batch, head, v.D
		return v.B * batch
	}
	if uint64(v.SB|v.SH|v.SL)>>32 != 0 {
		return 0
	}
	heads, positions := (v.H-1)*v.SH, (v.L-1)*v.SL // from the first to the last one
	batch := heads + positions + v.D
	end = (v.B-1)*v.SB + batch
	distinct := v.B == 1 || v.SB >= batch
	switch { // the stride of a dimension of 1 does not matter
	case v.L == 1:
		distinct = distinct && (v.H == 1 || v.SH >= v.D)
	case v.H == 1:
		distinct = distinct && v.SL >= v.D
	case v.SL >= v.SH: // heads inside positions
		distinct = distinct && v.SH >= v.D && v.SL >= heads+v.D
	default:
		distinct = distinct && v.SL >= v.D && v.SH >= positions+v.D
	}
	if !distinct || end > len(v.Data) {
		return 0
	}
	return end
}
