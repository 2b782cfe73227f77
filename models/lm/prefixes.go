package lm

import (
	"slices"

	"github.com/seed-1415985d/attn"
)

// prefixes are the sequences of ended jobs, and of prompts, that later prompts may begin with.
// Their pages and states are not shared with running jobs; the least recently used sequence is
// dropped first.
type prefixes struct {
	list []prefix // the most recently used one is the last
}

type prefix struct {
	tokens []int32
	seq    sequence
}

// mostPrefixes bounds the time of a search.
const mostPrefixes = 256

// add keeps an unused sequence of some tokens. whole says that sequences can be shared from any
// length on, so that a longer one replaces its beginnings.
func (p *prefixes) add(tokens []int32, seq sequence, whole bool) {
	if len(tokens) < attn.Block {
		seq.release()
		return
	}
	for i := len(p.list) - 1; i >= 0; i-- {
		old := p.list[i]
		n := common(old.tokens, tokens)
		switch {
		case n == len(tokens) && (whole || n == len(old.tokens)):
			seq.release()
			p.use(i)
			return
		case whole && n == len(old.tokens):
			old.seq.release()
			p.list = slices.Delete(p.list, i, i+1)
		}
	}
	if len(p.list) == mostPrefixes {
		p.drop()
	}
	p.list = append(p.list, prefix{slices.Clone(tokens), seq})
}

// find returns the index of the sequence that has the most of the first tokens of a prompt, and how
// many; n is 0 if there is none.
func (p *prefixes) find(prompt []int32) (at, n int) {
	for i, x := range p.list {
		if m := x.seq.reach(common(x.tokens, prompt)); m > n {
			at, n = i, m
		}
	}
	return at, n
}

// use makes a sequence the most recently used one and returns it.
func (p *prefixes) use(i int) sequence {
	x := p.list[i]
	p.list = append(slices.Delete(p.list, i, i+1), x)
	return x.seq
}

// drop releases the least recently used sequence. It reports whether there was one.
func (p *prefixes) drop() bool {
	if len(p.list) == 0 {
		return false
	}
	p.list[0].seq.release()
	p.list = slices.Delete(p.list, 0, 1)
	return true
}

func (p *prefixes) clear() {
	for p.drop() {
	}
}

// common returns the length of the common beginning of two lists of tokens.
func common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
