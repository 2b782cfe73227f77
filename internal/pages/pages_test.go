package pages

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// model is what a pool should do, in plain words: each sequence has a page for some positions, and
// a page has some tokens written in it.
type model struct {
	*testing.T
	*Pool
	size  int
	live  []*sequence
	spare map[int]bool        // pages of a replacement that is not in its place yet
	wrote map[int]map[int]int // page → position in the page → the token there
	next  int                 // the next token
}

// sequence is a table and what it should say.
type sequence struct {
	Table
	pages         map[int]int // position/Tokens → page
	tokens        map[int]int // position → token
	first, length int
}

// FuzzPages: after any operations each sequence reads the tokens that it was given, no page is
// lost, none is free twice, and the pool knows how many tables have each.
func FuzzPages(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		data := make([]byte, 100)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &choices{data}
		size := 1 + c.intN(12)
		m := &model{T: t, Pool: NewPool(size), size: size, wrote: map[int]map[int]int{}}
		m.join(m.NewTable(), &sequence{})
		for len(c.data) > 0 {
			m.step(c)
			m.check()
		}
		for len(m.live) > 0 {
			m.release(0)
			m.check()
		}
	})
}

// choices spends the fuzzer's bytes.
type choices struct{ data []byte }

// intN is a number below n, which is at most 65536.
func (c *choices) intN(n int) int {
	x := 0
	for range 2 {
		if len(c.data) > 0 {
			x, c.data = x<<8|int(c.data[0]), c.data[1:]
		}
	}
	return x % n
}

// join adds a table that should say what another sequence's does.
func (m *model) join(t Table, like *sequence) {
	m.live = append(m.live, &sequence{t, maps.Clone(like.pages), maps.Clone(like.tokens), like.first,
		like.length})
	s := m.live[len(m.live)-1]
	if s.pages == nil {
		s.pages, s.tokens = map[int]int{}, map[int]int{}
	}
}

func (m *model) step(c *choices) {
	if len(m.live) == 0 {
		m.join(m.NewTable(), &sequence{})
	}
	i := c.intN(len(m.live))
	s := m.live[i]
	switch c.intN(12) {
	case 9:
		if n := s.length - s.first; n > 0 {
			lo := s.first + c.intN(n)
			m.unshare(s, lo, lo+1+c.intN(s.length-lo))
		}
	case 0:
		m.join(m.NewTable(), &sequence{})
	case 1:
		m.join(m.Fork(&s.Table), s)
	case 2:
		m.release(i)
	case 3:
		n := s.first + c.intN(s.length-s.first+1)
		m.Truncate(&s.Table, n)
		s.cut(n)
	case 4:
		n := c.intN(s.length + 1)
		m.DropBefore(&s.Table, n)
		s.drop(n)
	case 5, 6:
		first := c.intN(3 * Tokens)
		m.replace(s, first, first+c.intN(4*Tokens), c.intN(3) > 0)
	case 7:
		m.compare(s, m.live[c.intN(len(m.live))])
	case 8:
		m.grow(s, c.intN(4*Tokens))
	default:
		m.grow(s, c.intN(5))
	}
}

// cut leaves the positions below n.
func (s *sequence) cut(n int) {
	s.length = n
	s.forget(func(j int) bool { return j >= n }, func(page int) bool { return page*Tokens >= n })
}

// drop leaves the positions from n on.
func (s *sequence) drop(n int) {
	s.first = max(s.first, n)
	s.forget(func(j int) bool {
		return j < n
	}, func(page int) bool { return (page+1)*Tokens <= s.first })
}

func (s *sequence) forget(token, page func(int) bool) {
	maps.DeleteFunc(s.tokens, func(j, _ int) bool { return token(j) })
	maps.DeleteFunc(s.pages, func(i, _ int) bool { return page(i) })
}

func (m *model) release(i int) {
	m.Release(&m.live[i].Table)
	m.live = slices.Delete(m.live, i, i+1)
}

// users is how many sequences have a page.
func (m *model) users(page int) int {
	n := 0
	for _, s := range m.live {
		for _, p := range s.pages {
			if p == page {
				n++
			}
		}
	}
	return n
}

// freePages is how many no sequence has.
func (m *model) freePages() int {
	n := 0
	for page := range m.size {
		if m.users(page) == 0 {
			n++
		}
	}
	return n
}

// need returns how many pages n more tokens need.
func (m *model) need(s *sequence, n int) int {
	need := 0
	for j := s.length; j < s.length+n; j++ {
		page, there := s.pages[j/Tokens]
		if !there && (j == s.length || j%Tokens == 0) || there && j == s.length && m.users(page) > 1 {
			need++
		}
	}
	return need
}

func (m *model) grow(s *sequence, n int) {
	wantNeed, wantFree, copies := m.need(s, n), m.freePages(), 0
	if got := m.Need(&s.Table, n); got != wantNeed {
		m.Fatalf("Need(%d) is %d, want %d", n, got, wantNeed)
	}
	last, had := s.pages[s.length/Tokens]
	shared := had && n > 0 && m.users(last) > 1
	need, free, ok := m.Grow(&s.Table, n, func(dst, src int32) {
		if copies++; int(src) != last || m.users(int(dst)) != 0 {
			m.Fatalf("page %d is copied to %d, want the shared page %d to a free one", src, dst, last)
		}
		if m.Pool.users[src] != int32(m.users(last)) {
			m.Fatalf("page %d has %d users while it is copied, want %d: nobody may take and write it",
				src, m.Pool.users[src], m.users(last))
		}
		m.wrote[int(dst)] = maps.Clone(m.wrote[int(src)])
	})
	if need != wantNeed || free != wantFree || ok != (need <= free) ||
		(copies == 1) != (shared && ok) {
		m.Fatalf("Grow by %d: need %d, free %d, ok %t, %d copies, want %d, %d", n, need, free, ok, copies,
			wantNeed, wantFree)
	}
	if ok {
		m.fill(s, s.length, s.length+n)
	}
}

// unshare gives a sequence pages of its own for positions lo to hi−1.
func (m *model) unshare(s *sequence, lo, hi int) {
	wantNeed, wantFree, copies := 0, m.freePages(), 0
	for i := lo / Tokens; i <= (hi-1)/Tokens; i++ {
		if m.users(s.pages[i]) > 1 {
			wantNeed++
		}
	}
	need, free, ok := m.Unshare(&s.Table, lo, hi, func(dst, src int32) {
		if copies++; m.Pool.users[src] != int32(m.users(int(src))) || m.users(int(dst)) > 0 {
			m.Fatalf("page %d is copied to page %d, which somebody has, or may write meanwhile", src, dst)
		}
		m.wrote[int(dst)] = maps.Clone(m.wrote[int(src)])
		s.pages[slices.Index(s.Table.pages, src)+s.base] = int(dst)
	})
	if need != wantNeed || free != wantFree || ok != (need <= free) || ok && copies != need {
		m.Fatalf("Unshare: need %d, free %d, ok %t, %d copies, want %d, %d", need, free, ok, copies,
			wantNeed, wantFree)
	}
	for i := lo / Tokens; ok && i <= (hi-1)/Tokens; i++ {
		if m.users(s.Page(i*Tokens)) != 1 {
			m.Fatalf("page %d of positions %d to %d is shared", i, lo, hi)
		}
	}
}

// fill writes new tokens to positions lo to hi−1 of a table that has pages for them.
func (m *model) fill(s *sequence, lo, hi int) {
	for j := lo; j < hi; j++ {
		page := s.Page(j)
		if s.pages[j/Tokens] = page; m.wrote[page] == nil {
			m.wrote[page] = map[int]int{}
		}
		m.wrote[page][j%Tokens], s.tokens[j] = m.next, m.next
		m.next++
	}
	s.length = hi
}

// replace puts new pages in the place of a sequence's, or gives them back unused.
func (m *model) replace(s *sequence, first, length int, use bool) {
	wantNeed, wantFree := (length+Tokens-1)/Tokens-first/Tokens, m.freePages()
	r, need, free, ok := m.Replacement(&s.Table, first, length)
	if need != wantNeed || free != wantFree || ok != (need <= free) {
		m.Fatalf("Replacement: need %d, free %d, ok %t, want %d, %d", need, free, ok, wantNeed, wantFree)
	}
	if !ok {
		return
	}
	m.spare = map[int]bool{}
	pages := map[int]int{}
	for i := range r.Count() {
		page, _, _ := r.At(i)
		if m.users(page) > 0 || m.spare[page] {
			m.Fatalf("page %d of a replacement has a user", page)
		}
		m.spare[page], pages[first/Tokens+i] = true, page
	}
	if m.check(); !use { // next to each other
		m.spare = nil
		m.Discard(&r)
		return
	}
	m.spare = nil
	m.Replace(&s.Table, &r)
	s.pages, s.tokens, s.first = pages, map[int]int{}, first
	m.fill(s, first, length)
}

// check compares tables and pool with the model.
func (m *model) check() {
	m.Helper()
	for _, s := range m.live {
		if s.First() != s.first || s.Len() != s.length || s.Count() != len(s.pages) {
			m.Fatalf("positions are %d to %d on %d pages, want %d to %d on %d",
				s.First(), s.Len(), s.Count(), s.first, s.length, len(s.pages))
		}
		for j, token := range s.tokens {
			if page := s.Page(j); page != s.pages[j/Tokens] || m.wrote[page][j%Tokens] != token {
				m.Fatalf("position %d is in page %d with token %d, want page %d with %d",
					j, page, m.wrote[page][j%Tokens], s.pages[j/Tokens], token)
			}
		}
		indexes := slices.Sorted(maps.Keys(s.pages))
		for i, index := range indexes { // from first/Tokens up to the index of length−1
			page, lo, hi := s.At(i)
			wantLo, wantHi := max(0, s.first-index*Tokens), min(Tokens, s.length-index*Tokens)
			if page != s.pages[index] || lo != wantLo || hi != wantHi {
				m.Fatalf("At(%d) is page %d with %d to %d, want page %d with %d to %d",
					i, page, lo, hi, s.pages[index], wantLo, wantHi)
			}
		}
	}
	m.checkUsers()
}

// checkUsers makes sure that the pool's counts are right, and that each page without a user is free
// once.
func (m *model) checkUsers() {
	m.Helper()
	free := map[int32]int{}
	for _, page := range m.free {
		free[page]++
	}
	for page := range m.size {
		users, times := m.users(page), 0
		if m.spare[page] {
			users++
		}
		if users == 0 {
			times = 1
		}
		if got := m.Pool.users[page]; int(got) != users || free[int32(page)] != times {
			m.Fatalf("page %d has %d users and is free %d times, want %d and %d",
				page, got, free[int32(page)], users, times)
		}
	}
	if m.Size() != m.size || m.Free() != len(m.free) {
		m.Fatalf("Size is %d and Free %d, want %d and %d", m.Size(), m.Free(), m.size, len(m.free))
	}
}

// compare checks Shared and Compare by their definitions.
func (m *model) compare(s, t *sequence) {
	want := 0
	if s.first/Tokens == t.first/Tokens {
		for i := s.first / Tokens; ; i++ {
			a, in := s.pages[i]
			if b, too := t.pages[i]; !in || !too || a != b {
				break
			}
			want = (i + 1) * Tokens
		}
	}
	if got := s.Shared(&t.Table); got != want || t.Shared(&s.Table) != want {
		m.Fatalf("%d positions are shared one way, %d the other, want %d", got, t.Shared(&s.Table), want)
	}
	wantOrder := cmp.Or(cmp.Compare(s.first/Tokens, t.first/Tokens),
		slices.Compare(s.list(), t.list()))
	if got := s.Compare(&t.Table); cmp.Compare(got, 0) != wantOrder ||
		cmp.Compare(t.Compare(&s.Table), 0) != -wantOrder {
		m.Fatalf("Compare is %d one way, %d the other, want the sign of %d", got, t.Compare(&s.Table),
			wantOrder)
	}
}

// list is the pages in the order of positions.
func (s *sequence) list() []int {
	var list []int
	for _, i := range slices.Sorted(maps.Keys(s.pages)) {
		list = append(list, s.pages[i])
	}
	return list
}

// Tables that share the most pages are next to each other when they are sorted.
func TestCompareSortsFamilies(t *testing.T) {
	p := NewPool(40)
	var tables []Table
	r := rand.New(rand.NewPCG(3, 4))
	grow := func(t *Table, n int) { p.Grow(t, n*Tokens, nil) }
	for range 3 {
		parent := p.NewTable()
		grow(&parent, 2)
		child := p.Fork(&parent)
		grow(&child, 2)
		for range 2 {
			tables = append(tables, p.Fork(&parent), p.Fork(&child))
			grow(&tables[len(tables)-1], 1)
			grow(&tables[len(tables)-2], 1)
		}
	}
	r.Shuffle(len(tables), func(i, j int) { tables[i], tables[j] = tables[j], tables[i] })
	slices.SortFunc(tables, func(a, b Table) int { return a.Compare(&b) })
	for i := range tables {
		nearest, farther := 0, 0
		for j := range tables {
			if shared := tables[i].Shared(&tables[j]); j == i-1 || j == i+1 {
				nearest = max(nearest, shared)
			} else if j != i {
				farther = max(farther, shared)
			}
		}
		if nearest < farther {
			t.Errorf("table %d shares %d positions with a neighbour, %d with another one", i, nearest,
				farther)
		}
	}
}

// A table's memory is used again, and nothing else is allocated once there are tables enough.
func TestPagesAllocateNothing(t *testing.T) {
	p := NewPool(20)
	parent := p.NewTable()
	p.Grow(&parent, 3*Tokens+1, nil)
	p.NewTable() // the most that are in use at once
	work := func() {
		f := p.Fork(&parent)
		p.Grow(&f, 2*Tokens, func(int32, int32) {})
		p.DropBefore(&f, Tokens+3)
		p.Unshare(&f, 2*Tokens, 2*Tokens+5, func(int32, int32) {})
		p.Truncate(&f, 2*Tokens)
		if r, _, _, ok := p.Replacement(&f, 5, 3*Tokens); ok {
			p.Replace(&f, &r)
		}
		p.Release(&f)
	}
	work()
	if n := testing.AllocsPerRun(100, work); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// Tables of one pool may be used at the same time, and forks of each other, too.
func TestPagesHaveManyCallers(t *testing.T) {
	const size = 60
	p := NewPool(size)
	parent := p.NewTable()
	p.Grow(&parent, 2*Tokens+5, nil)
	// written by whoever copies to a page, so that the race detector sees
	owners := make([][]int, size)
	var all sync.WaitGroup
	for i := range 4 {
		mine := []Table{p.Fork(&parent)}
		all.Go(func() {
			r := rand.New(rand.NewPCG(5, uint64(i)))
			for range 2000 {
				at := r.IntN(len(mine))
				switch s := &mine[at]; r.IntN(7) {
				case 5:
					if lo := s.First(); lo < s.Len() {
						p.Unshare(s, lo, lo+1+r.IntN(s.Len()-lo), func(dst, src int32) {
							owners[dst] = append(owners[dst][:0], owners[src]...)
						})
					}
				case 0:
					if len(mine) < 4 {
						mine = append(mine, p.Fork(s))
					}
				case 1:
					if len(mine) > 1 {
						p.Release(s)
						mine = slices.Delete(mine, at, at+1)
					}
				case 2:
					p.Truncate(s, s.First()+r.IntN(s.Len()-s.First()+1))
				case 3:
					p.DropBefore(s, r.IntN(s.Len()+1))
				case 4:
					if n, _, _, ok := p.Replacement(s, 0, r.IntN(3*Tokens)); ok && r.IntN(2) == 0 {
						p.Replace(s, &n)
					} else if ok {
						p.Discard(&n)
					}
				default:
					from := s.Len()
					_, _, ok := p.Grow(s, r.IntN(2*Tokens), func(dst, src int32) {
						owners[dst] = append(owners[dst][:0], owners[src]...)
					})
					if ok && s.Len() > from {
						page := s.Page(from)
						owners[page] = append(owners[page][:0], i)
					}
				}
			}
			for i := range mine {
				p.Release(&mine[i])
			}
		})
	}
	all.Wait()
	p.Release(&parent)
	free := slices.Sorted(slices.Values(p.free))
	for i, page := range free {
		if int(page) != i || p.users[i] != 0 {
			t.Fatalf("page %d is free, want %d, which has %d users", page, i, p.users[i])
		}
	}
	if len(free) != size {
		t.Fatalf("%d pages are free in the end, want %d", len(free), size)
	}
}
