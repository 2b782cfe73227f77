package linattn

import (
	"math"
	"sync"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel/elements"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/views"
)

// Decay computes decays for [State.Append] from the layer's projections x and the model's
// parameters a and dt:
//
//	dst = −exp(a)·softplus(x + dt) + 0
//
// Each operation is rounded; the functions are [attn.Exp] and Softplus of package nn. x and dst are
// [B, Heads, n, D]. Qwen3-Next and Mamba-2 have D 1 and, for each head, an a (A_log) and a dt
// (dt_bias). Kimi Linear has D = KeyDim, an a for each head, and a dt for each channel, [Heads][D].
// A nil dt means zeros. Projections in rows [n][Heads·D] are the view attn.Rows(data, 1, n, Heads,
// D, pitch). GGUF files store −exp(a) in place of a: a is the logarithm of its magnitude, by
// nn.Log.
//
// dst may be exactly x; any other overlap is [attn.ErrOverlap]. Lists of another length are
// [attn.ErrLength], an a that is NaN or whose exponential is infinite is [attn.ErrOption]. NaN in x
// or dt makes its own decays NaN.
func Decay(p *attn.Pool, dst, x attn.Tensor, a, dt []float32) (err error) {
	defer views.NameFunction("linattn.Decay", &err)
	j := decayJobs.Get().(*decayJob)
	j.dst, j.x, j.a, j.dt = argumentOf("dst", &dst), argumentOf("x", &x), a, dt
	err = j.check()
	if err == nil && !j.dst.Empty() && j.dst.D > 0 {
		err = j.run(p)
	}
	*j = decayJob{}
	decayJobs.Put(j)
	return err
}

// decayJob is a call of Decay. A part of its work is decayRows positions of all heads.
type decayJob struct {
	dst, x argument
	a, dt  []float32
	parts  int // parts of a batch entry
}

var decayJobs = sync.Pool{New: func() any { return new(decayJob) }}

const (
	decayRows   = 64   // positions of a part
	decayBuffer = 1024 // elements of a kernel call
)

func (j *decayJob) check() error {
	x, dst := &j.x, &j.dst
	for _, v := range [...]*argument{dst, x} {
		if err := v.Check(v.Name); err != nil {
			return err
		}
	}
	if dst.B != x.B || dst.H != x.H || dst.L != x.L || dst.D != x.D {
		return views.Fail(attn.ErrShape, "dst is [%d %d %d %d], want [%d %d %d %d] as x is", dst.B, dst.H,
			dst.L, dst.D, x.B, x.H, x.L, x.D)
	}
	if err := dst.CheckDistinct(dst.Name); err != nil {
		return err
	}
	if len(j.a) != x.H {
		return views.Fail(attn.ErrLength, "len(a) is %d, want one for each head, %d", len(j.a), x.H)
	}
	if j.dt != nil && len(j.dt) != x.H && len(j.dt) != x.H*x.D {
		return views.Fail(attn.ErrLength, "len(dt) is %d, want 0, one for each head, %d, or for each "+
			"channel, %d", len(j.dt), x.H, x.H*x.D)
	}
	for h, a := range j.a {
		if !(f32.Exp(a) <= math.MaxFloat32) {
			return views.Fail(attn.ErrOption, "a[%d] is %v, want a number whose exponential is finite", h, a)
		}
	}
	return j.checkApart()
}

// checkApart makes sure that dst overlaps no input, unless it is exactly x.
func (j *decayJob) checkApart() error {
	if j.dst.Empty() || j.dst.D == 0 {
		return nil
	}
	lists := [...]views.Extent{views.ExtentOfSlice("a", j.a), views.ExtentOfSlice("dt", j.dt), {}}
	outputs := [...]views.Extent{j.dst.Memory()}
	for i, list := range [...][]float32{j.a, j.dt} {
		if len(list) > 0 {
			lists[i].Begin = operand.Address(list, 0)
		}
	}
	if !j.dst.Same(&j.x) {
		lists[2] = j.x.Memory()
	}
	return views.CheckApart(outputs[:], lists[:])
}

func (j *decayJob) run(p *attn.Pool) error {
	j.parts = (j.dst.L + decayRows - 1) / decayRows
	return p.Run(j.parts*j.dst.B, j)
}

// Work implements attn.Worker.
func (j *decayJob) Work(part int) {
	b, from := part/j.parts, part%j.parts*decayRows
	to := min(from+decayRows, j.dst.L)
	rows := max(1, decayBuffer/j.dst.D)
	for h := range j.dst.H {
		for l := from; l < to; l += rows {
			for c := 0; c < j.dst.D; c += decayBuffer {
				j.computePiece(b, h, l, min(l+rows, to), c, min(c+decayBuffer, j.dst.D))
			}
		}
	}
}

// computePiece computes the decays of a head for positions [from, to) and channels [c, end), at
// most decayBuffer elements.
func (j *decayJob) computePiece(b, h, from, to, c, end int) {
	var near [decayBuffer]float32
	n, rate := 0, -f32.Exp(j.a[h])
	for l := from; l < to; l++ {
		x := j.x.Row(b, h, l)[c:end]
		switch sums := near[n:][:len(x)]; len(j.dt) {
		case 0:
			copy(sums, x)
		case j.dst.H:
			for i, e := range x {
				sums[i] = e + j.dt[h]
			}
		default:
			for i, dt := range j.dt[h*j.dst.D:][c:end] {
				sums[i] = x[i] + dt
			}
		}
		n += len(x)
	}
	elements.Activate(tuned.ISA, near[:n], near[:n], elements.Softplus, elements.Ahead{})
	n = 0
	for l := from; l < to; l++ {
		dst := j.dst.Row(b, h, l)[c:end]
		for i := range dst {
			dst[i] = float32(rate*near[n+i]) + 0
		}
		n += len(dst)
	}
}
