package attn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// rollCache drops all but some tokens and appends as many as there is room for, again and again.
func rollCache(t testing.TB, c *Cache, times int) {
	g := c.Config()
	r := goldenRandom("rolling")
	for range times {
		must(t, c.DropBefore(max(c.First(), c.Len()-20)))
		n := min(c.config.Capacity-(c.length-c.first), (c.first/Block+c.packed.Count)*Block-c.length)
		k := goldenTensor(r, 4, g.Batch, g.KVHeads, n, g.HeadDim)
		v := goldenTensor(r, 2, g.Batch, g.KVHeads, n, g.ValueDim)
		must(t, c.Append(k, g.kept(v)))
		must(t, c.DropBefore(max(c.First(), c.Len()-100)))
	}
}

// The file of a cache that has rolled is the same wherever it is read, and so is what follows.
func TestCacheFileOfRing(t *testing.T) {
	everyCache(t, func(t *testing.T, g CacheConfig, n int) {
		c := newCacheOf(t, g, n)
		rollCache(t, c, 3)
		file := cacheFileOf(t, c)
		for _, before := range []int{0, 3, 170} {
			g.Capacity = 170
			to := newCacheOf(t, g, before)
			must(t, to.DropBefore(before/2))
			_, err := to.Load(bytes.NewReader(file))
			must(t, err)
			mustEqualCaches(t, to, c)
			mustEqualFiles(t, "that was read", cacheFileOf(t, to), file)
			must(t, to.Grow(400))
			mustEqualCaches(t, to, c)
			rollCache(t, to, 1)
			must(t, to.Close())
		}
		for capacity, blocks := range map[int]bool{c.Len() - c.First() - 1: false, 65: true} {
			if capacity < 1 || capacity < c.Len()-c.First() == blocks {
				continue
			}
			g.Capacity = capacity
			small := newCacheOf(t, g, 1)
			before := cacheFileOf(t, small)
			_, err := small.Load(bytes.NewReader(file))
			mustFail(t, "no room", err, ErrCapacity)
			mustEqualFiles(t, "after an error", cacheFileOf(t, small), before)
			must(t, small.Close())
		}
		must(t, c.Close())
	})
}

// Few tokens may need more blocks than there are.
func TestCacheFileNeedsBlocks(t *testing.T) {
	g := smallestCache(F32)
	from := newCacheOf(t, g, Block+1)
	must(t, from.DropBefore(Block-1))
	g.Capacity = Block
	to := newCacheOf(t, g, 2)
	_, err := to.Load(bytes.NewReader(cacheFileOf(t, from)))
	mustFail(t, "blocks", err, ErrCapacity,
		"the file's positions 63 to 65 take 2 blocks of 64, want at most 1, the cache's")
	if to.Len() != 2 {
		t.Errorf("Len is %d, want 2", to.Len())
	}
}

// A window of w and appends of n need a Capacity of w + n + 62: less is too little for some
// position, and more is never needed.
func TestCacheWindowCapacity(t *testing.T) {
	r := random(t.Name())
	for _, e := range [][2]int{{1, 1}, {1, 2}, {1, 66}, {5, 61}, {60, 7}, {64, 2}, {64, 64}, {64, 65},
		{100, 30}, {128, 1}} {
		w, most := e[0], e[1]
		for _, missing := range []int{0, (w+most+61)%Block + 1} { // one block less
			g := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 1, ValueDim: 1,
				Capacity: w + most + 62 - missing}
			if g.Capacity == 0 {
				continue
			}
			c, err := NewCache(g)
			must(t, err)
			failed := g.Capacity < w+most-1
			for i := 0; i < 300 && !failed; i++ {
				n := most
				if i%7 == 0 {
					n = 1 + r.IntN(most)
				}
				must(t, c.DropBefore(max(0, c.Len()-w+1)))
				if err = c.Append(zeros(1, 1, n, 1), zeros(1, 1, n, 1)); err != nil {
					mustFail(t, "append", err, ErrCapacity)
					failed = true
				}
			}
			if failed != (missing > 0) {
				t.Errorf("a window of %d with appends of %d fails: %t in a Capacity of %d", w, most, failed,
					g.Capacity)
			}
		}
	}
}

// Tokens that were dropped have weights of 0; positions go on counting.
func TestCacheRingWeights(t *testing.T) {
	g := CacheConfig{Batch: 2, KVHeads: 1, HeadDim: 8, ValueDim: 8, Capacity: 130}
	r := random(t.Name())
	c, err := NewCache(g)
	must(t, err)
	m := newTokens(g)
	for _, n := range []int{100, 60, 70} {
		m.append(t, r, c, n)
		must(t, c.DropBefore(c.Len()-20))
	}
	first, n := c.First(), c.Len()
	mask := BHLD(make([]bool, n), 1, 1, 1, n)
	for j := first; j < n; j++ {
		mask.Data[j] = true
	}
	mask.L, mask.SL = 3, Broadcast
	mask.SB, mask.SH, mask.B, mask.H = Broadcast, Broadcast, 2, 2
	q := tensor(r, normal, 2, 2, 3, 8)
	dst := BHLD(nans(2*2*3*8), 2, 2, 3, 8)
	weights := [2]Tensor{BHLD(nans(2*2*3*n), 2, 2, 3, n), BHLD(nans(2*2*3*n), 2, 2, 3, n)}
	poisonUnused(c)
	must(t, c.Attend(dst, q, &Options{Causal: BottomRight, Weights: weights[0]}))
	must(t, Attend(dst, q, m.k, m.v, &Options{Causal: BottomRight, Weights: weights[1], Mask: mask}))
	mustEqualBits(t, "weights", weights[0].Data, weights[1].Data)
}

// A cache and a sequence of the same tokens and drops are the same, whatever is done to them.
func TestCacheRingIsASequences(t *testing.T) {
	r := random(t.Name())
	for _, format := range allFormats {
		for i := range budget(12) {
			g := CacheConfig{Batch: 1, KVHeads: 2, HeadDim: 20, ValueDim: 18, Capacity: 64 * (1 + r.IntN(4)),
				Format: format, ValuesInKeys: i%3 == 0}
			playRing(t, r, g)
		}
	}
}

func playRing(t *testing.T, r *rand.Rand, g CacheConfig) {
	c, err := NewCache(g)
	must(t, err)
	s := sequenceOf(t, StoreConfig{KVHeads: 2, HeadDim: 20, ValueDim: 18, Pages: 9, Format: g.Format,
		ValuesInKeys: g.ValuesInKeys})
	both := func(name string, a, b error) {
		if must(t, b); a != nil {
			t.Fatalf("%s: %v", name, a)
		}
	}
	for range 20 {
		switch n := c.Len(); r.IntN(4) {
		case 0:
			to := c.First() + r.IntN(n-c.First()+1)
			both("Truncate", c.Truncate(to), s.Truncate(to))
		case 1:
			if kept := someOf(r, c.First(), n); len(kept) > 0 {
				both("Keep", c.Keep(kept), s.Keep(kept))
			}
		case 2:
			to := max(0, n-r.IntN(70))
			both("DropBefore", c.DropBefore(to), s.DropBefore(to))
		default:
			k, v := tensor(r, normal, 1, 2, 1+r.IntN(60), 20), Tensor{}
			if !g.ValuesInKeys {
				v = tensor(r, normal, 1, 2, k.L, 18)
			}
			if err := c.Append(k, v); err != nil {
				mustFail(t, "append", err, ErrCapacity)
				continue
			}
			must(t, s.Append(k, v))
		}
		poisonUnused(c)
		mustEqualFiles(t, "of the cache", cacheFileOf(t, c), fileOf(t, s))
		q, opt := tensor(r, normal, 1, 4, 3, 20), &Options{Causal: BottomRight, QueryLens: []int{3}}
		got, want := BHLD(nans(4*3*18), 1, 4, 3, 18), BHLD(nans(4*3*18), 1, 4, 3, 18)
		must(t, c.Attend(got, q, opt))
		must(t, AttendSequences(want, q, []*Sequence{s}, opt))
		mustEqualBits(t, "attention", got.Data, want.Data)
	}
	must(t, c.Close())
	must(t, s.store.Close())
}

// someOf is some ascending positions from first to length−1, often in runs.
func someOf(r *rand.Rand, first, length int) (list []int) {
	skip := 1 + r.IntN(20)
	for j := length - r.IntN(length-first+1); j < length; j++ {
		if list = append(list, j); r.IntN(3) == 0 {
			j += r.IntN(skip)
		}
	}
	return list
}

func TestCacheRingErrors(t *testing.T) {
	g := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 1, ValueDim: 1, Capacity: 2 * Block}
	c := newCacheOf(t, g, 2*Block)
	x := func(n int) Tensor { return zeros(1, 1, n, 1) }
	must(t, c.DropBefore(Block+6))
	must(t, c.Append(x(60), x(60)))
	must(t, c.DropBefore(Block+6)) // again, or earlier
	must(t, c.DropBefore(5))
	for _, e := range []struct {
		name string
		err  error
		kind error
		text string
	}{
		{"drop", c.DropBefore(-1), ErrLength,
			"position is -1, want 0 to 188, the positions of the cache"},
		{"drop", c.DropBefore(189), ErrLength,
			"position is 189, want 0 to 188, the positions of the cache"},
		{"truncate", c.Truncate(69), ErrLength, "n is 69, want 70 to 188, the positions of the tokens"},
		{"read", c.Read(x(1), x(1), 69), ErrLength,
			"from is 69 and k.L 1, want positions 70 to 188, those of the tokens"},
		{"ring", c.Append(x(5), x(5)), ErrCapacity,
			"k.L is 5, want at most 4: tokens from position 70 on are in the cache's ring of 2 " +
				"blocks of 64"},
		{"capacity", c.Append(x(11), x(11)), ErrCapacity,
			"k.L is 11, want at most 10: 118 of 128 tokens are in the cache"},
		{"keep", c.Keep([]int{69}), ErrLength,
			"indices[0] is 69, want 70 to 187, the positions of the tokens"},
		{"keep", c.Keep([]int{70, 188}), ErrLength,
			"indices[1] is 188, want 70 to 187, the positions of the tokens"},
		{"keep", c.Keep([]int{80, 90, 90}), ErrLength,
			"indices[2] is 90 after 90, want ascending positions"},
		{"closed", new(Cache).DropBefore(0), ErrClosed, ""},
		{"closed", new(Cache).Keep(nil), ErrClosed, ""},
		{"closed", new(Sequence).Keep(nil), ErrClosed, ""},
		{"nothing", errors.Join(c.Keep(nil), c.Keep([]int{})), nil, ""},
	} {
		if e.kind == nil {
			must(t, e.err)
			continue
		}
		mustFail(t, e.name, e.err, e.kind, e.text)
	}
	if c.First() != Block+6 || c.Len() != 188 {
		t.Errorf("positions are %d to %d after failed calls, want 70 to 188", c.First(), c.Len())
	}
	c.Reset()
	if must(t, c.Append(x(2*Block), x(2*Block))); c.First() != 0 || c.Len() != 2*Block {
		t.Errorf("positions are %d to %d after Reset, want 0 to 128", c.First(), c.Len())
	}
}

// Positions end at 2²⁸, and before that a window costs what it costs at the beginning.
func TestCacheRingEnds(t *testing.T) {
	g := CacheConfig{Batch: 1, KVHeads: 2, HeadDim: 8, ValueDim: 8, Capacity: 2 * Block}
	const from = maxLength - Block
	c := newCacheOf(t, g, 10)
	file := cacheFileOf(t, c)
	binary.LittleEndian.PutUint32(file[36:], from)
	binary.LittleEndian.PutUint32(file[40:], from+10)
	repair(file, 2*c.packed.Size)
	far := newCacheOf(t, g, 0)
	_, err := far.Load(bytes.NewReader(file))
	must(t, err)
	if far.First() != from || far.Len() != from+10 {
		t.Fatalf("positions are %d to %d, want %d to %d", far.First(), far.Len(), from, from+10)
	}
	q := tensor(random("queries"), normal, 1, 4, 3, 8)
	want, got := BHLD(nans(4*3*8), 1, 4, 3, 8), BHLD(nans(4*3*8), 1, 4, 3, 8)
	opt := &Options{Causal: BottomRight, Window: Window{Left: 5}}
	must(t, c.Attend(want, q, opt))
	must(t, far.Attend(got, q, opt))
	mustEqualBits(t, "far attention", got.Data, want.Data)
	fillWith(got.Data, nan32())
	must(t, pooled(got, func(j *job) error {
		j.plan = newPlan(got, q, Tensor{}, Tensor{}, opt)
		err := far.plan(&j.plan, opt)
		j.plan.decide(&tuned, 3)
		if j.plan.segments != 1 {
			t.Errorf("a call over one segment is divided into %d", j.plan.segments)
		}
		return err
	}))
	mustEqualBits(t, "far attention of a pool", got.Data, want.Data)
	x := func(n int) Tensor { return zeros(1, 2, n, 8) }
	mustFail(t, "the end", far.Append(x(55), x(55)), ErrLength,
		fmt.Sprintf("k.L is 55 after %d tokens, want at most %d in all", from+10, maxLength))
	must(t, far.Append(x(54), x(54)))
	must(t, far.Attend(got, q, opt))
}

// Keep is what truncating and appending again gives, in every format and all sequences of a batch.
func TestCacheKeep(t *testing.T) {
	r := random(t.Name())
	everyCache(t, func(t *testing.T, g CacheConfig, n int) {
		c := newCacheOf(t, g, n)
		k := zeros(g.Batch, g.KVHeads, n, g.HeadDim)
		v := zeros(g.Batch, g.KVHeads, n, g.ValueDim)
		source := goldenRandom("cache file")
		k = goldenTensor(source, 4, k.B, k.H, n, k.D)
		v = goldenTensor(source, 2, v.B, v.H, n, v.D)
		kept := someOf(r, 0, n)
		must(t, c.Keep(kept))
		want := newCacheOf(t, g, n)
		if len(kept) > 0 {
			must(t, want.Truncate(kept[0]))
			for _, j := range kept {
				must(t, want.Append(rowsOf(k, j, 1), g.kept(rowsOf(v, j, 1))))
			}
		}
		poisonUnused(c)
		mustEqualCaches(t, c, want)
		mustEqualFiles(t, "after Keep", cacheFileOf(t, c), cacheFileOf(t, want))
	})
}

// Keep copies the shared pages to which it moves tokens, and needs free ones for that.
func TestSequenceKeepCopiesSharedPages(t *testing.T) {
	g := StoreConfig{KVHeads: 2, HeadDim: 3, ValueDim: 2, Pages: 5}
	s := newSequenceIn(t, g, 0, 3*Block-4)
	fork := s.Fork()
	before := fileOf(t, fork)
	last := s.store.NewSequence()
	must(t, last.Append(zeros(1, 2, Block+1, 3), zeros(1, 2, Block+1, 2)))
	kept := slices.Concat([]int{10, 13}, []int{Block, Block + 1, 2*Block + 3})
	mustFail(t, "free pages", s.Keep(kept), ErrCapacity,
		"len(indices) is 5, which takes 1 pages: 1 are missing, as 0 of 5 are free")
	mustEqualFiles(t, "after an error", fileOf(t, s), before)
	must(t, s.Keep([]int{10, 11, 12})) // nothing moves, so nothing is copied
	if s.Len() != 13 || s.store.FreePages() != 0 {
		t.Errorf("Len is %d and %d pages are free, want 13 and 0", s.Len(), s.store.FreePages())
	}
	s.Release()
	s = fork.Fork()
	last.Release()
	must(t, s.Keep(kept))
	mustEqualFiles(t, "of the fork", fileOf(t, fork), before)
	want := newSequenceIn(t, g, 0, 3*Block-4)
	must(t, want.Keep(kept))
	mustEqualFiles(t, "after Keep", fileOf(t, s), fileOf(t, want))
	if got := s.store.FreePages(); got != 1 {
		t.Errorf("%d pages are free, want 1: one was copied", got)
	}
}

// Workers share the segments that have tokens, from that of the first one on.
func TestPoolOverSegmentsOfRing(t *testing.T) {
	r := random(t.Name())
	g := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 8, ValueDim: 8, Capacity: 2*Segment + 100}
	c, err := NewCache(g)
	must(t, err)
	m := newTokens(g)
	m.append(t, r, c, 2*Segment+50)
	must(t, c.DropBefore(2*Segment-10))
	m.append(t, r, c, 2*Segment-10)
	poisonUnused(c)
	mask := BHLD(make([]bool, c.Len()), 1, 1, 1, c.Len())
	for j := c.First(); j < c.Len(); j++ {
		mask.Data[j] = true
	}
	q, want, got := tensor(r, normal, 1, 2, 1, 8), zeros(1, 2, 1, 8), zeros(1, 2, 1, 8)
	must(t, Attend(want, q, m.k, m.v, &Options{Mask: mask}))
	must(t, pooled(got, func(j *job) error {
		j.plan = newPlan(got, q, Tensor{}, Tensor{}, nil)
		err := c.plan(&j.plan, nil)
		if j.plan.decide(&tuned, 3); j.plan.segments != 4 {
			t.Errorf("the keys are divided into %d segments, want 4", j.plan.segments)
		}
		return err
	}))
	mustEqualBits(t, "output", got.Data, want.Data)
}
