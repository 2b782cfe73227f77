package attn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/dev/guard"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// sequenceUser is what one goroutine brings to calls over sequences of a store.
type sequenceUser struct {
	k, v  Tensor // arguments of Append, and results of Read
	q     Tensor
	dst   Tensor
	lse   []float32
	state *State
	file  bytes.Buffer
}

// newSequenceUser reads and appends n tokens, and has two queries.
func newSequenceUser(t testing.TB, g StoreConfig, n int) *sequenceUser {
	r := random("user of sequences")
	u := &sequenceUser{
		k:   tensor(r, normal, 1, g.KVHeads, n, g.HeadDim),
		v:   tensor(r, normal, 1, g.KVHeads, n, g.ValueDim),
		q:   tensor(r, normal, 1, g.KVHeads, 2, g.HeadDim),
		dst: BHLD(nans(g.KVHeads*2*g.ValueDim), 1, g.KVHeads, 2, g.ValueDim),
		lse: nans(g.KVHeads * 2),
	}
	var err error
	u.state, err = NewState(StateConfig{1, g.KVHeads, 2, g.ValueDim})
	must(t, err)
	return u
}

// sequenceMethod is one way to use a sequence.
type sequenceMethod struct {
	name    string
	call    func(u *sequenceUser, s *Sequence) error
	changes bool // the sequence, not dst, lse, k, v or file
}

// sequenceMethods are all calls that can fail.
var sequenceMethods = []sequenceMethod{
	{"AttendSequences", func(u *sequenceUser, s *Sequence) error {
		return AttendSequences(u.dst, u.q, []*Sequence{s}, u.options())
	}, false},
	{"Pool.AttendSequences", func(u *sequenceUser, s *Sequence) error {
		return threeWorkers().AttendSequences(u.dst, u.q, []*Sequence{s}, u.options())
	}, false},
	{"nil Pool.AttendSequences", func(u *sequenceUser, s *Sequence) error {
		return (*Pool)(nil).AttendSequences(u.dst, u.q, []*Sequence{s}, u.options())
	}, false},
	{"State.UpdateSequence", func(u *sequenceUser, s *Sequence) error {
		u.state.Reset()
		return u.finish(u.state.UpdateSequence(u.q, s, nil))
	}, false},
	{"Pool.UpdateSequence", func(u *sequenceUser, s *Sequence) error {
		u.state.Reset()
		return u.finish(threeWorkers().UpdateSequence(u.state, u.q, s, nil))
	}, false},
	{"nil Pool.UpdateSequence", func(u *sequenceUser, s *Sequence) error {
		u.state.Reset()
		return u.finish((*Pool)(nil).UpdateSequence(u.state, u.q, s, nil))
	}, false},
	{"State.UpdateSequences", func(u *sequenceUser, s *Sequence) error {
		u.state.Reset()
		return u.finish(u.state.UpdateSequences(u.q, []*Sequence{s}, nil))
	}, false},
	{"Pool.UpdateSequences", func(u *sequenceUser, s *Sequence) error {
		u.state.Reset()
		return u.finish(threeWorkers().UpdateSequences(u.state, u.q, []*Sequence{s}, nil))
	}, false},
	{"Read", func(u *sequenceUser, s *Sequence) error { return s.Read(u.k, u.v, 0) }, false},
	{"Save", func(u *sequenceUser, s *Sequence) error {
		u.file.Reset()
		_, err := s.Save(&u.file)
		return err
	}, false},
	{"Append", func(u *sequenceUser, s *Sequence) error {
		if err := s.Append(u.k, u.v); !errors.Is(err, ErrCapacity) {
			return err
		}
		return s.Truncate(0)
	}, true},
	{"Pool.AppendSequence", func(u *sequenceUser, s *Sequence) error {
		if err := threeWorkers().AppendSequence(s, u.k, u.v); !errors.Is(err, ErrCapacity) {
			return err
		}
		return s.Truncate(0)
	}, true},
	{"Truncate", func(u *sequenceUser, s *Sequence) error { return s.Truncate(0) }, true},
	{"DropBefore", func(u *sequenceUser, s *Sequence) error { return s.DropBefore(0) }, true},
	{"Keep", func(u *sequenceUser, s *Sequence) error { return s.Keep(nil) }, true},
	{"Load", func(u *sequenceUser, s *Sequence) error {
		if _, err := s.Load(iotest.ErrReader(errBroken)); !errors.Is(err, errBroken) {
			return err
		}
		return nil
	}, true},
	{"Fork", func(u *sequenceUser, s *Sequence) error {
		f := s.Fork()
		defer f.Release()
		return f.Truncate(0)
	}, true},
}

func (u *sequenceUser) options() *Options {
	return &Options{QueryLens: []int{u.q.L}, LSE: u.lse}
}

// finish writes what a state has.
func (u *sequenceUser) finish(err error) error {
	if err != nil {
		return err
	}
	return u.state.Finish(u.dst, u.lse)
}

// written is a copy of all that calls write.
func (u *sequenceUser) written() []float32 {
	file := make([]float32, u.file.Len())
	for i, e := range u.file.Bytes() {
		file[i] = float32(e)
	}
	return slices.Concat(u.dst.Data, u.lse, u.k.Data, u.v.Data, file)
}

// closed reports what is wrong if a released sequence can be used in any way.
func (u *sequenceUser) closed(s *Sequence) error {
	before := u.written()
	for _, c := range sequenceMethods {
		if err := c.call(u, s); !errors.Is(err, ErrClosed) {
			return fmt.Errorf("%s over a released sequence returns error %v, want %v", c.name, err,
				ErrClosed)
		}
	}
	if u.file.Len() > 0 || firstDifference(u.written(), before) >= 0 {
		return errors.New("calls over a released sequence have written something")
	}
	if s.Len() != 0 || s.First() != 0 || s.PagesFor(100) != 0 {
		return fmt.Errorf("a released sequence has Len %d, First %d, PagesFor(100) %d, want 0",
			s.Len(), s.First(), s.PagesFor(100))
	}
	s.Release() // does nothing
	return nil
}

// Every method of a Sequence is in the tests of released ones.
func TestSequenceCallsAreComplete(t *testing.T) {
	known := []string{"Len", "First", "PagesFor", "Release"} // see closed
	for _, c := range sequenceMethods {
		known = append(known, c.name)
	}
	methods := reflect.TypeFor[*Sequence]()
	for i := range methods.NumMethod() {
		if name := methods.Method(i).Name; !slices.Contains(known, name) {
			t.Errorf("sequenceMethods has no %s", name)
		}
	}
}

// A released handle is closed for ever, also when new sequences have its pages and its memory, and
// using it changes nothing of theirs.
func TestReleasedSequence(t *testing.T) {
	for _, f := range allFormats {
		g := StoreConfig{KVHeads: 2, HeadDim: 4, ValueDim: 5, Pages: 8, Format: f}
		store, err := NewStore(g)
		must(t, err)
		u := newSequenceUser(t, g, Block+3)
		appended := func(s *Sequence) *Sequence { must(t, s.Append(u.k, u.v)); return s }
		saved := fileOf(t, appended(sequenceOf(t, g)))

		released := map[string]*Sequence{"zero": {}, "empty": store.NewSequence()}
		released["with tokens"] = appended(store.NewSequence())
		released["fork"] = released["with tokens"].Fork()
		released["fork that has written"] = appended(released["with tokens"].Fork())
		released["without its first tokens"] = appended(store.NewSequence())
		must(t, released["without its first tokens"].DropBefore(Block))
		must(t, released["with tokens"].Truncate(3))
		released["loaded"] = store.NewSequence()
		_, err = released["loaded"].Load(bytes.NewReader(saved))
		must(t, err)
		for _, s := range released {
			s.Release()
		}
		released["fork of a released one"] = released["fork"].Fork()
		mustHaveFreed(t, store)

		check := func(when string) {
			t.Helper()
			for name, s := range released {
				if err := u.closed(s); err != nil {
					t.Errorf("%v, %s, %s: %v", f, name, when, err)
				}
			}
		}
		check("when all pages are free")
		var others []*Sequence
		var files [][]byte
		for range g.Pages / 2 {
			s := appended(store.NewSequence())
			others, files = append(others, s), append(files, fileOf(t, s))
		}
		check("when others have the pages")
		if store.FreePages() != 0 {
			t.Errorf("%v: %d pages are free, want those of the sequences to stay theirs", f,
				store.FreePages())
		}
		for i, s := range others {
			mustEqualFiles(t, "of a new sequence", fileOf(t, s), files[i])
			s.Release()
			released[fmt.Sprint("other ", i)] = s
		}
		check("when the others have left")
		mustHaveFreed(t, store)
		must(t, store.Close())
		check("when the store is closed")
	}
}

// Released handles are closed also while other goroutines create, append to, fork, read, write and
// release sequences of the same store.
func TestReleasedSequenceBesideOthers(t *testing.T) {
	g := StoreConfig{KVHeads: 2, HeadDim: 8, ValueDim: 8, Pages: 40}
	store, err := NewStore(g)
	must(t, err)
	done := make(chan struct{})
	var others, all sync.WaitGroup
	for i := range 2 {
		others.Go(func() { playBeside(t, store, i, done) })
	}
	for i := range 2 {
		u, steps := newSequenceUser(t, g, 70), budget(3000)
		all.Go(func() {
			r := random(fmt.Sprint(t.Name(), i))
			var released []*Sequence
			for range steps {
				s := store.NewSequence()
				if r.IntN(2) == 0 && s.Append(u.k, u.v) == nil && r.IntN(2) == 0 {
					released = append(released, s)
					s = s.Fork()
				}
				released = append(released, s)
				for _, s := range released[max(0, len(released)-2):] {
					s.Release()
				}
				if err := u.closed(released[r.IntN(len(released))]); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	close(done)
	others.Wait()
	mustHaveFreed(t, store)
}

// playBeside plays with sequences of a store until it is told to stop.
func playBeside(t *testing.T, store *Store, i int, done <-chan struct{}) {
	r := random(fmt.Sprint(t.Name(), " beside ", i))
	mine := []*Sequence{store.NewSequence()}
	defer func() {
		for _, s := range mine {
			s.Release()
		}
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		next, err := soakStep(r, store, mine)
		if err != nil {
			t.Error(err)
			return
		}
		mine = next
	}
}

// Whoever releases a sequence first gives its pages back, once.
func TestSequenceIsReleasedOnce(t *testing.T) {
	g := StoreConfig{KVHeads: 1, HeadDim: 2, ValueDim: 2, Pages: 5}
	store, err := NewStore(g)
	must(t, err)
	k, v := zeros(1, 1, Block+1, 2), zeros(1, 1, Block+1, 2)
	for range budget(50000) {
		s := store.NewSequence()
		must(t, s.Append(k, v))
		fork := s.Fork()
		var all sync.WaitGroup
		var there atomic.Int32
		for range 2 {
			all.Go(func() {
				for there.Add(1); there.Load() < 2; { // both at once
					runtime.Gosched()
				}
				s.Release()
			})
		}
		all.Wait()
		next := store.NewSequence() // in the memory of s
		must(t, next.Append(k, v))
		if free := store.FreePages(); free != 1 {
			t.Fatalf("%d pages are free, want 1: two sequences have two each", free)
		}
		fork.Release()
		next.Release()
	}
	mustHaveFreed(t, store)
}

// releaseAfter is a writer that releases a sequence after the first byte, and gives its pages to
// whoever finds them free.
type releaseAfter struct {
	*bytes.Buffer
	release func()
}

func (w *releaseAfter) Write(x []byte) (int, error) {
	if w.release != nil {
		w.release()
		w.release = nil
	}
	return w.Buffer.Write(x)
}

// Tokens stay until a call over their sequence has ended, even if that was released: here while
// Save waits for its writer and Load for its reader.
func TestReleaseDuringFiles(t *testing.T) {
	g := StoreConfig{KVHeads: 1, HeadDim: 4, ValueDim: 4, Pages: 6}
	u := newSequenceUser(t, g, Block+3)
	for _, load := range []bool{false, true} {
		s := sequenceOf(t, g)
		must(t, s.Append(u.k, u.v))
		want := fileOf(t, s)
		running := 2 // pages of s
		if load {
			running = 4
		}
		release := func() {
			s.Release()
			free, other := s.store.FreePages(), s.store.NewSequence()
			for other.Append(zeros(1, 1, 1, 4), zeros(1, 1, 1, 4)) == nil {
			}
			if err := u.closed(s); err != nil || free != g.Pages-running {
				t.Errorf("%d pages are free during the call, want %d; error is %v", free, g.Pages-running, err)
			}
			other.Release()
		}
		if load {
			first, rest := bytes.NewReader(want[:headerSize+50]),
				bytes.NewReader(want[headerSize+50:])
			between := readerFunc(func([]byte) (int, error) { release(); return 0, io.EOF })
			n, err := s.Load(io.MultiReader(first, between, rest))
			must(t, err)
			if n != int64(len(want)) {
				t.Errorf("%d bytes were read, want %d", n, len(want))
			}
		} else {
			w := releaseAfter{new(bytes.Buffer), release}
			_, err := s.Save(&w)
			must(t, err)
			mustEqualFiles(t, "that was written meanwhile", w.Bytes(), want)
		}
		mustHaveFreed(t, s.store)
		if err := u.closed(s); err != nil {
			t.Error(err)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(x []byte) (int, error) { return f(x) }

// Release may come at any time, from any goroutine. A call that runs then ends as if it had not
// come, and never sees what others write to the pages; the next one is refused.
func TestReleaseDuringCalls(t *testing.T) {
	for _, f := range []Format{F32, I8} {
		g := StoreConfig{KVHeads: 1, HeadDim: 16, ValueDim: 16, Pages: 12, Format: f}
		store, err := NewStore(g)
		must(t, err)
		for _, c := range sequenceMethods {
			t.Run(fmt.Sprint(f, " ", c.name), func(t *testing.T) { testReleaseDuring(t, store, c) })
		}
	}
}

func testReleaseDuring(t *testing.T, store *Store, c sequenceMethod) {
	g, r := store.config, random(t.Name())
	n := (g.Pages-1)*Block + 5 // all pages: who comes next gets them after the last call
	u := newSequenceUser(t, g, n)
	if c.changes {
		u.k.L, u.v.L = 3*Block/2, 3*Block/2
	}
	tokens := newSequenceUser(t, g, n)
	other := tensor(r, normal, 1, g.KVHeads, n, g.HeadDim)
	var want []float32
	rounds := budget(100)
	for round := range rounds {
		s := store.NewSequence()
		must(t, s.Append(tokens.k, tokens.v))
		if round == 0 && !c.changes {
			must(t, c.call(u, s))
			want = u.written()
		}
		var released atomic.Bool
		started, wait := make(chan struct{}), r.IntN(300)
		var all sync.WaitGroup
		all.Go(func() {
			close(started)
			for {
				late := released.Load()
				if err := c.call(u, s); errors.Is(err, ErrClosed) {
					return
				} else if err != nil || late {
					t.Errorf("error is %v, want %v if %t", err, ErrClosed, late)
					return
				}
				if want != nil && firstDifference(u.written(), want) >= 0 {
					t.Errorf("round %d: a call during Release has other results", round)
				}
			}
		})
		<-started
		passTime(r, wait)
		s.Release()
		released.Store(true)
		next := store.NewSequence()
		err := next.Append(other, other)
		for end := time.Now().Add(10 * time.Second); errors.Is(err, ErrCapacity) &&
			time.Now().Before(end); {
			err = next.Append(other, other) // as soon as the pages are free
		}
		must(t, err)
		all.Wait()
		next.Release()
		if free := store.FreePages(); free != g.Pages {
			t.Fatalf("%d pages are free after round %d, want %d", free, round, g.Pages)
		}
	}
	mustHaveFreed(t, store)
}

// passTime computes for some time.
func passTime(r *rand.Rand, n int) {
	for range n {
		r.Uint64()
		r.NormFloat64()
	}
}

// mustHaveFreed makes sure that every page of a store is free, and none twice.
func mustHaveFreed(t *testing.T, store *Store) {
	t.Helper()
	if free, all := store.FreePages(), store.config.Pages; free != all {
		t.Errorf("%d pages are free in the end, want %d", free, all)
	}
	s, g := store.NewSequence(), &store.config
	k := BHLD(make([]float32, g.HeadDim), 1, 1, 1, g.HeadDim) // all tokens are the same
	v := BHLD(make([]float32, g.ValueDim), 1, 1, 1, g.ValueDim)
	for _, x := range []*Tensor{&k, &v} {
		x.H, x.L, x.SH, x.SL = g.KVHeads, g.Pages*Block, Broadcast, Broadcast
	}
	must(t, s.Append(k, v))
	defer s.Release()
	pages := slices.Sorted(slices.Values(s.pages()))
	for i, page := range pages {
		if page != i {
			t.Fatalf("free pages are %v, want each once", pages)
		}
	}
}

// pages are the numbers of the pages that a sequence has.
func (s *Sequence) pages() []int {
	pages := make([]int, s.table.Count())
	for i := range pages {
		pages[i], _, _ = s.table.At(i)
	}
	return pages
}

// attendEach is the definition of Documents: a call for each document, with its results in their
// place in the whole call's.
func attendEach(dst, q, k, v Tensor, opt *Options) error {
	o, keys := *opt, opt.KeyDocuments
	if o.Documents, o.KeyDocuments = nil, nil; keys == nil {
		keys = opt.Documents
	}
	if !o.Blocks.none() {
		o.Mask, o.Blocks = expanded(o.Blocks, o.Mask, 1, q.H, q.L, k.L), Mask{}
	}
	clear(o.Weights.Data)
	query, key := 0, 0
	for i, n := range opt.Documents {
		queries := func(x Tensor) Tensor { return x.Slice(query, query+n) }
		tokens := func(x Tensor) Tensor { return x.Slice(key, key+keys[i]) }
		one, m := o, keys[i]
		one.Mask = pairsOf(o.Mask, query, n, key, m)
		one.Bias = pairsOf(o.Bias, query, n, key, m)
		one.Weights = pairsOf(o.Weights, query, n, key, m)
		one.LSE = nans(q.H * n)
		if err := Attend(queries(dst), queries(q), tokens(k), tokens(v), &one); err != nil {
			return err
		}
		for h := range q.H {
			copy(opt.LSE[h*q.L+query:], one.LSE[h*n:][:n])
		}
		query, key = query+n, key+m
	}
	return nil
}

// pairsOf is the pairs of n queries and m keys.
func pairsOf[T any](x View[T], query, n, key, m int) View[T] {
	if x.none() {
		return x
	}
	if x = x.Slice(query, query+n); n > 0 {
		x.Data = x.Data[key:]
	}
	x.D = m
	return x
}

// randomLengths draws lengths that add up to n: at times 0, or all of them.
func randomLengths(r *rand.Rand, n, count int) []int {
	lens := make([]int, count)
	for left, i := n, 0; i < count; i++ {
		if lens[i] = r.IntN(left + 1); i == count-1 {
			lens[i] = left
		} else if r.IntN(2) == 0 {
			lens[i] = min(lens[i], r.IntN(2*Block))
		}
		left -= lens[i]
	}
	r.Shuffle(count, func(i, j int) { lens[i], lens[j] = lens[j], lens[i] })
	return lens
}

// documentsProblem draws documents with a random composition of all options.
func documentsProblem(r *rand.Rand, kind distribution, s shape) *problem {
	s.b = 1
	own := r.IntN(2) == 0
	if own {
		s.lq = min(s.lq, s.lk)
		s.lk = s.lq
	}
	p := problemOf(r, kind, s)
	o := &p.opt
	o.Offset, o.QueryLens, o.KeyLens = 0, nil, nil
	o.drawProducts(r)
	count := 1 + r.IntN(1+r.IntN(12))
	if o.Documents = randomLengths(r, s.lq, count); !own {
		o.KeyDocuments = randomLengths(r, s.lk, count)
	}
	if r.IntN(4) == 0 {
		o.Blocks = randomBlocks(r, 1, oneOr(r, p.q.H), s.lq, s.lk)
	}
	return p
}

// Each document has the bits of a call of its own, with every other option, strides, workers and
// implementation.
func TestDocumentsAreCallsOfTheirOwn(t *testing.T) {
	hosts := random("hosts of documents")
	forEach(t, func(t *testing.T) {
		r, a := random(t.Name()), new(kerneltest.Arena)
		t.Cleanup(a.Free)
		for range budget(600) {
			s := shape{1, 1 + r.IntN(3), 1 + r.IntN(3), 1 + r.IntN(4*Block), 1 + r.IntN(6*Block),
				1 + r.IntN(20), 1 + r.IntN(20)}
			if r.IntN(8) == 0 {
				s.lk, s.kvh, s.group = Segment-70+r.IntN(2*Segment), 1, 1
				s.lq = min(s.lq, 40)
			}
			if r.IntN(3) == 0 {
				s.d, s.dv = 8, 8
			}
			testDocuments(t, r, a, documentsProblem(r, randomKind(r), s), hosts)
		}
	})
}

func testDocuments(t *testing.T, r *rand.Rand, a *kerneltest.Arena, p *problem, hosts *rand.Rand) {
	want := p.solve(t, attendEach)
	anyTuning(t, hosts)
	p.same(t, "documents", p.solve(t, Attend), want)
	p.same(t, "strides", p.solveStrided(t, r, a, Attend), want)
	p.same(t, "Pool", p.solveStrided(t, r, a, attendPooled), want)
}

// FuzzDocuments: any documents with any options have the bits of calls of their own, on every
// implementation.
func FuzzDocuments(f *testing.F) {
	seedInputs(f)
	a := new(kerneltest.Arena)
	f.Cleanup(a.Free)
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Cleanup(func() { tuned = chosen })
		r := randomFrom(data)
		s := fewRowsAndKeys(r)
		s.lq = max(s.lq, r.IntN(12))
		if r.IntN(32) == 0 {
			s.lq, s.lk = length(r, 200), length(r, 200)
		}
		all := implementations()
		switchTo(all[r.IntN(len(all))])
		testDocuments(t, r, a, documentsProblem(r, distribution(r.IntN(int(distributions))), s), r)
	})
}

// Long documents are divided into chunks of rows, and among workers into segments.
func TestLongDocuments(t *testing.T) {
	shareSmallCalls(t)
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		pool := NewPool(3)
		defer pool.Close()
		for _, lens := range [][2][]int{{{1, 200, 3}, {20, 700, 2}}, {{2, 1}, {3 * Segment, 70}},
			{{3, 0, 300}, {0, 3, 300}}} {
			lq, lk := sum(lens[0]), sum(lens[1])
			for _, integers := range []bool{false, true} {
				p := newProblem(r, normal, shape{1, 1, 2, lq, lk, 8, 12})
				p.opt = Options{Documents: lens[0], KeyDocuments: lens[1], Causal: BottomRight,
					Integers: integers}
				want := p.solve(t, attendEach)
				p.same(t, "documents", p.solve(t, Attend), want)
				p.same(t, "Pool", p.solve(t, pool.Attend), want)
				p.same(t, "divided", p.solve(t, attendPooled), want)
			}
		}
	})
}

func sum(x []int) (n int) {
	for _, e := range x {
		n += e
	}
	return n
}

// Scratch memory that was used for documents far from the first key is used for other calls then.
func TestCallsAfterDocuments(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		p := newProblem(r, normal, shape{1, 2, 1, 240, 240, 8, 8})
		p.opt.Documents = []int{80, 80, 80}
		small := newProblem(r, normal, shape{2, 2, 1, 80, 5, 8, 8})
		want := small.solve(t, Attend)
		for range 10 { // now and then the runtime returns other scratch memory
			p.solve(t, Attend)
			small.same(t, "a call after documents", small.solve(t, Attend), want)
		}
	})
}

// Nothing of another document is read into a result: its keys and values, and what mask and bias
// say of its pairs.
func TestOtherDocumentsDoNotMatter(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		for range budget(60) {
			s := shape{1, 1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(2*Block), 1 + r.IntN(4*Block), 8, 8}
			p := documentsProblem(r, normal, s)
			want := p.solve(t, Attend)
			lens, keys := p.opt.Documents, p.opt.KeyDocuments
			if keys == nil {
				keys = lens
			}
			spared := r.IntN(len(lens))
			query, key := sum(lens[:spared]), sum(keys[:spared])
			for j := range p.k.L {
				if j >= key && j < key+keys[spared] {
					continue
				}
				for h := range p.k.H {
					fillWith(p.k.row(0, h, j), nan32())
					fillWith(p.v.row(0, h, j), nan32())
				}
			}
			if bias := &p.opt.Bias; !bias.none() {
				for at := range bias.H * bias.L {
					row := bias.row(0, at/bias.L, at%bias.L)
					fillWith(row[:key], nan32())
					fillWith(row[key+keys[spared]:], nan32())
				}
			}
			got := p.solve(t, Attend)
			rows := selection{[]int{0}, upTo(p.q.H), query, lens[spared]}
			p.same(t, fmt.Sprintf("document %d", spared), rows.of(p, got), rows.of(p, want))
		}
	})
}

// Keys and values of documents that no query is of may lie in memory that cannot be read.
func TestOtherDocumentsAreNotRead(t *testing.T) {
	if !guard.Protects() {
		t.Skip("no memory can be protected here")
	}
	const d, hidden = 8, 4096 / 4 / 8 // a page of tokens
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		for range budget(200) {
			lq, lk := 1+r.IntN(70), 1+r.IntN(200)
			p := newProblem(r, normal, shape{1, 1, 1 + r.IntN(2), lq, lk, d, d})
			p.opt = Options{Causal: Causal(r.IntN(3))}
			if p.opt.drawProducts(r); r.IntN(2) == 0 {
				p.opt.Window = Window{1 + r.IntN(99), 1 + r.IntN(99)}
			}
			want := p.solve(t, Attend)
			before := r.IntN(2) == 0
			p.opt.Documents, p.opt.KeyDocuments = []int{lq, 0}, []int{lk, hidden}
			if before {
				slices.Reverse(p.opt.Documents)
				slices.Reverse(p.opt.KeyDocuments)
			}
			beside := func(x Tensor) Tensor { // x with a page that cannot be read
				b, err := guard.New[float32](lk * d)
				must(t, err)
				t.Cleanup(b.Free)
				write, read := b.Back(lk * d)
				if before {
					write, read = b.Front(lk * d)
				}
				copy(write, x.Data)
				first := unsafe.Pointer(unsafe.SliceData(read))
				if before {
					first = unsafe.Add(first, -4*hidden*d)
				}
				return BHLD(unsafe.Slice((*float32)(first), (lk+hidden)*d), 1, 1, lk+hidden, d)
			}
			p.k, p.v = beside(p.k), beside(p.v)
			dst := BHLD(nans(p.q.H*lq*d), 1, p.q.H, lq, d)
			anyTuning(t, r)
			must(t, Attend(dst, p.q, p.k, p.v, &p.opt))
			mustEqualBits(t, "output", dst.Data, want.o)
		}
	})
}

// Documents without keys have rows of zeros.
func TestEmptyDocuments(t *testing.T) {
	p := newProblem(random(t.Name()), normal, shape{1, 1, 2, 5, 3, 8, 8})
	p.opt = Options{Documents: []int{2, 0, 3, 0}, KeyDocuments: []int{0, 1, 2, 0}}
	got := p.solve(t, Attend)
	for h := range 2 {
		for i := range 2 {
			mustEqualBits(t, "output", got.o[(h*5+i)*8:][:8], make([]float32, 8))
			mustEqualBits(t, "LSE", got.lse[h*5+i:][:1], []float32{negInf})
			mustEqualBits(t, "weights", got.weights[(h*5+i)*3:][:3], make([]float32, 3))
		}
	}
	p.same(t, "all", got, p.solve(t, attendEach))
	none := zeros(1, 2, 0, 8)
	must(t, Attend(none, none, none, none, &Options{Documents: []int{}}))
	must(t, threeWorkers().Attend(none, none, none, none, &Options{Documents: []int{0, 0}}))
	dst := BHLD(nans(2*2*8), 1, 2, 2, 8)
	must(t, Attend(dst, zeros(1, 2, 2, 8), none, none, &Options{Documents: []int{1, 1},
		KeyDocuments: []int{0, 0}}))
	mustEqualBits(t, "no keys", dst.Data, make([]float32, len(dst.Data)))
}

func TestDocumentsErrors(t *testing.T) {
	dst := BHLD(nans(2*10*8), 1, 2, 10, 8)
	x := func(l int) Tensor { return zeros(1, 2, l, 8) }
	two := zeros(2, 2, 10, 8)
	lse := nans(20)
	for _, c := range []struct {
		what string
		k    Tensor
		opt  Options
		kind error
		text string
	}{
		{"sum", x(10), Options{Documents: []int{4, 5}}, ErrShape,
			"q.L is 10, want the sum of Documents, 9"},
		{"negative", x(10), Options{Documents: []int{11, -1}}, ErrLength,
			"Documents[0] is 11, want 0 to 10: q.L is 10, and the lengths before add up to 0"},
		{"too many", x(10), Options{Documents: []int{4, -1, 7}}, ErrLength,
			"Documents[1] is -1, want 0 to 6: q.L is 10, and the lengths before add up to 4"},
		{"keys", x(12), Options{Documents: []int{4, 6}}, ErrShape,
			"k.L is 12, want the sum of Documents, 10, or KeyDocuments"},
		{"sum of keys", x(12), Options{Documents: []int{4, 6}, KeyDocuments: []int{5, 5}}, ErrShape,
			"k.L is 12, want the sum of KeyDocuments, 10"},
		{"too many keys", x(12), Options{Documents: []int{4, 6}, KeyDocuments: []int{5, 8}}, ErrLength,
			"KeyDocuments[1] is 8, want 0 to 7: k.L is 12, and the lengths before add up to 5"},
		{"number", x(12), Options{Documents: []int{10}, KeyDocuments: []int{5, 7}}, ErrLength,
			"len(KeyDocuments) is 2, want one for each of 1 Documents"},
		{"keys alone", x(10), Options{KeyDocuments: []int{5, 5}}, ErrOption,
			"KeyDocuments has 2 lengths, want nil without Documents"},
		{"Offset", x(10), Options{Documents: []int{10}, Offset: 3, Causal: TopLeft}, ErrOption,
			"Offset is 3, want 0 with Documents: positions are those of each"},
		{"QueryLens", x(10), Options{Documents: []int{10}, QueryLens: []int{10}}, ErrOption,
			"QueryLens has 1 lengths, want nil with Documents"},
		{"Tree", x(10), Options{Documents: []int{10}, Tree: make([]int, 10)}, ErrOption,
			"Tree has 10 parents, want nil with Documents"},
		{"Keys", x(10), Options{Documents: []int{10}, Keys: View[int32]{B: 1}}, ErrOption,
			"Keys are set with Documents, want one of them"},
		{"KeyLens", x(10), Options{Documents: []int{10}, KeyLens: []int{10}}, ErrOption,
			"KeyLens has 1 lengths, want nil with Documents"},
		{"batch", two, Options{Documents: []int{10}}, ErrShape, "k.B is 2, want 1 with Documents"},
		{"LSE", x(10), Options{Documents: []int{10}, LSE: lse[:9]}, ErrLength,
			"len(LSE) is 9, want B×H×Lq = 1×2×10"},
		{"Blocks", x(10), Options{Documents: []int{5, 5}, Blocks: BHLD(make([]bool, 2), 1, 1, 2, 1)},
			ErrShape, "Blocks is [1 1 2 1], want [1, 2 or 1, 1, 1]"},
	} {
		mustFail(t, c.what, Attend(dst, x(10), c.k, c.k, &c.opt), c.kind, c.text)
		mustFail(t, c.what, threeWorkers().Attend(dst, x(10), c.k, c.k, &c.opt), c.kind, c.text)
	}
	mustFail(t, "queries", Attend(dst, two, x(10), x(10), &Options{Documents: []int{10}}), ErrShape,
		"q.B is 2, want 1 as in the keys")
	mustFail(t, "dst", Attend(two, x(10), x(10), x(10), &Options{Documents: []int{10}}), ErrShape,
		"dst is [2 2 10 8], want [1 2 10 8]")
	mustFail(t, "v", Attend(dst, x(10), x(10), x(9), &Options{Documents: []int{10}}), ErrShape,
		"v is [1 2 9 …], want k's [1 2 10 …]")
	mustBeUntouched(t, dst)
	mustEqualBits(t, "LSE", lse, nans(20))
}

// Caches, states and sequences have documents of their own.
func TestDocumentsAreForViews(t *testing.T) {
	x := zeros(1, 2, 3, 8)
	dst := BHLD(nans(2*3*8), 1, 2, 3, 8)
	c, err := filled(x, x)
	must(t, err)
	state, err := NewState(StateConfig{1, 2, 3, 8})
	must(t, err)
	s := sequenceOf(t, StoreConfig{KVHeads: 2, HeadDim: 8, ValueDim: 8, Pages: 1})
	must(t, s.Append(x, x))
	none := zeros(1, 2, 0, 8)
	for text, opt := range map[string]*Options{
		"Documents has 1 lengths, want nil: it is for Attend and Pool.Attend over views": {
			Documents: []int{3}},
		"KeyDocuments has 1 lengths, want nil without Documents": {KeyDocuments: []int{3}},
	} {
		packed := *opt
		packed.QueryLens = []int{3}
		nobody := *opt
		nobody.QueryLens = []int{}
		for i, err := range []error{
			c.Attend(dst, x, opt),
			threeWorkers().AttendCache(dst, x, c, opt),
			state.Update(x, x, x, opt),
			threeWorkers().Update(state, x, x, x, opt),
			state.UpdateSequence(x, s, opt),
			AttendSequences(dst, x, []*Sequence{s}, &packed),
			threeWorkers().AttendSequences(dst, x, []*Sequence{s}, &packed),
			AttendSequences(none, none, nil, &nobody),
		} {
			mustFail(t, fmt.Sprint("call ", i), err, ErrOption, text)
		}
	}
	mustBeUntouched(t, dst)
	if state.Keys() != 0 {
		t.Errorf("the state has %d keys", state.Keys())
	}
}

// Many short documents are many units for a pool.
func TestDocumentsAreDivided(t *testing.T) {
	documents := slices.Repeat([]int{8}, 500)
	p := newProblem(random(t.Name()), normal, shape{1, 2, 1, 4000, 4000, 8, 8})
	p.opt.Documents = documents
	dst := zeros(1, 2, 4000, 8)
	var j, long attention
	j.plan = newPlan(dst, p.q, p.k, p.v, &p.opt)
	must(t, j.plan.initDocuments(&j.call, &p.opt))
	if j.schedule(4); j.tasks != len(documents) {
		t.Errorf("%d tasks, want one for each of %d short documents", j.tasks, len(documents))
	}
	p.opt.Documents = []int{1000, 3000}
	long.plan = newPlan(dst, p.q, p.k, p.v, &p.opt)
	must(t, long.plan.initDocuments(&long.call, &p.opt))
	if long.schedule(4); long.tasks < 4*tuning.TasksPerWorker {
		t.Errorf("%d units of 2 long documents, want at least %d", long.tasks, 4*tuning.TasksPerWorker)
	}
}
