package attn

import "math"

// plan is a validated call with all defaults filled in.
type plan struct {
	dst, q, k, v Tensor
	cache        *Cache // where keys and values come from instead of k and v, if not nil

	batch, heads, kvHeads int
	lq, lk                int
	d, dv                 int
	group                 int // query heads that share a key/value head

	scale   float32 // multiplies queries: scale, or scale/softcap
	softcap float32
	causal  Causal
	offset  int
	left    int // window, −1 if unbounded
	right   int

	mask    Mask // Data is nil if there is none
	bias    Tensor
	weights Tensor
	slopes  []float32
	sinks   []float32
	lse     []float32

	queryLens, keyLens []int

	firstSegment int // segments before it hold no key of this call
	chunkRows    int // query rows handled together
	abreast      int // key/value heads handled together
	tileRows     int // of them, those that go through the kernels together
}

// newPlan takes the arguments of one call, not yet validated. It returns a value, and no
// later step stores a slice through a pointer: then the compiler can see that
// the caller's buffers do not escape, and leaves them on the caller's stack.
func newPlan(dst, q, k, v Tensor, opt *Options) plan {
	p := plan{dst: dst, q: q, k: k, v: v}
	if opt == nil {
		return p
	}
	p.slopes, p.sinks, p.lse = opt.Slopes, opt.Sinks, opt.LSE
	p.queryLens, p.keyLens = opt.QueryLens, opt.KeyLens
	if opt.Mask != nil {
		p.mask = *opt.Mask
	}
	if opt.Bias != nil {
		p.bias = *opt.Bias
	}
	if opt.Weights != nil {
		p.weights = *opt.Weights
	}
	return p
}

// init validates the arguments. On an error nothing was written.
func (p *plan) init(opt *Options) error {
	if p.ordinary(opt) {
		p.batch, p.heads, p.kvHeads, p.group = p.q.B, p.q.H, p.k.H, p.q.H/p.k.H
		p.lq, p.lk, p.d, p.dv = p.q.L, p.k.L, p.k.D, p.v.D
		return p.initScalars(opt)
	}
	var memories [8]memory
	inputs, err := p.initKeys(memories[:0])
	if err != nil {
		return err
	}
	return p.initCall(p.k.B, opt, inputs)
}

// initCall validates all but the keys and values. inputs holds their memory and has room for six more.
func (p *plan) initCall(batch int, opt *Options, inputs []memory) error {
	inputs, err := p.initQueries(batch, inputs)
	if err != nil {
		return err
	}
	out, err := p.initOutput()
	if err != nil {
		return err
	}
	return p.initOptions(opt, out, inputs)
}

// initKeys validates the keys and values and adds their memory to inputs.
func (p *plan) initKeys(inputs []memory) ([]memory, error) {
	k, v := &p.k, &p.v
	kExtent, err := checkView("k", k)
	if err != nil {
		return nil, err
	}
	vExtent, err := checkView("v", v)
	if err != nil {
		return nil, err
	}
	p.kvHeads, p.lk, p.d, p.dv = k.H, k.L, k.D, v.D
	if v.B != k.B || v.H != k.H || v.L != k.L {
		return nil, fail(ErrShape, "v is [%d %d %d …], want k's [%d %d %d …]", v.B, v.H, v.L, k.B, k.H, k.L)
	}
	return append(inputs, memoryOf("k", k, kExtent), memoryOf("v", v, vExtent)), nil
}

// initQueries validates the queries against the keys and adds their memory to inputs.
func (p *plan) initQueries(batch int, inputs []memory) ([]memory, error) {
	q := &p.q
	p.batch, p.heads, p.lq = q.B, q.H, q.L
	extent, err := checkView("q", q)
	switch {
	case err != nil:
		return nil, err
	case q.B != batch:
		return nil, fail(ErrShape, "q.B is %d, want %d as in the keys", q.B, batch)
	case q.D != p.d:
		return nil, fail(ErrShape, "q.D is %d, want the keys' %d", q.D, p.d)
	case p.kvHeads == 0 && q.H != 0 || p.kvHeads != 0 && q.H%p.kvHeads != 0:
		return nil, fail(ErrShape, "q.H is %d, want a multiple of the %d key/value heads", q.H, p.kvHeads)
	}
	if p.kvHeads > 0 {
		p.group = q.H / p.kvHeads
	}
	return append(inputs, memoryOf("q", q, extent)), nil
}

// initOutput validates dst against the queries and values and returns its memory.
func (p *plan) initOutput() (memory, error) {
	dst := &p.dst
	extent, err := checkView("dst", dst)
	if err != nil {
		return memory{}, err
	}
	if dst.B != p.batch || dst.H != p.heads || dst.L != p.lq || dst.D != p.dv {
		return memory{}, fail(ErrShape, "dst is [%d %d %d %d], want [%d %d %d %d]",
			dst.B, dst.H, dst.L, dst.D, p.batch, p.heads, p.lq, p.dv)
	}
	return memoryOf("dst", dst, extent), checkDistinct("dst", dst)
}

func (p *plan) initOptions(opt *Options, dst memory, inputs []memory) error {
	if opt == nil {
		opt = &Options{}
	}
	// The scratch of a call. Where an int has 64 bits it cannot be too large, so ordinary calls need not look.
	if _, ok := product(4*Block, p.d+p.dv); !ok {
		return fail(ErrUnsupported, "k.D is %d and v.D %d, want at most %d in all on this architecture", p.d, p.dv, maxElements/4/Block)
	}
	if err := p.initScalars(opt); err != nil {
		return err
	}
	if err := p.initLengths(); err != nil {
		return err
	}
	outputs := [3]memory{dst}
	used := outputs[:1]
	if opt.Mask != nil {
		extent, err := checkPairs("Mask", &p.mask, p, true)
		if err != nil {
			return err
		}
		inputs = append(inputs, memoryOf("Mask", opt.Mask, extent))
	}
	if opt.Bias != nil {
		extent, err := checkPairs("Bias", &p.bias, p, true)
		if err != nil {
			return err
		}
		inputs = append(inputs, memoryOf("Bias", opt.Bias, extent))
	}
	if opt.Weights != nil {
		extent, err := checkPairs("Weights", &p.weights, p, false)
		if err != nil {
			return err
		}
		if p.lk == 0 {
			p.weights = Tensor{} // nothing to write; its rows could begin anywhere
		}
		if err := checkDistinct("Weights", &p.weights); err != nil {
			return err
		}
		used = append(used, memoryOf("Weights", opt.Weights, extent))
	}
	if p.slopes != nil && len(p.slopes) != p.heads {
		return fail(ErrLength, "len(Slopes) is %d, want one for each of %d heads", len(p.slopes), p.heads)
	}
	if p.sinks != nil && len(p.sinks) != p.heads {
		return fail(ErrLength, "len(Sinks) is %d, want one for each of %d heads", len(p.sinks), p.heads)
	}
	inputs = append(inputs, memoryOfSlice("Slopes", p.slopes), memoryOfSlice("Sinks", p.sinks))
	if p.lse != nil {
		if !lengthIs(len(p.lse), p.batch, p.heads, p.lq) {
			return fail(ErrLength, "len(LSE) is %d, want B×H×Lq = %d×%d×%d", len(p.lse), p.batch, p.heads, p.lq)
		}
		used = append(used, memoryOfSlice("LSE", p.lse))
	}
	for i, out := range used {
		if err := checkApart(out, inputs); err != nil {
			return err
		}
		if err := checkApart(out, used[i+1:]); err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) initScalars(opt *Options) error {
	if opt == nil {
		opt = &Options{}
	}
	p.scale, p.softcap, p.causal, p.offset = opt.Scale, opt.Softcap, opt.Causal, opt.Offset
	p.left, p.right = -1, -1
	if p.scale-p.scale != 0 {
		return fail(ErrOption, "Scale is %v, want a finite number", p.scale)
	}
	if !(p.softcap >= 0 && p.softcap <= math.MaxFloat32) {
		return fail(ErrOption, "Softcap is %v, want a finite number of at least 0", p.softcap)
	}
	if p.causal < Full || p.causal > BottomRight {
		return fail(ErrOption, "Causal is %d, want Full, TopLeft or BottomRight", p.causal)
	}
	if p.offset < -maxLength || p.offset > maxLength {
		return fail(ErrOption, "Offset is %d, want %d to %d", p.offset, -maxLength, maxLength)
	}
	if p.causal == BottomRight && p.offset != 0 {
		return fail(ErrOption, "Offset is %d, want 0 with BottomRight, which aligns by the lengths", p.offset)
	}
	if w := opt.Window; w != nil {
		if w.Left < -1 || w.Right < -1 {
			return fail(ErrOption, "Window is {%d %d}, want at least -1", w.Left, w.Right)
		}
		p.left, p.right = min(w.Left, 2*maxLength), min(w.Right, 2*maxLength)
	}
	if p.scale == 0 {
		p.scale = float32(1 / math.Sqrt(float64(p.d)))
	}
	if p.softcap > 0 {
		if p.scale /= p.softcap; p.scale-p.scale != 0 {
			return fail(ErrOption, "Softcap is %v, want more: the scale divided by it overflows", p.softcap)
		}
	}
	return nil
}

func (p *plan) initLengths() error {
	if err := checkLens("QueryLens", p.queryLens, p.batch, p.lq); err != nil {
		return err
	}
	return checkLens("KeyLens", p.keyLens, p.batch, p.lk)
}

func checkLens(name string, lens []int, batch, most int) error {
	if lens == nil {
		return nil
	}
	if len(lens) != batch {
		return fail(ErrLength, "len(%s) is %d, want one for each of %d batches", name, len(lens), batch)
	}
	for b, n := range lens {
		if n < 0 || n > most {
			return fail(ErrLength, "%s[%d] is %d, want 0 to %d", name, b, n, most)
		}
	}
	return nil
}

// checkPairs validates a [B, H, Lq, Lk] argument. If broadcast is allowed, a
// batch or head dimension of 1 stands for all; the view is changed to say so by a stride of 0.
func checkPairs[T any](name string, v *View[T], p *plan, broadcast bool) (extent int, err error) {
	view := *v
	if p.lk == 0 && v.D == 0 { // no keys: as a view that is empty otherwise
		view.L, view.D = 0, 1
	}
	extent, err = checkView(name, &view)
	if err != nil {
		return 0, err
	}
	oneB, oneH := broadcast && v.B == 1, broadcast && v.H == 1
	if v.B != p.batch && !oneB || v.H != p.heads && !oneH || v.L != p.lq || v.D != p.lk {
		return 0, fail(ErrShape, "%s is [%d %d %d %d], want [%d %d %d %d]", name, v.B, v.H, v.L, v.D, p.batch, p.heads, p.lq, p.lk)
	}
	if oneB {
		v.SB = 0
	}
	if oneH {
		v.SH = 0
	}
	return extent, nil
}

// lengthIs reports n == a·b·c without overflow; the factors are at most maxLength.
func lengthIs(n, a, b, c int) bool {
	if a == 0 || b == 0 || c == 0 {
		return n == 0
	}
	return n%a == 0 && n/a%b == 0 && n/a/b == c
}

// queryLen and keyLen are the lengths of batch entry b.
func (p *plan) queryLen(b int) int {
	if p.queryLens != nil {
		return p.queryLens[b]
	}
	return p.lq
}

func (p *plan) keyLen(b int) int {
	if p.keyLens != nil {
		return p.keyLens[b]
	}
	return p.lk
}

// position is the absolute position of query 0 of batch entry b among the keys.
func (p *plan) position(b int) int {
	if p.causal == BottomRight {
		return p.keyLen(b) - p.queryLen(b)
	}
	return p.offset
}

// keyRange returns the keys [lo, hi) that are live for query i of the chunk's batch entry
// by position. Neither bound decreases with i. Empty ranges have hi = lo.
func (p *plan) keyRange(c *chunk, i int) (lo, hi int) {
	at := c.position + i
	hi = c.keys
	if p.causal != Full {
		hi = min(hi, at+1)
	}
	if p.right >= 0 {
		hi = min(hi, at+p.right+1)
	}
	if p.left >= 0 {
		lo = min(max(0, at-p.left), c.keys) // the window may begin behind the last key
	}
	return lo, max(lo, hi)
}
