package attn

// pages is which blocks of a store are those of a sequence, and which of its positions have a token. The same blocks of every head make a page.
type pages struct {
	table  []int32 // pages, in the order of their positions
	base   int     // pages before these that were given back
	first  int     // tokens before this position were dropped
	length int     // tokens, with those that were dropped
}

// at is the page with position j.
func (p *pages) at(j int) int { return int(p.table[j/Block-p.base]) }

// end is the position after the last page.
func (p *pages) end() int { return (p.base + len(p.table)) * Block }

// inPage is the positions of page i of the table that have a token, counted from the page's first.
func (p *pages) inPage(i int) (lo, hi int) {
	at := (p.base + i) * Block
	return max(0, p.first-at), min(Block, p.length-at)
}

// shared is how many positions from 0 on two sequences have in the same pages. Sequences that have given back pages share with those only
// that have given back as many.
func (p *pages) shared(q *pages) int {
	if p.base != q.base {
		return 0
	}
	n := 0
	for n < min(len(p.table), len(q.table)) && p.table[n] == q.table[n] {
		n++
	}
	if n == 0 {
		return 0
	}
	return (p.base + n) * Block
}

// compare orders sequences so that those that share most are next to each other.
func (p *pages) compare(q *pages) int {
	if p.base != q.base {
		return p.base - q.base
	}
	for i := range min(len(p.table), len(q.table)) {
		if p.table[i] != q.table[i] {
			return int(p.table[i]) - int(q.table[i])
		}
	}
	return len(p.table) - len(q.table)
}
