package attn

// Attend computes scaled dot-product attention, dst = softmax(scale·QKᵀ + …)·V, on the calling
// goroutine. Options select masks, additions and further outputs; nil is softmax(QKᵀ/√D)·V.
//
//	q   [B, H, Lq, D]
//	k   [B, KVH, Lk, D]     KVH divides H; query head h reads key/value head h/(H/KVH)
//	v   [B, KVH, Lk, Dv]
//	dst [B, H, Lq, Dv]
//
// Views may have any strides, see [View]. The elements of dst must be distinct, and dst must share
// no memory with an input (see [ErrOverlap]); inputs may share memory with each other. The row of a
// query that sees no key is zero. If the arguments are invalid, Attend returns an error that names
// the argument, and has written nothing.
//
// The bits of a row depend on its query, on the keys and values that it sees, on their absolute
// positions and on the options. They do not depend on the CPU, the batch, the strides, or the way
// queries are split over calls.
//
// D and Dv may be 1 to 2²⁸, the other sizes 0 to 2²⁸. Attend allocates only when scratch memory,
// which calls share, has to grow: for each goroutine in a call up to nearly the size of an L2
// cache, or about 448·D + 640·Dv bytes if that is more, and beyond [Segment] keys a fraction of
// that for each doubling of their number.
func Attend(dst, q, k, v Tensor, opt *Options) error {
	if opt != nil && opt.Documents != nil {
		return attendDocuments(dst, q, k, v, opt)
	}
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

// Implementation names the kernels in use: "avx512", "avx2", "neon" or "generic". It is chosen
// once, when the program starts. The environment variable ATTN_ISA forces one, and the program
// panics at its start if that one is not available.
//
// "generic" is plain Go. On arm64, loong64, ppc64, ppc64le, riscv64 and s390x its multiply-adds are
// single instructions, if the compiler that built the program fuses a·b + c, as Go does; the
// program tests that when it starts. With another compiler, and on all other CPUs, they are
// emulated by float64: the same bits, several times slower.
func Implementation() string { return tuned.ISA.String() }
