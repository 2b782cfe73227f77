// Package pages shares a fixed number of pages among sequences of tokens. It counts the sequences
// of each page, and keeps the table of each sequence; it does not know the content of pages. Forked
// sequences share pages until one of them writes.
package pages

import (
	"slices"
	"sync"
)

// Tokens is the number of positions of a page.
const Tokens = 64

// Pool is the pages of a store. All methods are safe for concurrent use; a table belongs to one
// caller at a time.
type Pool struct {
	size int

	mu     sync.Mutex
	users  []int32   // for each page the number of tables with it
	free   []int32   // free pages; the last one is used next
	spare  [][]int32 // memory of tables that were released
	tables int       // allocated tables, in use and spare
}

// NewPool returns n free pages, numbered from 0.
func NewPool(n int) *Pool {
	p := &Pool{size: n, users: make([]int32, n), free: make([]int32, n)}
	for i := range p.free {
		p.free[i] = int32(n - 1 - i) // so that a sequence that grows alone gets pages in ascending order
	}
	return p
}

// Size returns the number of pages, free or not.
func (p *Pool) Size() int { return p.size }

// Free returns the number of free pages.
func (p *Pool) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.free)
}

// NewTable returns a table without pages. It uses the memory of a released table, if there is one.
func (p *Pool) NewTable() Table {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newTable()
}

// newTable is NewTable under the lock.
func (p *Pool) newTable() Table {
	if last := len(p.spare) - 1; last >= 0 {
		t := Table{pages: p.spare[last]}
		p.spare = p.spare[:last]
		return t
	}
	p.tables++
	p.spare = slices.Grow(p.spare, p.tables) // so that Release allocates nothing
	return Table{pages: make([]int32, 0, p.size)}
}

// Fork returns a table with the same pages as t.
func (p *Pool) Fork(t *Table) Table {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.newTable()
	f.pages = append(f.pages, t.pages...)
	f.base, f.first, f.length = t.base, t.first, t.length
	for _, page := range t.pages {
		p.users[page]++
	}
	return f
}

// Release frees the pages that no other table has, and the memory of the table, which must not be
// used again.
func (p *Pool) Release(t *Table) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(t.pages)
	p.spare = append(p.spare, t.pages[:0])
}

// Need returns the number of free pages for n more tokens, including a copy of a shared page.
func (p *Pool) Need(t *Table, n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.need(t, n)
}

// need is Need under the lock.
func (p *Pool) need(t *Table, n int) int {
	need := t.newPages(n)
	if n > 0 && p.sharesLast(t) {
		need++
	}
	return need
}

// sharesLast reports whether the next token belongs to a page that another table has, too.
func (p *Pool) sharesLast(t *Table) bool {
	return t.length < t.end() && p.users[t.Page(t.length)] > 1
}

// Grow adds n positions to a table. If the next one is in a shared page, the table gets its own
// page instead, to which copyPage copies the shared one. If there are too few free pages, nothing
// changes, and ok is false.
func (p *Pool) Grow(t *Table, n int, copyPage func(dst, src int32)) (need, free int, ok bool) {
	p.mu.Lock()
	if need, free = p.need(t, n), len(p.free); need > free {
		p.mu.Unlock()
		return need, free, false
	}
	var own [1]int32
	shared := n > 0 && p.sharesLast(t)
	if shared {
		p.takePages(own[:0], 1)
	}
	t.pages = p.takePages(t.pages, t.newPages(n))
	p.mu.Unlock()
	if shared { // while it is copied the page is still shared, so nobody writes to it
		last := &t.pages[t.length/Tokens-t.base]
		copyPage(own[0], *last)
		own[0], *last = *last, own[0]
		p.giveBack(own[:])
	}
	t.length += n
	return need, free, true
}

// Unshare replaces shared pages of a table by its own for positions [lo, hi), at least one.
// copyPage copies the shared ones. If there are too few free pages, nothing changes, and ok is
// false. (The pages are noted where t has room, as in Replacement.)
func (p *Pool) Unshare(t *Table, lo, hi int, copyPage func(dst, src int32)) (need, free int,
	ok bool) {
	list := t.pages[lo/Tokens-t.base : (hi-1)/Tokens-t.base+1]
	p.mu.Lock()
	for _, page := range list {
		if p.users[page] > 1 {
			need++
		}
	}
	if free = len(p.free); need > free {
		p.mu.Unlock()
		return need, free, false
	}
	own := p.takePages(t.pages[len(t.pages):], need)
	p.mu.Unlock()
	for i := range list {
		if !p.shared(list[i]) {
			continue
		}
		copyPage(own[0], list[i]) // while it is shared, nobody writes to it
		own[0], list[i] = list[i], own[0]
		p.giveBack(own[:1])
		own = own[1:]
	}
	p.giveBack(own) // pages that other tables have released meanwhile
	return need, free, true
}

// shared reports whether several tables have a page. Only those that have it can share it with
// more.
func (p *Pool) shared(page int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.users[page] > 1
}

// Truncate drops the positions from n on, which is First to Len.
func (p *Pool) Truncate(t *Table, n int) {
	t.length = n
	keep := max(0, (n+Tokens-1)/Tokens-t.base)
	p.giveBack(t.pages[keep:])
	t.pages = t.pages[:keep]
}

// DropBefore drops the positions before n, which is at most Len. Pages without remaining tokens are
// freed.
func (p *Pool) DropBefore(t *Table, n int) {
	t.first = max(t.first, n)
	if whole := t.first/Tokens - t.base; whole > 0 {
		p.giveBack(t.pages[:whole])
		t.pages = t.pages[:copy(t.pages, t.pages[whole:])]
		t.base += whole
	}
}

// Replacement returns a table with new pages for positions [first, length), to be filled, and then
// to replace t by Replace, or to be freed by Discard. Until then both have their pages. The pages
// are noted where t has room, so nothing is allocated: tables have room for all pages.
func (p *Pool) Replacement(t *Table, first, length int) (r Table, need, free int, ok bool) {
	r = Table{base: first / Tokens, first: first, length: length}
	p.mu.Lock()
	defer p.mu.Unlock()
	if need, free = (length+Tokens-1)/Tokens-r.base, len(p.free); need > free {
		return r, need, free, false
	}
	r.pages = p.takePages(t.pages[len(t.pages):], need)
	return r, need, free, true
}

// Replace frees the pages of t and gives it the pages of r.
func (p *Pool) Replace(t, r *Table) {
	p.giveBack(t.pages)
	r.pages = append(t.pages[:0], r.pages...)
	*t = *r
}

// Discard frees the pages of an unused replacement.
func (p *Pool) Discard(r *Table) { p.giveBack(r.pages) }

// takePages adds n free pages to a list, under the lock; there are at least n.
func (p *Pool) takePages(list []int32, n int) []int32 {
	for range n {
		last := len(p.free) - 1
		page := p.free[last]
		p.free = p.free[:last]
		p.users[page] = 1
		list = append(list, page)
	}
	return list
}

// giveBack removes a user from each page.
func (p *Pool) giveBack(list []int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(list)
}

// drop is giveBack under the lock. The last page is freed first, so that consecutive pages are used
// again in their order.
func (p *Pool) drop(list []int32) {
	for _, page := range slices.Backward(list) {
		if p.users[page]--; p.users[page] == 0 {
			p.free = append(p.free, page)
		}
	}
}
