package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// keyGroup is four keys in rows, as the caller has them: pointers that move along the dimensions.
type keyGroup interface {
	// loadFour loads the next four dimensions of key i to v[i] and moves on.
	loadFour(p *program, v []Vec)
	// loadOne loads the next dimension of all keys to the lanes of v and moves on.
	loadOne(p *program, v Vec)
}

// strided is four keys with equal distances: one pointer, and the registers
// with one, two and three times the distance.
type strided struct {
	key  Reg
	far  [3]Reg
	next Reg // a work register
}

func (g strided) loadFour(p *program, v []Vec) {
	for i, d := range g.far {
		p.LdrQIndexed(v[i+1], g.key, d)
	}
	p.LdrQPost(v[0], g.key)
}

func (g strided) loadOne(p *program, v Vec) {
	for i, d := range g.far {
		p.Add(g.next, g.key, d)
		p.Ld1Lane(v, i+1, g.next)
	}
	p.Ld1LanePost(v, 0, g.key)
}

// keyPointers is four keys anywhere.
type keyPointers [4]Reg

func (g keyPointers) loadFour(p *program, v []Vec) {
	for i, key := range g {
		p.LdrQPost(v[i], key)
	}
}

func (g keyPointers) loadOne(p *program, v Vec) {
	for i, key := range g {
		p.Ld1LanePost(v, i, key)
	}
}

// clamp points to the keys from first on. For n < 4 keys, the pointers after the last key point to
// the last key, so that only memory of keys is read.
func (g keyPointers) clamp(p *program, first, stride, n Reg) {
	p.Mov(g[0], first)
	for i := 1; i < len(g); i++ {
		p.CmpImm(n, i)
		p.Add(g[i], g[i-1], stride)
		p.Csel(GT, g[i], g[i], g[i-1])
	}
}

// transpose leaves in out[x] element x of the four vectors in; work and in are used up.
func (p *program) transpose(out, in, work []Vec) {
	p.Trn1(work[0], in[0], in[1]) // a0 b0 a2 b2
	p.Trn2(work[1], in[0], in[1]) // a1 b1 a3 b3
	p.Trn1(work[2], in[2], in[3]) // c0 d0 c2 d2
	p.Trn2(work[3], in[2], in[3])
	for x := range 2 {
		p.Trn1D(out[x], work[x], work[x+2]) // a0 b0 c0 d0
		p.Trn2D(out[x+2], work[x], work[x+2])
	}
}
