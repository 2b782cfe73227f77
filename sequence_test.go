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
)

// sequenceUser is what one goroutine brings to calls over sequences of a store.
type sequenceUser struct {
	k, v  Tensor // what Append takes, and Read writes
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

// Tokens are those of the sequence until a call over it has ended, though it was released: here
// while Save waits for its writer and Load for its reader.
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

// passTime takes some time.
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
