package pages

// Table says which pages have the tokens of a sequence. Positions count from the first token ever:
// dropping tokens from the front does not renumber the others.
type Table struct {
	pages  []int32 // in the order of their positions
	base   int     // pages before these that were given back
	first  int     // tokens before this position were dropped
	length int     // tokens, with those that were dropped
}

// Len is the position after the last token, First the position of the first token that was not
// dropped.
func (t *Table) Len() int   { return t.length }
func (t *Table) First() int { return t.first }

// Page is the page with position j.
func (t *Table) Page(j int) int { return int(t.pages[j/Tokens-t.base]) }

// Count is the number of pages.
func (t *Table) Count() int { return len(t.pages) }

// At is the i-th page of the table, and which of its positions have a token, counted from the
// page's first.
func (t *Table) At(i int) (page, lo, hi int) {
	at := (t.base + i) * Tokens
	return int(t.pages[i]), max(0, t.first-at), min(Tokens, t.length-at)
}

// end is the position after the last page.
func (t *Table) end() int { return (t.base + len(t.pages)) * Tokens }

// newPages returns how many pages n more tokens need in addition to the table's, however large n
// is.
func (t *Table) newPages(n int) int {
	room := t.end() - t.length
	if n <= room {
		return 0
	}
	return (n-room-1)/Tokens + 1
}

// Shared is how many positions from 0 on are in the same pages in both tables. Tables that have
// given back pages share with those only that have given back as many.
func (t *Table) Shared(u *Table) int {
	if t.base != u.base {
		return 0
	}
	n := 0
	for n < min(len(t.pages), len(u.pages)) && t.pages[n] == u.pages[n] {
		n++
	}
	if n == 0 {
		return 0
	}
	return (t.base + n) * Tokens
}

// Compare orders tables so that those that share the most pages are next to each other.
func (t *Table) Compare(u *Table) int {
	if t.base != u.base {
		return t.base - u.base
	}
	for i := range min(len(t.pages), len(u.pages)) {
		if t.pages[i] != u.pages[i] {
			return int(t.pages[i]) - int(u.pages[i])
		}
	}
	return len(t.pages) - len(u.pages)
}
