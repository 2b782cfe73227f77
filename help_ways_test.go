package attn

import (
	"sync"

	"github.com/seed-1415985d/attn/internal/sanitize"
)

// ways lists what computes attention and must give the bits of Attend.
var ways = []struct {
	name   string
	attend attender
}{
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

// attendPooled is Pool.Attend, but divides even the smallest call into as many
// pieces as it can.
func attendPooled(dst, q, k, v Tensor, opt *Options) error {
	return pooled(dst, func(j *job) error {
		j.plan = newPlan(dst, q, k, v, opt)
		return j.plan.init(opt)
	})
}

// pooled runs a call that prepare validates.
func pooled(dst Tensor, prepare func(j *job) error) error {
	p := threeWorkers()
	j, err := p.begin()
	if err != nil {
		return err
	}
	defer p.end(j)
	if err := prepare(j); err != nil || dst.empty() {
		return err
	}
	j.begin(p.size)
	p.run(j)
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

// attendPooledCached is attendCached with a pool that divides even the smallest call.
func attendPooledCached(dst, q, k, v Tensor, opt *Options) error {
	if k.empty() {
		return attendPooled(dst, q, k, v, opt)
	}
	c, err := filledIn(formatFor(opt), k, v)
	if err != nil {
		return err
	}
	return pooled(dst, func(j *job) error {
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

// keptValues is what to append beside keys.
func keptValues(k, v Tensor) Tensor {
	if latent(k, v) {
		return Tensor{}
	}
	return v
}

func filledIn(f Format, k, v Tensor) (*Cache, error) {
	c, err := NewCache(CacheConfig{Batch: k.B, KVHeads: k.H, HeadDim: k.D, ValueDim: v.D,
		Capacity: k.L, Format: f, ValuesInKeys: latent(k, v)})
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
// different lengths: these are left to Attend.
func attendState(dst, q, k, v Tensor, opt *Options) error {
	err := Attend(dst, q, k, v, opt)
	o := *opt
	if err != nil || dst.empty() || o.Causal == BottomRight &&
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

// stateOver is a state that has seen keys [lo, hi).
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
			mask := o.Mask
			mask.Data, mask.D = mask.Data[lo:], n
			chunk.Mask = mask
		}
		if !o.Bias.none() {
			bias := o.Bias
			bias.Data, bias.D = bias.Data[lo:], n
			chunk.Bias = bias
		}
		if o.KeyLens != nil {
			chunk.KeyLens = make([]int, len(o.KeyLens))
			for b, m := range o.KeyLens {
				chunk.KeyLens[b] = min(max(0, m-lo), n)
			}
		}
		if err := s.Update(q, rowsOf(k, lo, n), rowsOf(v, lo, n), &chunk); err != nil {
			return nil, err
		}
		lo += n
	}
	return s, nil
}
