package attn

// Attend computes dst = softmax(scale·QKᵀ + …)·V on the calling goroutine. It
// allocates only when the scratch memory that calls share has to grow: to nearly an L2
// cache for each goroutine that is in a call, or to some 448·D + 640·Dv bytes if that is more.
//
//	q   [B, H, Lq, D]
//	k   [B, KVH, Lk, D]     KVH divides H; head h reads key/value head h/(H/KVH)
//	v   [B, KVH, Lk, Dv]
//	dst [B, H, Lq, Dv]
//
// D and Dv may be 1 to 2²⁸, the other sizes 0 to 2²⁸. Strides are any numbers from 0. Of dst, from
// the least stride up, each must step over all that is inside it, so that no two elements coincide.
// dst must not share memory with an input (see [ErrOverlap]); inputs may share memory with each
// other. A row without a live key is zero. If the arguments are invalid, Attend returns an error
// that names the argument and has written nothing.
//
// The result's bits depend on nothing but the row's own query, its live keys and values, their
// absolute positions and the options: not on the CPU, the batch, the strides, or the way
// queries are split over calls.
func Attend(dst, q, k, v Tensor, opt *Options) error {
	p := newPlan(dst, q, k, v, opt)
	if err := p.init(opt); err != nil {
		return err
	}
	if !p.dst.empty() {
		p.decide(&tuned, 1)
		p.attend()
	}
	return nil
}

// Implementation names the kernels in use: "avx512", "avx2", "neon" or "generic". It is
// chosen once, when the program starts; the environment variable ATTN_ISA forces
// one, and the program panics at its start if that one is not there.
func Implementation() string { return tuned.isa.String() }
