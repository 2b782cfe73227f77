package attn

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-1415985d/attn/internal/ragged"
)

// storePlay does the same to the sequences of a store and to models of them, step by step. A model
// holds plain tensors, with all tokens that were ever appended.
type storePlay struct {
	*testing.T
	*trial
	config StoreConfig
	store  *Store
	live   []*modelSequence
	gone   []*Sequence // released
}

// modelSequence is what a sequence should hold.
type modelSequence struct {
	*Sequence
	cachePlay // its definition of attention over tokens of any type
}

// FuzzStore: after any operations, attending over any sequences of a store gives the bits of each
// one's definition over plain tensors; pages are where they should be, and operations that fail
// change nothing.
func FuzzStore(f *testing.F) {
	fuzzPlays(f, func(t *testing.T, c *trial) {
		c.Kind = randomKind(c.Rand)
		p := newStorePlay(t, c)
		if p.config.Pages > Segment/Block {
			p.append(p.live[0], Segment-Block+p.IntN(2*Block))
		}
		if c.IntN(5) == 0 {
			p.family()
		}
		for range 1 + c.IntN(7) {
			p.step()
			p.checkPages()
		}
		p.attend()
	})
}

func newStorePlay(t *testing.T, c *trial) *storePlay {
	p := &storePlay{T: t, trial: c}
	p.config = StoreConfig{KVHeads: 1 + c.IntN(2), HeadDim: 1 + c.IntN(9), ValueDim: 1 + c.IntN(18),
		Pages: 1 + c.IntN(16)}
	if c.IntN(64) == 0 {
		p.config.Pages = 2*Segment/Block + c.IntN(8) // more than a segment
	}
	p.config.Format = Format(c.IntN(int(I8) + 1))
	if p.config.ValuesInKeys = c.IntN(3) == 0; p.config.ValuesInKeys {
		p.config.HeadDim += p.config.ValueDim - 1
	}
	var err error
	if p.store, err = NewStore(p.config); err != nil {
		t.Fatal(err)
	}
	fillWith(elements[float32](p.store.packed.Data), nan32()) // as if it had been used
	p.join(p.store.NewSequence())
	return p
}

// join makes a model of an empty sequence.
func (p *storePlay) join(s *Sequence) *modelSequence {
	g := &p.config
	m := &modelSequence{Sequence: s}
	m.cachePlay = cachePlay{T: p.T, trial: p.trial,
		model: newTokens(CacheConfig{Batch: 1, KVHeads: g.KVHeads, HeadDim: g.HeadDim,
			ValueDim: g.ValueDim, Capacity: 1, Format: g.Format, ValuesInKeys: g.ValuesInKeys})}
	p.live = append(p.live, m)
	return m
}

// family makes sequences that share more or fewer pages.
func (p *storePlay) family() {
	p.append(p.live[0], Block*(2+p.IntN(3))+p.IntN(20))
	for range 2 + p.IntN(4) {
		s := p.live[p.any()]
		m := p.join(s.Fork())
		m.take(s)
		if p.IntN(2) == 0 {
			n := m.length() - p.IntN(m.length()/2+1)
			p.want(m.Sequence.Truncate(n), nil)
			m.cut(n)
		}
		p.append(m, p.IntN(2*Block))
	}
	p.attend()
}

// any is the number of some sequence.
func (p *storePlay) any() int { return p.IntN(len(p.live)) }

func (p *storePlay) step() {
	s := p.live[p.any()]
	switch p.IntN(19) {
	case 0:
		p.join(p.store.NewSequence())
	case 1, 2:
		p.join(s.Fork()).take(s)
	case 3:
		p.release(p.any())
	case 4:
		n := s.first + p.IntN(s.length()-s.first+1)
		p.want(s.Sequence.Truncate(n), nil)
		s.cut(n)
	case 5:
		n := p.IntN(s.length() + 1)
		p.want(s.DropBefore(n), nil)
		s.first = max(s.first, n)
	case 6:
		p.wrong(s)
	case 7:
		p.read(s)
	case 8, 9:
		p.attend()
	case 10:
		p.update(s)
	case 11:
		p.append(s, p.IntN(3*Block))
	case 12:
		p.file(s)
	case 13, 14:
		p.keep(s)
	default:
		p.append(s, p.IntN(20))
	}
	for i, s := range p.live {
		if s.Len() != s.length() || s.First() != s.first {
			p.Fatalf("sequence %d has positions %d to %d, want %d to %d", i, s.First(), s.Len(), s.first,
				s.length())
		}
	}
}

// length is the model's.
func (s *modelSequence) length() int { return s.model.k.L }

// take copies the tokens of another model.
func (s *modelSequence) take(t *modelSequence) {
	s.first = t.first
	s.model.k, s.model.v = contiguous(t.model.k), contiguous(t.model.v)
}

// cut leaves the first n tokens.
func (s *modelSequence) cut(n int) {
	s.model.truncate(n)
	s.model.k, s.model.v = contiguous(s.model.k), contiguous(s.model.v)
}

// add appends tokens to the model.
func (s *modelSequence) add(k, v Tensor) {
	s.model.k, s.model.v = afterEachOther(s.model.k, k), afterEachOther(s.model.v, v)
}

// afterEachOther returns the rows of one tensor, then the rows of another.
func afterEachOther(a, b Tensor) Tensor {
	x := zeros(a.B, a.H, a.L+b.L, a.D)
	for h := range x.H {
		for i := range a.L {
			copy(x.row(0, h, i), a.row(0, h, i))
		}
		for i := range b.L {
			copy(x.row(0, h, a.L+i), b.row(0, h, i))
		}
	}
	return x
}

func (p *storePlay) want(err, kind error) {
	p.Helper()
	if !errors.Is(err, kind) {
		p.Fatalf("error is %v, want %v", err, kind)
	}
}

// append adds tokens, or finds that there is no room.
func (p *storePlay) append(s *modelSequence, n int) {
	g := &p.config
	k, v := s.tokens(1, n)
	if g.Format == I8 && !(s.scales(k, s.rotation()) && s.scales(v, 1)) {
		p.want(s.Append(k, v), ErrOption)
		return
	}
	if need, free := p.pagesFor(s, n), p.store.FreePages(); need != s.PagesFor(n) {
		p.Fatalf("PagesFor(%d) is %d, want %d", n, s.PagesFor(n), need)
	} else if need > free {
		err := s.Append(k, v)
		p.want(err, ErrCapacity)
		mustFail(p.T, "capacity", err, ErrCapacity,
			fmt.Sprintf("k.L is %d, which takes %d pages: %d are missing, as %d of %d are free", n, need,
				need-free, free, g.Pages))
		return
	}
	p.want(s.Append(k, v), nil)
	s.addRounded(k, v, s.add)
}

// keep keeps some of the last tokens, or finds that there are too few pages for copies.
func (p *storePlay) keep(s *modelSequence) {
	kept, copied := someOf(p.Rand, s.first, s.length()), map[int]bool{}
	for i, j := range kept {
		if to := kept[0] + i; to != j && p.users(s.table.Page(to)) > 1 {
			copied[to/Block] = true
		}
	}
	err := s.Keep(kept)
	if need, free := len(copied), p.store.FreePages(); err != nil && need > free {
		mustFail(p.T, "capacity", err, ErrCapacity,
			fmt.Sprintf("len(indices) is %d, which takes %d pages: %d are missing, as %d of %d are free",
				len(kept), need, need-free, free, p.config.Pages))
		return
	}
	if p.want(err, nil); len(kept) > 0 {
		s.model.keep(kept)
		s.cut(s.length())
	}
}

// pagesFor counts pages one token at a time.
func (p *storePlay) pagesFor(s *modelSequence, n int) int {
	need := 0
	for j := s.length(); j < s.length()+n; j++ {
		exists := j < (s.first/Block+s.table.Count())*Block
		if j%Block == 0 && !exists || j == s.length() && exists && p.users(s.table.Page(j)) > 1 {
			need++
		}
	}
	return need
}

// pagesOf lists the pages of a sequence.
func pagesOf(s *Sequence) (list []int) {
	for i := range s.table.Count() {
		page, _, _ := s.table.At(i)
		list = append(list, page)
	}
	return list
}

// users counts the live sequences that have a page.
func (p *storePlay) users(page int) int {
	n := 0
	for _, s := range p.live {
		if slices.Contains(pagesOf(s.Sequence), page) {
			n++
		}
	}
	return n
}

func (p *storePlay) release(i int) {
	if len(p.live) == 1 {
		return
	}
	s := p.live[i].Sequence
	s.Release()
	p.gone = append(p.gone, s)
	p.live = slices.Delete(p.live, i, i+1)
}

// checkPages makes sure that no page is lost, and none is free twice.
func (p *storePlay) checkPages() {
	used := 0
	for page := range p.config.Pages {
		if p.users(page) > 0 {
			used++
		}
	}
	if free := p.store.FreePages(); free != p.config.Pages-used {
		p.Fatalf("%d pages are free, want %d", free, p.config.Pages-used)
	}
}

// read compares some tokens with the model's.
func (p *storePlay) read(s *modelSequence) {
	from := s.first + p.IntN(s.length()-s.first+1)
	n, g := p.IntN(s.length()-from+1), &p.config
	k, v := zeros(1, g.KVHeads, n, g.HeadDim), s.zeroValues(n)
	p.want(s.Read(k, v, s.length()-n+1), ErrLength)
	p.want(s.Read(k, v, s.first-1), ErrLength)
	p.want(s.Read(k, v, from), nil)
	wantK, wantV := contiguous(rowsOf(s.model.k, from, n)), contiguous(rowsOf(s.model.v, from, n))
	if g.Format == I8 {
		wantK, wantV = decoded(integersOfAll(wantK)), decoded(integersOfAll(wantV))
	}
	mustEqualBits(p.T, "keys", k.Data, s.rotated(wantK).Data)
	if !g.ValuesInKeys {
		mustEqualBits(p.T, "values", v.Data, wantV.Data)
	}
}

// file writes a sequence, and reads it into some sequence, itself perhaps.
func (p *storePlay) file(s *modelSequence) {
	var file, again bytes.Buffer
	_, err := s.Save(&file)
	p.want(err, nil)
	data, to := file.Bytes(), p.live[p.any()]
	if p.IntN(3) == 0 {
		cut, wanted := p.IntN(len(data)), ErrFormat
		if cut >= headerSize && s.table.Count() > p.store.FreePages() {
			wanted = ErrCapacity
		}
		_, err = to.Load(bytes.NewReader(data[:cut]))
		p.want(err, wanted)
		return
	}
	n, err := to.Load(&file)
	if need, free := s.table.Count(), p.store.FreePages(); err != nil && need > free {
		mustFail(p.T, "capacity", err, ErrCapacity,
			fmt.Sprintf("the file of %d tokens takes %d pages: %d are missing, as %d of %d are free",
				s.length()-s.first, need, need-free, free, p.config.Pages))
		return
	}
	p.want(err, nil)
	to.take(s)
	_, err = to.Save(&again)
	p.want(err, nil)
	if n != int64(len(data)) || !bytes.Equal(again.Bytes(), data) {
		p.Fatalf("%d of %d bytes were read, and came out as %d, which should be the same", n, len(data),
			again.Len())
	}
}

// wrong makes calls that must change nothing.
func (p *storePlay) wrong(s *modelSequence) {
	g := &p.config
	k, v := zeros(1, g.KVHeads, 1, g.HeadDim), s.zeroValues(1)
	switch p.IntN(7) {
	case 0:
		p.want(s.Sequence.Truncate(s.length()+1), ErrLength)
		p.want(s.Sequence.Truncate(s.first-1), ErrLength)
	case 1:
		p.want(s.DropBefore(s.length()+1), ErrLength)
		p.want(s.DropBefore(-1), ErrLength)
	case 2:
		k.D++
		p.want(s.Append(k, v), ErrLength)
		k.H--
		p.want(s.Append(k, v), ErrShape)
	case 3:
		wanted := ErrStride
		if v.B, v.SB = 2, -2; g.ValuesInKeys || v.empty() {
			wanted = ErrShape
		}
		p.want(s.Append(k, v), wanted)
	case 4:
		for _, s := range p.gone {
			p.want(s.Append(k, v), ErrClosed)
			s.Release()
			p.want(s.Fork().Truncate(0), ErrClosed)
		}
	case 5:
		p.attendWrong(s)
	case 6:
		big := BHLD(make([]float32, g.HeadDim+g.ValueDim), 1, 1, 1, g.HeadDim+g.ValueDim)
		big.H, big.L, big.SH, big.SL = g.KVHeads, g.Pages*Block+1, Broadcast,
			Broadcast
		k, v = big, big
		if k.D, v.D = g.HeadDim, g.ValueDim; g.ValuesInKeys {
			v = Tensor{}
		}
		p.want(s.Append(k, v), ErrCapacity)
	}
}

// attendWrong makes calls that must not write.
func (p *storePlay) attendWrong(s *modelSequence) {
	g := &p.config
	q, dst := zeros(1, g.KVHeads, 2, g.HeadDim), BHLD(nans(g.KVHeads*2*g.ValueDim), 1, g.KVHeads, 2,
		g.ValueDim)
	seqs, opt, wanted := []*Sequence{s.Sequence, s.Sequence}, &Options{}, ErrOption
	switch p.IntN(8) {
	case 0:
		seqs[1] = nil
	case 1:
		seqs[1], wanted = new(Sequence), ErrClosed
	case 2:
		other, err := NewStore(g.small())
		p.want(err, nil)
		seqs[1] = other.NewSequence()
	case 3:
		opt.KeyLens = []int{0, 0}
	case 4:
		opt.Offset = 1
	case 5:
		opt.QueryLens, wanted = []int{1, 2}, ErrLength
	case 6:
		opt.QueryLens, wanted = []int{1, 0}, ErrShape
	case 7:
		seqs, wanted = seqs[:1], ErrShape
	}
	p.want(AttendSequences(dst, q, seqs, opt), wanted)
	p.want(threeWorkers().AttendSequences(dst, q, seqs, opt), wanted)
	for i, e := range dst.Data {
		if e == e {
			p.Fatalf("dst[%d] was written by a call that failed", i)
		}
	}
}

// small is the configuration of a store with one page.
func (g StoreConfig) small() StoreConfig {
	g.Pages = 1
	return g
}

// storeCall is a call over some sequences.
type storeCall struct {
	of      []*modelSequence
	seqs    []*Sequence
	lens    []int
	q       Tensor
	opt     Options
	longest int
}

// call draws a call: some sequences in any order, also more than once, with some queries each.
func (p *storePlay) call() *storeCall {
	c := &storeCall{}
	queries := 0
	ones := p.IntN(2) == 0
	for range p.IntN(6) {
		s := p.live[p.any()]
		n := 1
		if !ones && p.IntN(3) == 0 {
			n = p.IntN(5)
		}
		c.of, c.seqs, c.lens = append(c.of, s), append(c.seqs, s.Sequence), append(c.lens, n)
		queries += n
		c.longest = max(c.longest, s.length())
	}
	heads := p.config.KVHeads * (1 + p.IntN(2))
	c.q = p.live[0].draw(1, heads, queries, p.config.HeadDim)
	c.opt = *randomOptions(p.Rand, 1, heads, queries, c.longest)
	c.opt.KeyLens, c.opt.Offset, c.opt.QueryLens = nil, 0, c.lens
	if ones && p.IntN(2) == 0 {
		c.opt.QueryLens = nil
	}
	// a window that begins with a page, for some
	if s := p.live[p.any()]; p.IntN(4) == 0 && s.length() > Block {
		page := Block * (1 + p.IntN(s.length()/Block))
		c.opt.Window, c.opt.Causal = Window{Left: s.length() - page}, BottomRight
	}
	if p.IntN(4) == 0 {
		c.opt.Scale = []float32{-1, 0.3}[p.IntN(2)]
	}
	if p.IntN(4) == 0 {
		c.growTrees(p.Rand)
	}
	c.opt.Integers = p.live[0].integers()
	return c
}

// growTrees makes the call one of a tree for each sequence, if all have as many tokens.
func (c *storeCall) growTrees(r *rand.Rand) {
	tree := []int{}
	for i, s := range c.of {
		if c.lens[i] > s.length() {
			return
		}
		tree = append(tree, randomTree(r, c.lens[i])...)
	}
	c.opt.growTree(r, 0, 0)
	c.opt.Tree, c.opt.Slopes, c.opt.QueryLens = tree, nil, c.lens // slopes are not what a mask says
}

// attend compares a call over sequences with what each should give alone.
func (p *storePlay) attend() {
	c, dv := p.call(), p.config.ValueDim
	want, wantLSE := zeros(1, c.q.H, c.q.L, dv), nans(c.q.H*c.q.L)
	at := 0
	for i, s := range c.of {
		n := c.lens[i]
		dst, lse := zeros(1, c.q.H, n, dv), nans(c.q.H*n)
		opt := c.alone(i, at)
		opt.LSE = lse
		s.define(dst, contiguous(rowsOf(c.q, at, n)), opt)
		for h := range c.q.H {
			copy(wantLSE[h*c.q.L+at:][:n], lse[h*n:])
			for j := range n {
				copy(want.row(0, h, at+j), dst.row(0, h, j))
			}
		}
		at += n
	}
	for name, attend := range map[string]func(dst Tensor, opt *Options) error{
		"AttendSequences": func(dst Tensor, opt *Options) error {
			return AttendSequences(dst, c.q, c.seqs, opt)
		},
		"Pool": func(dst Tensor, opt *Options) error {
			return pooled(dst, func(j *attention) error {
				j.plan = newPlan(dst, c.q, Tensor{}, Tensor{}, opt)
				return j.plan.initSequences(&j.call, c.seqs, opt)
			})
		},
	} {
		staleScratch(p.IntN(4) == 0)
		got, opt := BHLD(nans(len(want.Data)), 1, c.q.H, c.q.L, dv), c.opt
		opt.LSE = nans(len(wantLSE))
		p.want(attend(got, &opt), nil)
		mustEqualBits(p.T, name, got.Data, want.Data)
		mustEqualBits(p.T, name+", LSE", opt.LSE, wantLSE)
	}
}

// staleScratch leaves NaN where an earlier call may have.
func staleScratch(stale bool) {
	if !stale {
		return
	}
	w := scratches.Get().(*scratch)
	for _, x := range [][]float32{w.total.O, w.partial.O, w.alpha, w.beta, w.s} {
		fillWith(x, nan32())
	}
	scratches.Put(w)
}

// alone is the options of sequence i, whose queries begin at one, by itself.
func (c *storeCall) alone(i, at int) *Options {
	s, opt := c.of[i], c.opt
	n, keys := c.lens[i], s.length()
	opt.QueryLens = nil
	if !opt.Bias.none() {
		bias := rowsOf(opt.Bias, at, n)
		bias.D = keys
		opt.Bias = bias
	}
	mask := BHLD(make([]bool, n*keys), 1, 1, n, keys)
	for j := range n {
		row := mask.row(0, 0, j)
		for k := range row {
			row[k] = k >= s.first && (opt.Mask.none() || opt.Mask.row(0, 0, at+j)[k])
		}
	}
	if opt.Mask = mask; opt.Tree != nil {
		opt.Tree = opt.Tree[at:][:n]
		opt = opt.withoutTree(1, keys)
	}
	if keys == 0 {
		opt.Mask, opt.Bias = Mask{}, Tensor{}
	}
	return &opt
}

// update compares a State's sums over a sequence with a call over it.
func (p *storePlay) update(s *modelSequence) {
	g := &p.config
	q := s.draw(1, g.KVHeads, 1+p.IntN(3), g.HeadDim)
	want, wantLSE := zeros(1, q.H, q.L, g.ValueDim), nans(q.H*q.L)
	opt := Options{QueryLens: []int{q.L}, LSE: wantLSE, Integers: s.integers()}
	plain := Options{Integers: opt.Integers}
	p.want(AttendSequences(want, q, []*Sequence{s.Sequence}, &opt), nil)
	for _, pooled := range []bool{false, true} {
		state, err := NewState(StateConfig{1, q.H, q.L, g.ValueDim})
		p.want(err, nil)
		if pooled {
			p.want(threeWorkers().UpdateSequence(state, q, s.Sequence, &plain), nil)
		} else {
			p.want(state.UpdateSequence(q, s.Sequence, &plain), nil)
		}
		got, lse := BHLD(nans(len(want.Data)), 1, q.H, q.L, g.ValueDim), nans(len(wantLSE))
		p.want(state.Finish(got, lse), nil)
		if state.Keys() != s.length() {
			p.Fatalf("the state has %d keys, want %d", state.Keys(), s.length())
		}
		mustEqualBits(p.T, "state", got.Data, want.Data)
		mustEqualBits(p.T, "state, LSE", lse, wantLSE)
	}
}

func TestStoreErrors(t *testing.T) {
	good := StoreConfig{KVHeads: 1, HeadDim: 4, ValueDim: 3, Pages: 2}
	for name, f := range map[string]func(*StoreConfig) *int{
		"KVHeads":  func(c *StoreConfig) *int { return &c.KVHeads },
		"HeadDim":  func(c *StoreConfig) *int { return &c.HeadDim },
		"ValueDim": func(c *StoreConfig) *int { return &c.ValueDim },
		"Pages":    func(c *StoreConfig) *int { return &c.Pages },
	} {
		for _, n := range []int{0, -1, math.MinInt, maxLength + 1, math.MaxInt} {
			bad := good
			*f(&bad) = n
			_, err := NewStore(bad)
			mustFail(t, name, err, ErrShape, fmt.Sprintf("StoreConfig.%s is %d, want 1 to 268435456", name,
				n))
		}
	}
	_, err := NewStore(StoreConfig{KVHeads: maxLength, HeadDim: maxLength, ValueDim: maxLength,
		Pages: maxLength})
	mustFail(t, "overflow", err, ErrShape)
	bad := good
	bad.Format = 9
	_, err = NewStore(bad)
	mustFail(t, "type", err, ErrOption, "StoreConfig.Format is Format(9), want F32, F16, BF16, I8 "+
		"or I4")

	store, err := NewStore(good)
	must(t, err)
	s, other := store.NewSequence(), store.NewSequence()
	must(t, s.Append(zeros(1, 1, 70, 4), zeros(1, 1, 70, 3)))
	must(t, s.DropBefore(65))
	released := store.NewSequence()
	released.Release()
	q, dst := zeros(1, 1, 2, 4), zeros(1, 1, 2, 3)
	stranger := sequenceOf(t, good)
	state, err := NewState(StateConfig{1, 1, 2, 3})
	must(t, err)
	sameKeys := zeros(1, 1, 2, 4)
	sameKeys.SL = Broadcast
	infinite := zeros(1, 1, 1, 4)
	infinite.Data[3] = negInf
	scaled := sequenceOf(t, StoreConfig{KVHeads: 1, HeadDim: 4, ValueDim: 3, Pages: 2, Format: I8})
	for _, e := range []struct {
		name string
		err  error
		kind error
		text string
	}{
		{"capacity", other.Append(zeros(1, 1, 65, 4), zeros(1, 1, 65, 3)), ErrCapacity,
			"k.L is 65, which takes 2 pages: 1 are missing, as 1 of 2 are free"},
		{"k.B", s.Append(zeros(2, 1, 1, 4), zeros(1, 1, 1, 3)), ErrShape,
			"k is [2 1 … 4], want [1 1 … 4]"},
		{"v.D", s.Append(zeros(1, 1, 1, 4), zeros(1, 1, 1, 4)), ErrShape,
			"v is [1 1 1 4], want [1 1 1 3]"},
		{"truncate", s.Truncate(64), ErrLength, "n is 64, want 65 to 70, the positions of the tokens"},
		{"truncate", s.Truncate(71), ErrLength, "n is 71, want 65 to 70, the positions of the tokens"},
		{"drop", s.DropBefore(71), ErrLength,
			"position is 71, want 0 to 70, the positions of the sequence"},
		{"read", s.Read(zeros(1, 1, 1, 4), zeros(1, 1, 1, 3), 64), ErrLength,
			"from is 64 and k.L 1, want positions 65 to 70, those of the tokens"},
		{"nil", AttendSequences(dst, q, []*Sequence{s, nil}, nil), ErrOption,
			"seqs[1] is nil, want a sequence"},
		{"released", AttendSequences(dst, q, []*Sequence{s, released}, nil), ErrClosed, ""},
		{"queries", AttendSequences(dst, q, []*Sequence{s}, nil), ErrShape,
			"q.L is 2, want one query for each of 1 sequences, or QueryLens"},
		{"QueryLens", AttendSequences(dst, q, []*Sequence{s}, &Options{QueryLens: []int{3}}), ErrLength,
			"QueryLens[0] is 3, want 0 to 2: q.L is 2, and the lengths before add up to 0"},
		{"QueryLens", AttendSequences(dst, q, []*Sequence{s}, &Options{QueryLens: []int{1}}), ErrShape,
			"q.L is 2, want the sum of QueryLens, 1"},
		{"QueryLens", AttendSequences(dst, q, []*Sequence{s}, &Options{QueryLens: []int{1, 1}}),
			ErrLength, "len(QueryLens) is 2, want one for each of 1 sequences"},
		{"dst", AttendSequences(q, q, []*Sequence{s, s}, nil), ErrShape,
			"dst is [1 1 2 4], want [1 1 2 3]"},
		{"heads", AttendSequences(dst, zeros(1, 0, 2, 4), []*Sequence{s, s}, nil), ErrShape,
			"dst is [1 1 2 3], want [1 0 2 3]"},
		{"KeyLens", AttendSequences(dst, q, []*Sequence{s, s}, &Options{KeyLens: []int{1, 1}}), ErrOption,
			"KeyLens has 2 lengths, want nil: a sequence knows its length"},
		{"Offset", AttendSequences(dst, q, []*Sequence{s, s}, &Options{Offset: 1}), ErrOption,
			"Offset is 1, want 0: positions are those of each sequence"},
		{"store", AttendSequences(dst, q, []*Sequence{s, stranger}, nil), ErrOption,
			"seqs[1] is of another store than seqs[0], want sequences of one"},
		{"pooled", threeWorkers().AttendSequences(dst, q, []*Sequence{s, stranger}, nil), ErrOption,
			"seqs[1] is of another store than seqs[0], want sequences of one"},
		{"read k", s.Read(zeros(1, 1, 1, 3), zeros(1, 1, 1, 3), 65), ErrShape, ""},
		{"read one", s.Read(sameKeys, zeros(1, 1, 2, 3), 65), ErrStride, ""},
		{"drop", released.DropBefore(0), ErrClosed, ""},
		{"fork", released.Fork().Append(zeros(1, 1, 1, 4), zeros(1, 1, 1, 3)), ErrClosed, ""},
		{"scales", scaled.Append(infinite, zeros(1, 1, 1, 3)), ErrOption, ""},
		{"state", state.UpdateSequence(q, nil, nil), ErrOption, ""},
		{"state", state.UpdateSequence(q, released, nil), ErrClosed, ""},
		{"state", state.UpdateSequence(q, s, &Options{KeyLens: []int{1}}), ErrOption,
			"KeyLens has 1 lengths, want nil: a sequence knows its length"},
		{"state", threeWorkers().UpdateSequence(state, q, released, nil), ErrClosed, ""},
		{"states", state.UpdateSequences(q, nil, nil), ErrOption,
			"seqs is empty, want at least one sequence"},
		{"states", state.UpdateSequences(q, []*Sequence{s, nil}, nil), ErrOption,
			"seqs[1] is nil, want a sequence"},
		{"states", state.UpdateSequences(q, []*Sequence{s, released}, nil), ErrClosed, ""},
		{"states", state.UpdateSequences(q, []*Sequence{s, stranger, s.Fork(), scaled}, nil), ErrOption,
			"seqs[3] is of a store of 1 heads of 4 and 3 dimensions in I8, want 1 heads of 4 and 3 " +
				"dimensions in F32 as seqs[0]"},
		{"states", threeWorkers().UpdateSequences(state, q, []*Sequence{s, released}, nil), ErrClosed,
			""},
	} {
		mustFail(t, e.name, e.err, e.kind, e.text)
	}
	must(t, AttendSequences(zeros(1, 1, 0, 3), zeros(1, 1, 0, 4), nil, nil)) // of no sequences
	if s.Len() != 70 || s.First() != 65 || other.Len() != 0 || store.FreePages() != 1 {
		t.Errorf("positions are %d to %d and %d, %d pages free after failed calls, want 65 to 70, 0, 1",
			s.First(), s.Len(), other.Len(), store.FreePages())
	}
	must(t, store.Close())
	mustFail(t, "closed", store.Close(), ErrClosed)
	mustFail(t, "closed", s.Append(zeros(1, 1, 1, 4), zeros(1, 1, 1, 3)), ErrClosed,
		"the sequence is of a store that was closed")
	mustFail(t, "closed", store.NewSequence().Truncate(0), ErrClosed)
	mustFail(t, "closed", AttendSequences(dst, q, []*Sequence{s, s}, nil), ErrClosed)
}

// sequenceOf is the first sequence of a new store.
func sequenceOf(t testing.TB, g StoreConfig) *Sequence {
	t.Helper()
	store, err := NewStore(g)
	must(t, err)
	return store.NewSequence()
}

// An update over sequences of several stores is one over each after another, whatever the options.
func TestUpdateSequences(t *testing.T) {
	r := random("sequences of several stores")
	n := 400
	if few() {
		n = 75
	}
	for i := range n {
		f := formatPairs[i%len(formatPairs)]
		g := StoreConfig{KVHeads: 1 + r.IntN(2), HeadDim: 1 + r.IntN(40), ValueDim: 1 + r.IntN(40),
			Format: f.keys, ValueFormat: f.values}
		if g.ValuesInKeys = f.keys == f.values && r.IntN(3) == 0; g.ValuesInKeys {
			g.ValueDim = min(g.ValueDim, g.HeadDim)
		}
		p := &updatePlay{T: t, Rand: r, heads: g.KVHeads * (1 + r.IntN(3)), rows: 1 + r.IntN(70)}
		total := 0
		for n := 1 + r.IntN(4); len(p.seqs) < n; {
			g.Pages = 40 + r.IntN(40)
			s := sequenceOf(t, g)
			p.fill(s, len(p.seqs) == n-1)
			p.seqs, total = append(p.seqs, s), total+s.Len()
		}
		q := tensor(r, normal, 1, p.heads, p.rows, g.HeadDim)
		p.opt = *randomOptions(r, 1, p.heads, p.rows, total)
		p.opt.KeyLens, p.opt.LSE = nil, nil
		if p.opt.drawProductsOver(r, f); p.opt.Causal == BottomRight {
			p.opt.Causal, p.opt.Offset = TopLeft, total-p.rows
		}
		if r.IntN(3) == 0 {
			p.opt.Blocks = randomBlocks(r, 1, 1, p.rows, total)
		}
		p.compare(q, g.ValueDim)
		for _, s := range p.seqs {
			must(t, s.store.Close())
		}
	}
}

// updatePlay is sequences of several stores, and options for all of them.
type updatePlay struct {
	*testing.T
	*rand.Rand
	heads, rows int
	seqs        []*Sequence
	opt         Options
}

// fill gives a sequence tokens: whole blocks, unless it is the last one. Some are dropped.
func (p *updatePlay) fill(s *Sequence, last bool) {
	n := Block * p.IntN(1+p.IntN(36))
	if last {
		n += p.IntN(Block)
	}
	g := s.store.config
	k, v := tensor(p.Rand, normal, 1, g.KVHeads, n, g.HeadDim), Tensor{}
	if !g.ValuesInKeys {
		v = tensor(p.Rand, normal, 1, g.KVHeads, n, g.ValueDim)
	}
	must(p, s.Append(k, v))
	if p.IntN(4) == 0 {
		must(p, s.DropBefore(p.IntN(n+1)))
	}
}

// compare compares states by their binary form. They may have seen some sequences before.
func (p *updatePlay) compare(q Tensor, d int) {
	before := p.IntN(2) * p.IntN(len(p.seqs))
	var states [3]*State
	for i := range states {
		var err error
		states[i], err = NewState(StateConfig{1, p.heads, p.rows, d})
		must(p, err)
	}
	at := 0
	for i, s := range p.seqs {
		opt := p.of(at, s.Len())
		must(p, states[0].UpdateSequence(q, s, &opt))
		if i < before {
			must(p, states[1].UpdateSequence(q, s, &opt))
			must(p, states[2].UpdateSequence(q, s, &opt))
		}
		at += s.Len()
	}
	at = states[1].Keys()
	opt := p.of(at, states[0].Keys()-at)
	must(p, states[1].UpdateSequences(q, p.seqs[before:], &opt))
	must(p, threeWorkers().UpdateSequences(states[2], q, p.seqs[before:], &opt))
	want, err := states[0].MarshalBinary()
	must(p, err)
	for i, s := range states[1:] {
		got, err := s.MarshalBinary()
		must(p, err)
		if !bytes.Equal(got, want) {
			p.Errorf("%d of %d sequences, way %d: another state; %d keys, want %d; %+v, %+v", before,
				len(p.seqs), i, s.Keys(), states[0].Keys(), p.seqs[0].store.config, opt)
		}
	}
}

// of is the options for n keys from one on.
func (p *updatePlay) of(from, n int) Options {
	o := p.opt
	if n == 0 {
		o.Mask, o.Bias, o.Blocks = Mask{}, Tensor{}, Mask{}
		return o
	}
	if !o.Mask.none() {
		o.Mask.Data, o.Mask.D = o.Mask.Data[from:], n
	}
	if !o.Bias.none() {
		o.Bias.Data, o.Bias.D = o.Bias.Data[from:], n
	}
	if !o.Blocks.none() {
		o.Blocks.Data, o.Blocks.D = o.Blocks.Data[from/Block:], partsOf(n, Block)
	}
	return o
}

// Sequences that share pages are one work item, whatever the options; a call is divided by work,
// not by sequences.
func TestSequencesShareItems(t *testing.T) {
	store, err := NewStore(StoreConfig{KVHeads: 2, HeadDim: 64, ValueDim: 64, Pages: 100})
	must(t, err)
	prompt, alone := store.NewSequence(), store.NewSequence()
	must(t, prompt.Append(zeros(1, 2, 2*Segment, 64), zeros(1, 2, 2*Segment, 64)))
	must(t, alone.Append(zeros(1, 2, 3*Segment, 64), zeros(1, 2, 3*Segment, 64)))
	seqs := []*Sequence{alone}
	for range 8 {
		s := prompt.Fork()
		must(t, s.Append(zeros(1, 2, 1, 64), zeros(1, 2, 1, 64)))
		seqs = append(seqs, s)
	}
	slices.Reverse(seqs) // the one alone is the last
	cpu := tuned
	cpu.FlopsPerNs, cpu.BytesPerNs = 80, 40 // one that reads fast: what is shared is not less work
	for _, c := range []struct {
		workers, items, chunks int
		opt                    Options
	}{
		{1, 2, 4, Options{}}, {2, 2, 4, Options{}}, {1, 2, 4, Options{Slopes: make([]float32, 4)}},
		{1, 2, 4, Options{Mask: BHLD(make([]bool, 9*3*Segment), 1, 1, 9, 3*Segment)}},
		{1, 2, 4, Options{Bias: zeros(1, 1, 9, 3*Segment)}},
	} {
		var r ragged.Call
		opt := &c.opt
		opt.Causal = BottomRight
		p := newPlan(zeros(1, 4, 9, 64), zeros(1, 4, 9, 64), Tensor{}, Tensor{}, opt)
		must(t, p.initSequences(&r, seqs, opt))
		p.decideSequences(&cpu, c.workers)
		if len(r.Items) != c.items || p.chunks != c.chunks {
			t.Errorf("%d workers: %d items, %d chunks, want %d, %d",
				c.workers, len(r.Items), p.chunks, c.items, c.chunks)
		}
		units := 0
		for _, w := range r.Items {
			units += w.Segments * p.kvHeads
		}
		if c.workers > 1 && units <= p.chunks {
			t.Errorf("%d units of %d chunks, want keys divided", units, p.chunks)
		}
	}
}

// Any number of goroutines may use sequences of their own, forks of one prompt, at the same time.
func TestStoreHasManyCallers(t *testing.T) {
	soak(t, 4, 30, 0)
}

// TestStoreSoak joins, forks and releases sequences on two goroutines for as long as ATTN_TEST_SOAK
// says, a second without it.
func TestStoreSoak(t *testing.T) {
	duration := time.Second
	if text := os.Getenv("ATTN_TEST_SOAK"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	soak(t, 2, math.MaxInt, duration)
}

// soak lets some goroutines play with sequences of one store. In the end all pages are free.
func soak(t *testing.T, callers, most int, duration time.Duration) {
	config := StoreConfig{KVHeads: 2, HeadDim: 8, ValueDim: 8, Pages: 64}
	store, err := NewStore(config)
	must(t, err)
	prompt := store.NewSequence()
	must(t, prompt.Append(tensor(random("prompt"), normal, 1, 2, Block+30, 8),
		tensor(random("prompt"), normal, 1, 2, Block+30, 8)))
	end := time.Now().Add(duration)
	var all sync.WaitGroup
	steps := make([]int, callers)
	for i := range callers {
		first := prompt.Fork()
		all.Go(func() {
			r := random(fmt.Sprint(t.Name(), i))
			mine := []*Sequence{first}
			for steps[i] < most && (duration == 0 || time.Now().Before(end)) {
				steps[i]++
				next, err := soakStep(r, store, mine)
				if err != nil {
					t.Error(err)
					break
				}
				mine = next
			}
			for _, s := range mine {
				s.Release()
			}
		})
	}
	all.Wait()
	prompt.Release()
	if store.FreePages() != config.Pages {
		t.Errorf("%d pages are free in the end, want %d", store.FreePages(), config.Pages)
	}
	t.Logf("steps: %v", steps)
}

// soakStep does one thing with the sequences of one goroutine, of which there is at least one, and
// makes sure that tokens are still theirs.
func soakStep(r *rand.Rand, store *Store, mine []*Sequence) ([]*Sequence, error) {
	s := mine[r.IntN(len(mine))]
	switch r.IntN(8) {
	case 0:
		return append(mine, store.NewSequence()), nil
	case 1:
		return append(mine, s.Fork()), nil
	case 2, 3:
		if i := r.IntN(len(mine)); len(mine) > 1 {
			mine[i].Release()
			return slices.Delete(mine, i, i+1), nil
		}
	case 4:
		return mine, s.Truncate(s.First() + r.IntN(s.Len()-s.First()+1))
	case 5:
		return mine, s.DropBefore(r.IntN(s.Len() + 1))
	case 6:
		return mine, soakFile(s, mine[r.IntN(len(mine))])
	default:
		n := 1 + r.IntN(70)
		x := BHLD(make([]float32, 2*8*n), 1, 2, n, 8)
		for h := range 2 {
			for i := range n {
				fillWith(x.row(0, h, i), float32(s.Len()+i)) // what a token holds is its position
			}
		}
		if err := s.Append(x, x); errors.Is(err, ErrCapacity) {
			return mine, s.Truncate(s.First())
		} else if err != nil {
			return mine, err
		}
		return mine, soakCheck(s, r)
	}
	return mine, nil
}

// soakFile copies a sequence to another one through a file, if there are pages enough.
func soakFile(s, to *Sequence) error {
	var file bytes.Buffer
	if _, err := s.Save(&file); err != nil {
		return err
	}
	if _, err := to.Load(&file); err != nil && !errors.Is(err, ErrCapacity) {
		return err
	}
	return nil
}

// soakCheck attends over the last tokens of a sequence, which hold their positions, and reads them.
func soakCheck(s *Sequence, r *rand.Rand) error {
	n := min(1+r.IntN(5), s.Len()-s.First())
	k, v := zeros(1, 2, n, 8), zeros(1, 2, n, 8)
	if err := s.Read(k, v, s.Len()-n); err != nil {
		return err
	}
	if last := v.row(0, 1, n-1)[7]; last != float32(s.Len()-1) {
		return fmt.Errorf("the token at %d holds %v", s.Len()-1, last)
	}
	q, dst := zeros(1, 2, 1, 8), zeros(1, 2, 1, 8)
	if err := AttendSequences(dst, q, []*Sequence{s},
		&Options{Causal: BottomRight, Window: Window{1, 1}}); err != nil {
		return err
	}
	if dst.Data[0] != float32(s.Len()-1) {
		return fmt.Errorf("attention over the token at %d is %v", s.Len()-1, dst.Data[0])
	}
	return nil
}

// A store uses as much memory as a cache of as many tokens.
func TestStoreMemoryUse(t *testing.T) {
	for _, kind := range allFormats {
		store, err := NewStore(StoreConfig{KVHeads: 3, HeadDim: 24, ValueDim: 40, Pages: 5, Format: kind})
		must(t, err)
		cache, err := NewCache(CacheConfig{Batch: 1, KVHeads: 3, HeadDim: 24, ValueDim: 40,
			Capacity: 5 * Block, Format: kind})
		must(t, err)
		if store.MemoryUse() != cache.MemoryUse() {
			t.Errorf("%v: a store takes %d bytes, a cache of as many tokens %d", kind, store.MemoryUse(),
				cache.MemoryUse())
		}
	}
}

// A store is as large as the bytes that it keeps, on systems of 32 bits, too: there values that are
// parts of keys, or elements counted as if they had 32 bits, would make it too large.
func TestStoreIsAsLargeAsWhatItKeeps(t *testing.T) {
	const pages, bytes = 5000, Block * (576 + 4) // a token has a scale
	s, err := NewStore(StoreConfig{KVHeads: 1, HeadDim: 576, ValueDim: 512, Pages: pages, Format: I8,
		ValuesInKeys: true})
	must(t, err)
	if got := s.MemoryUse(); got != pages*bytes {
		t.Errorf("MemoryUse is %d, want %d", got, pages*bytes)
	}
	must(t, s.Close())
	large := StoreConfig{KVHeads: maxLength, HeadDim: 576, ValueDim: 512, Pages: maxLength,
		ValuesInKeys: true}
	_, err = NewStore(large)
	mustFail(t, "too large", err, ErrShape)
	if text := "×64×(576+0) elements of F32"; !strings.Contains(err.Error(), text) {
		t.Errorf("the error is %v, want one that says %s", err, text)
	}
}

// However many tokens are asked for, PagesFor counts their pages, so that a number that is larger
// than the store's is not taken for one that fits.
func TestPagesForAnyNumberOfTokens(t *testing.T) {
	s, err := NewStore(StoreConfig{KVHeads: 1, HeadDim: 1, ValueDim: 1, Pages: 16})
	must(t, err)
	for _, tokens := range []int{0, 1, Block - 1, Block, Block + 1} {
		seq := s.NewSequence()
		must(t, seq.Append(zeros(1, 1, tokens, 1), zeros(1, 1, tokens, 1)))
		for _, shared := range []int{0, 1} {
			if tokens%Block == 0 {
				shared = 0 // no page to copy
			}
			for _, n := range []int{math.MinInt, -1, 0, 1, Block, maxLength, math.MaxInt - Block,
				math.MaxInt - 1, math.MaxInt} {
				want := new(big.Int).Add(big.NewInt(int64(tokens)), big.NewInt(int64(max(0, n))))
				want.Add(want, big.NewInt(Block-1)).Div(want, big.NewInt(Block))
				want.Sub(want, big.NewInt(int64(blocksOf(tokens))))
				if n > 0 {
					want.Add(want, big.NewInt(int64(shared)))
				}
				if got := seq.PagesFor(n); int64(got) != want.Int64() {
					t.Errorf("PagesFor(%d) after %d tokens, %d pages shared, is %d, want %d", n, tokens, shared,
						got, want)
				}
			}
			defer seq.Fork().Release()
		}
		seq.Release()
	}
}
