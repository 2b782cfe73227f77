package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// span is the number of elements that a pass of a loop handles: some vectors, or a single element.
type span struct {
	vectors int
	single  bool
}

// each runs body over n elements: most vectors at a time, then one, then single
// elements, so that nothing after a slice is touched. body loads and stores by
// the methods below. n is used up.
func (p *program) each(n Reg, most int, body func(s span)) {
	if most > 1 {
		p.passes(n, span{vectors: most}, body)
	}
	p.passes(n, span{vectors: 1}, body)
	p.passes(n, span{vectors: 1, single: true}, body)
}

func (p *program) passes(n Reg, s span, body func(s span)) {
	loop, end := p.label("loop"), p.label("end")
	size := s.elements()
	p.Comment("%d at a time.", size)
	p.SubsImm(n, n, size)
	p.Bcond(LT, end)
	p.Label(loop)
	body(s)
	p.SubsImm(n, n, size)
	p.Bcond(GE, loop)
	p.Label(end)
	p.AddImm(n, n, size)
}

func (s span) elements() int {
	if s.single {
		return 1
	}
	return lanes * s.vectors
}

// of returns the registers of v that the span uses.
func (s span) of(v []Vec) []Vec { return v[:s.vectors] }

// load loads without moving the pointer.
func (p *program) load(s span, v []Vec, base Reg) {
	if s.single {
		p.LdrS(v[0], base, 0)
		return
	}
	p.Ld1(s.of(v), base)
}

// load1 is load of one vector.
func (p *program) load1(s span, v Vec, base Reg) { p.load(s, []Vec{v}, base) }

// loadNext loads and moves the pointer.
func (p *program) loadNext(s span, v []Vec, base Reg) {
	if s.single {
		p.LdrSPost(v[0], base)
		return
	}
	p.Ld1Post(s.of(v), base)
}

// storeNext stores and moves the pointer.
func (p *program) storeNext(s span, v []Vec, base Reg) {
	if s.single {
		p.StrSPost(v[0], base)
		return
	}
	p.St1Post(s.of(v), base)
}

// storeLow stores the first n ≤ 4 lanes of v and moves base past them; it changes v's lanes not at
// all.
func (p *program) storeLow(v Vec, n, base Reg) {
	end := p.label("stored")
	for t := range lanes {
		if t > 0 {
			p.CmpImm(n, t)
			p.Bcond(LE, end)
		}
		p.St1LanePost(v, t, base)
	}
	p.Label(end)
}

// lowLane clears all lanes but the first.
func (p *program) lowLane(v Vec) {
	p.constant(31, p.words("the first lane", 0xffffffff, 0, 0, 0))
	p.And(v, v, 31)
}
