package lm

import (
	"fmt"

	"github.com/seed-1415985d/attn"
)

// pageGroup is a store, which stands for all layers with the same window, since their sequences
// grow alike.
type pageGroup struct {
	layer int
	store *attn.Store
	most  int // most pages of a sequence; 0: as many as its tokens fill
}

// holds returns the most pages of a sequence of some tokens. One of them is for a page that it
// shares with another sequence and copies before it writes.
func (g *pageGroup) holds(tokens int) int {
	n := pagesOf(tokens)
	if g.most > 0 {
		n = min(n, g.most)
	}
	return n + 1
}

// left returns the most pages that a job may still need.
func (g *pageGroup) left(j *job) int {
	if j.seq == nil {
		return 0
	}
	q := j.seq.(paged).keys(g.layer)
	return max(0, g.holds(j.limit)-(pagesOf(q.Len())-q.First()/attn.Block))
}

// couldHold refuses sequences that exceed the memory even alone.
func (e *engine) couldHold(tokens int) error {
	if e.pages == nil {
		return nil
	}
	return e.pages.couldHold(tokens)
}

func (c *pages) couldHold(tokens int) error {
	for i := range c.groups {
		g := &c.groups[i]
		if n, all := g.holds(tokens), g.store.Config().Pages; n > all {
			return fmt.Errorf("%w: a sequence of %d tokens needs %d pages of %d tokens, and Options.Memory "+
				"has room for %d", attn.ErrMemory, tokens, n, attn.Block, all)
		}
	}
	return nil
}

// fits reports whether there are pages for a job and for all that the active jobs may still need.
func (c *pages) fits(active []*job, j *job) bool {
	for i := range c.groups {
		g := &c.groups[i]
		need := g.left(j)
		for _, other := range active {
			need += g.left(other)
		}
		if need > g.store.FreePages() {
			return false
		}
	}
	return true
}

// spares reports whether there is memory for one more sequence in layers with windows or states.
func (c *pages) spares(active []*job) bool {
	if c.full() {
		return false
	}
	for i := range c.groups {
		g := &c.groups[i]
		need := g.most
		for _, other := range active {
			need += g.left(other)
		}
		if need > g.store.FreePages() {
			return false
		}
	}
	return true
}

// full reports whether there are as many sequences with windows or states as there may be.
func (c *pages) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slots > 0 && c.sequences >= c.slots
}
