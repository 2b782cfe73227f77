package attn

import (
	"slices"
	"sync"

	"github.com/seed-1415985d/attn/internal/sanitize"
)

// way is a way to compute attention.
type way struct {
	name   string
	attend attender
}

// ways lists what computes attention and must give the bits of Attend.
var ways = []way{
	{"Attend", Attend},
	{"Cache", attendCached},
	{"Pool", attendPooled},
	{"State", attendState},
	{"Pool over a cache", attendPooledCached},
	{"AttendSequences", attendSequences},
	{"Pool over sequences", attendPooledSequences},
}

// Sanitizers make tests many times as slow, so there the pool stands for both ways over sequences.
func init() {
	if sanitize.Enabled {
		last := len(ways) - 1
		ways = append(ways[:last-1], ways[last])
	}
}

var threeWorkers = sync.OnceValue(func() *Pool { return NewPool(3) })

// workers is how many workers the ways over a pool have.
var workers = 3

// pools have as many workers as their index says.
var pools = [...]func() *Pool{1: poolOf(1), poolOf(2), threeWorkers, poolOf(4), poolOf(5),
	poolOf(6), poolOf(7), poolOf(8), poolOf(9)}

func poolOf(n int) func() *Pool { return sync.OnceValue(func() *Pool { return NewPool(n) }) }

// attendPooled is Pool.Attend, but divides even the smallest call into as many
// pieces as it can.
func attendPooled(dst, q, k, v Tensor, opt *Options) error {
	return pooled(dst, func(j *attention) error {
		j.plan = newPlan(dst, q, k, v, opt)
		if opt != nil && opt.Documents != nil {
			return j.plan.initDocuments(&j.call, opt)
		}
		return j.plan.init(opt)
	})
}

// pooled runs a call that prepare validates.
func pooled(dst Tensor, prepare func(j *attention) error) error {
	p := pools[workers]()
	call, err := p.workers.Begin(newWorker)
	if err != nil {
		return err
	}
	a := &call.Memory.attention
	defer a.end(call)
	if err := prepare(a); err != nil || dst.empty() {
		return err
	}
	a.attendBy(call, p.workers.Size(), a.plan.cost(&tuned))
	return nil
}

// attendCached puts keys and values into a cache, some at a time, and attends over that.
func attendCached(dst, q, k, v Tensor, opt *Options) error {
	if k.empty() {
		return Attend(dst, q, k, v, opt)
	}
	c, err := filledIn(formatFor(opt), k, v)
	if err != nil {
		return err
	}
	return c.Attend(dst, q, opt)
}

// waysIn lists what computes attention over tokens that are kept in two formats.
func waysIn(f formatPair) map[string]attender {
	return map[string]attender{
		"Cache": func(dst, q, k, v Tensor, opt *Options) error {
			c, err := f.filled(k, v)
			if err != nil {
				return err
			}
			return c.Attend(dst, q, opt)
		},
		"Pool over a cache": func(dst, q, k, v Tensor, opt *Options) error {
			c, err := f.filled(k, v)
			if err != nil {
				return err
			}
			return pooled(dst, func(j *attention) error {
				j.plan = newPlan(dst, q, Tensor{}, Tensor{}, opt)
				return c.plan(&j.plan, opt)
			})
		},
		"AttendSequences": func(dst, q, k, v Tensor, opt *Options) error {
			return attendPackedIn(f, dst, q, k, v, opt, AttendSequences)
		},
		"Pool over sequences": func(dst, q, k, v Tensor, opt *Options) error {
			return attendPackedIn(f, dst, q, k, v, opt, pooledSequences)
		},
	}
}

// formatPair is the formats of keys and of values.
type formatPair struct{ keys, values Format }

// formatPairs are all that a cache may have, each format alone first.
var formatPairs = func() (list []formatPair) {
	for _, f := range allFormats {
		list = append(list, formatPair{f, f})
	}
	for _, keys := range allFormats {
		for _, values := range allFormats[1:] {
			if keys != values {
				list = append(list, formatPair{keys, values})
			}
		}
	}
	return list
}()

func (f formatPair) String() string { return f.keys.String() + "+" + f.values.String() }

// attendPooledCached is attendCached with a pool that divides even the smallest call.
func attendPooledCached(dst, q, k, v Tensor, opt *Options) error {
	if k.empty() {
		return attendPooled(dst, q, k, v, opt)
	}
	c, err := filledIn(formatFor(opt), k, v)
	if err != nil {
		return err
	}
	return pooled(dst, func(j *attention) error {
		j.plan = newPlan(dst, q, Tensor{}, Tensor{}, opt)
		return c.plan(&j.plan, opt)
	})
}

// formatFor is the format of a cache whose calls have the bits of calls over views.
func formatFor(opt *Options) Format {
	if opt != nil && opt.Integers {
		return I8
	}
	return F32
}

// filled is a cache with the given keys and values, appended some at a time.
func filled(k, v Tensor) (*Cache, error) { return filledIn(F32, k, v) }

// latent reports whether values are the first channels of their keys: then caches and stores keep
// only these.
func latent(k, v Tensor) bool {
	return !k.empty() && &k.Data[0] == &v.Data[0] && k.SB == v.SB && k.SH == v.SH && k.SL == v.SL
}

// keptValues returns the values to append with keys.
func keptValues(k, v Tensor) Tensor {
	if latent(k, v) {
		return Tensor{}
	}
	return v
}

func filledIn(f Format, k, v Tensor) (*Cache, error) { return formatPair{f, f}.filled(k, v) }

func (f formatPair) filled(k, v Tensor) (*Cache, error) {
	c, err := NewCache(CacheConfig{Batch: k.B, KVHeads: k.H, HeadDim: k.D, ValueDim: v.D,
		Capacity: k.L, Format: f.keys, ValueFormat: f.values, ValuesInKeys: latent(k, v)})
	if err != nil {
		return nil, err
	}
	r := random("cache")
	for i := 0; i < k.L; {
		n := min(1+r.IntN(100), k.L-i)
		if err := c.Append(rowsOf(k, i, n), keptValues(rowsOf(k, i, n), rowsOf(v, i, n))); err != nil {
			return nil, err
		}
		i += n
	}
	return c, nil
}

// attendState gives the keys to two states in chunks of whole blocks, and
// merges them. A state knows neither weights nor, under BottomRight, the ends of sequences of
// different lengths, nor trees: these are left to Attend.
func attendState(dst, q, k, v Tensor, opt *Options) error {
	err := Attend(dst, q, k, v, opt)
	o := opt.withoutDistance(q.B, q.H, q.L, k.L)
	if err != nil || dst.empty() || o.Tree != nil || o.Causal == BottomRight &&
		(o.KeyLens != nil || o.QueryLens != nil) {
		return err
	}
	for at := range dst.B * dst.H * dst.L {
		fillWith(dst.Row(at/dst.L/dst.H, at/dst.L%dst.H, at%dst.L), nan32())
	}
	if o.Causal == BottomRight {
		o.Causal, o.Offset = TopLeft, k.L-q.L
	}
	middle := Segment // a power of two of segments, and at least as many as come after it
	for 2*middle < k.L {
		middle *= 2
	}
	middle = min(middle, k.L)
	first, err := stateOver(q, k, v, o, 0, middle)
	if err != nil {
		return err
	}
	second, err := stateOver(q, k, v, o, middle, k.L)
	if err != nil {
		return err
	}
	if err := first.Merge(second); err != nil {
		return err
	}
	return first.Finish(dst, opt.LSE)
}

// stateOver is a state that has seen keys [lo, hi), of some chunks by a pool.
func stateOver(q, k, v Tensor, o Options, lo, hi int) (*State, error) {
	s, err := NewState(StateConfig{q.B, q.H, q.L, v.D})
	if err != nil {
		return nil, err
	}
	r := random("chunks")
	origin, chunk := lo, o
	chunk.Offset, chunk.LSE, chunk.Weights = o.Offset-origin, nil, Tensor{}
	for lo < hi {
		n := min(Block*(1+r.IntN(3)), hi-lo)
		if !o.Mask.none() {
			mask := o.Mask.Slice(0, o.Mask.L) // its strides, whatever D becomes
			mask.Data, mask.D = mask.Data[lo:], n
			chunk.Mask = mask
		}
		if !o.Blocks.none() {
			blocks := o.Blocks.Slice(0, o.Blocks.L)
			blocks.Data, blocks.D = blocks.Data[lo/Block:], partsOf(n, Block)
			chunk.Blocks = blocks
		}
		if !o.Bias.none() {
			bias := o.Bias.Slice(0, o.Bias.L)
			bias.Data, bias.D = bias.Data[lo:], n
			chunk.Bias = bias
		}
		if o.KeyLens != nil {
			chunk.KeyLens = make([]int, len(o.KeyLens))
			for b, m := range o.KeyLens {
				chunk.KeyLens[b] = min(max(0, m-lo), n)
			}
		}
		pool := pools[workers]()
		if r.IntN(2) == 0 {
			pool = nil
		}
		if err := pool.Update(s, q, rowsOf(k, lo, n), rowsOf(v, lo, n), &chunk); err != nil {
			return nil, err
		}
		lo += n
	}
	return s, nil
}

// attendSequences puts each batch entry's keys and values into a sequence of a store, of which some
// have forks, and attends over all sequences in one call with packed queries.
func attendSequences(dst, q, k, v Tensor, opt *Options) error {
	return attendPacked(dst, q, k, v, opt, AttendSequences)
}

// attendPooledSequences is attendSequences with a pool that divides even the smallest call.
func attendPooledSequences(dst, q, k, v Tensor, opt *Options) error {
	return attendPacked(dst, q, k, v, opt, pooledSequences)
}

func pooledSequences(dst, q Tensor, seqs []*Sequence, opt *Options) error {
	return pooled(dst, func(j *attention) error {
		j.plan = newPlan(dst, q, Tensor{}, Tensor{}, opt)
		return j.plan.initSequences(&j.call, seqs, opt)
	})
}

// attendStateOfSequence is attendSequences with a state that sees all tokens of a sequence, where a
// call has one sequence and no tree. A state knows no weights: these are left to AttendSequences.
func attendStateOfSequence(dst, q, k, v Tensor, opt *Options) error {
	return attendPacked(dst, q, k, v, opt, updateSequence)
}

func updateSequence(dst, q Tensor, seqs []*Sequence, opt *Options) error {
	err := AttendSequences(dst, q, seqs, opt)
	if err != nil || len(seqs) > 1 || opt.Tree != nil || !opt.Distance.none() {
		return err
	}
	fillWith(dst.Data, nan32())
	o := *opt
	o.QueryLens, o.LSE, o.Weights = nil, nil, Tensor{}
	if o.Causal == BottomRight {
		o.Causal, o.Offset = TopLeft, seqs[0].Len()-q.L
	}
	s, err := NewState(StateConfig{1, q.H, q.L, dst.D})
	if err != nil {
		return err
	}
	if err := pools[workers]().UpdateSequence(s, q, seqs[0], &o); err != nil {
		return err
	}
	return s.Finish(dst, opt.LSE)
}

type sequencesAttender func(dst, q Tensor, seqs []*Sequence, opt *Options) error

func attendPacked(dst, q, k, v Tensor, opt *Options, attend sequencesAttender) error {
	f := formatFor(opt)
	return attendPackedIn(formatPair{f, f}, dst, q, k, v, opt, attend)
}

// attendPackedIn is attend over sequences of a store of two formats, and Attend where a call has no
// such form.
func attendPackedIn(f formatPair, dst, q, k, v Tensor, opt *Options,
	attend sequencesAttender) error {
	err := Attend(dst, q, k, v, opt)
	if err != nil || dst.empty() || k.empty() || opt.Offset != 0 || !opt.Distance.Key.none() {
		return err
	}
	c, err := newPackedCall(f, q, k, v, opt)
	if err != nil {
		return err
	}
	out := BHLD(nans(q.H*c.q.L*v.D), 1, q.H, c.q.L, v.D)
	if err := attend(out, c.q, c.seqs, &c.opt); err != nil {
		return err
	}
	c.unpack(dst, out, opt)
	return nil
}

// packedCall is a call over sequences that is equal to one over a batch.
type packedCall struct {
	q    Tensor
	seqs []*Sequence
	lens []int
	opt  Options
}

func newPackedCall(f formatPair, q, k, v Tensor, opt *Options) (*packedCall, error) {
	c := &packedCall{lens: opt.QueryLens, opt: *opt}
	if c.lens == nil {
		c.lens = slices.Repeat([]int{q.L}, q.B)
	}
	store, err := NewStore(StoreConfig{KVHeads: k.H, HeadDim: k.D, ValueDim: v.D,
		Pages: q.B * (k.L/Block + 3), Format: f.keys, ValueFormat: f.values,
		ValuesInKeys: latent(k, v)})
	if err != nil {
		return nil, err
	}
	longest := 0
	for b := range q.B {
		n := k.L
		if opt.KeyLens != nil {
			n = opt.KeyLens[b]
		}
		keys, values := entryOf(k, b, n), entryOf(v, b, n)
		s, common := store.NewSequence(), 0
		if b > 0 { // the same tokens are in the same pages
			before := c.seqs[b-1]
			if common = min(n, before.Len(), commonTokens(k, b), commonTokens(v, b)); common > 0 {
				s = before.Fork()
				if err := s.Truncate(common); err != nil {
					return nil, err
				}
			}
		}
		add := func(from, n int) error {
			x, y := rowsOf(keys, from, n), rowsOf(values, from, n)
			if latent(k, v) {
				y = Tensor{}
			}
			return s.Append(x, y)
		}
		if err := add(common, n-common); err != nil {
			return nil, err
		}
		if s.Fork(); n%2 == 1 { // pages have another user, and one is a copy
			if err := s.Truncate(n - 1); err != nil {
				return nil, err
			}
			if err := add(n-1, 1); err != nil {
				return nil, err
			}
		}
		c.seqs = append(c.seqs, s)
		longest = max(longest, n)
	}
	c.q = sideBySide(q, c.lens, q.H, q.D)
	c.opt.KeyLens, c.opt.QueryLens = nil, c.lens
	if !opt.Mask.none() {
		mask := sideBySide(opt.Mask, c.lens, opt.Mask.H, longest)
		c.opt.Mask = mask
	}
	if !opt.Blocks.none() {
		var rows []int
		for _, n := range c.lens {
			rows = append(rows, partsOf(n, Block))
		}
		c.opt.Blocks = sideBySide(opt.Blocks, rows, opt.Blocks.H, partsOf(longest, Block))
	}
	if opt.Tree != nil {
		c.opt.Tree = slices.Repeat(opt.Tree, q.B)
	}
	if !opt.Bias.none() {
		bias := sideBySide(opt.Bias, c.lens, opt.Bias.H, longest)
		c.opt.Bias = bias
	}
	if x := opt.Distance.Query; !x.none() && (x.B > 1 || x.L > 1) {
		if x.L == 1 {
			x.SB, x.SH, _ = x.Strides()
			x.L, x.SL = q.L, Broadcast
		}
		c.opt.Distance.Query = sideBySide(x, c.lens, x.H, x.D)
	}
	if opt.LSE != nil {
		c.opt.LSE = nans(q.H * c.q.L)
	}
	pairs := longest
	if !opt.Keys.none() {
		pairs = opt.Keys.D
		c.opt.Keys = sideBySide(opt.Keys, c.lens, opt.Keys.H, pairs)
	}
	if !opt.Weights.none() {
		weights := BHLD(nans(q.H*c.q.L*pairs), 1, q.H, c.q.L, pairs)
		c.opt.Weights = weights
	}
	return c, nil
}

// commonTokens is how many tokens an entry begins with that the entry before has, too.
func commonTokens(x Tensor, b int) int {
	for j := range x.L {
		for h := range x.H {
			if firstDifference(x.Row(b, h, j), x.Row(b-1, h, j)) >= 0 {
				return j
			}
		}
	}
	return x.L
}

// entryOf is the first n rows of one batch entry.
func entryOf(x Tensor, b, n int) Tensor {
	sb, _, _ := x.Strides()
	x = x.Slice(0, n)
	x.Data, x.B = x.Data[b*sb:], 1
	return x
}

// sideBySide is the first rows of each batch entry, one after another, d elements of each. A single
// row for all queries of one entry stays one.
func sideBySide[T any](x View[T], lens []int, heads, d int) View[T] {
	n := 0
	if len(lens) == 1 && x.L == 1 {
		lens = []int{min(lens[0], 1)}
	}
	for _, l := range lens {
		n += l
	}
	y := BHLD(make([]T, heads*n*d), 1, heads, n, d)
	at := 0
	for b, l := range lens {
		for h := range heads {
			for i := range l {
				copy(y.Row(0, h, at+i), x.Row(b%x.B, h, min(i, x.L-1))[:d])
			}
		}
		at += l
	}
	return y
}

// unpack writes the results to the places of the batch.
func (c *packedCall) unpack(dst, out Tensor, opt *Options) {
	at := 0
	for b, n := range c.lens {
		for h := range dst.H {
			for i := range dst.L {
				row := at + i
				if i >= n {
					row = -1
				}
				c.unpackRow(dst, out, opt, b, h, i, row)
			}
		}
		at += n
	}
}

// unpackRow writes one row; −1 is a row of nothing.
func (c *packedCall) unpackRow(dst, out Tensor, opt *Options, b, h, i, row int) {
	to, lse := dst.Row(b, h, i), negInf
	if clear(to); row >= 0 {
		copy(to, out.Row(0, h, row))
	}
	if opt.LSE != nil {
		if row >= 0 {
			lse = c.opt.LSE[h*out.L+row]
		}
		opt.LSE[(b*dst.H+h)*dst.L+i] = lse
	}
	if opt.Weights.none() {
		return
	}
	if to = opt.Weights.Row(b, h, i); row >= 0 {
		copy(to, c.opt.Weights.Row(0, h, row))
		to = to[c.opt.Weights.D:]
	}
	clear(to)
}
