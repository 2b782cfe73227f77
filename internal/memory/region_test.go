package memory

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"unsafe"
)

// togetherSizes are on both sides of each change of how memory is allocated together.
var togetherSizes = []int{0, 1, fewestTogether - 1, fewestTogether, fewestTogether + 1, minMapped,
	hugePage, mostTogether - 1, mostTogether, mostTogether + 1}

func together(t testing.TB, bytes int) *Mapping {
	t.Helper()
	m, err := AllocateTogether(bytes)
	must(t, err)
	return m
}

// All of the memory is there, zero and aligned, and is the mapping's own, also if others gave
// theirs back; and all goes back.
func TestAllocateTogether(t *testing.T) {
	before := Mapped()
	var all []*Mapping
	for round := range 4 {
		for i, n := range togetherSizes {
			m := together(t, n)
			b := m.Bytes()
			if len(b) != n || cap(b) != n {
				t.Fatalf("%d bytes: %d, and room for %d", n, len(b), cap(b))
			}
			if at := uintptr(unsafe.Pointer(unsafe.SliceData(b))); n > 0 && at%cacheLine != 0 {
				t.Errorf("%d bytes begin at %#x, want a multiple of %d", n, at, cacheLine)
			}
			mustHold(t, b, 0)
			if m.Populate(b); n > 9 {
				m.Populate(b[n/3 : n/2])
			}
			mustHold(t, b, 0)
			if fill(b, byte(len(all)+1)); (i+round)%3 == 0 {
				must(t, m.Close())
				continue
			}
			all = append(all, m)
		}
	}
	for i, m := range all {
		mustHold(t, m.Bytes(), byte(i+1))
		must(t, m.Close())
		must(t, m.Close())
		if m.Bytes() != nil {
			t.Error("there are bytes after Close")
		}
	}
	if got := Mapped(); got != before {
		t.Errorf("%d bytes stay mapped", got-before)
	}
}

func mustHold(t testing.TB, b []byte, want byte) {
	t.Helper()
	for i, e := range b {
		if e != want {
			t.Fatalf("byte %d of %d is %d, want %d", i, len(b), e, want)
		}
	}
}

// Goroutines allocate and free at the same time; each has memory of its own, and none is left.
func TestTogetherConcurrently(t *testing.T) {
	before := Mapped()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(g)))
			var kept []*Mapping
			for i := range 60 {
				m, err := AllocateTogether(fewestTogether + r.IntN(i*4096+1))
				if err != nil {
					t.Error(err)
					return
				}
				kept = append(kept, m)
				b := m.Bytes()
				b[0], b[len(b)/2], b[len(b)-1] = byte(g), byte(g), byte(g)
				if runtime.Gosched(); r.IntN(3) > 0 {
					m, kept = kept[0], kept[1:]
					b := m.Bytes()
					if b[0] != byte(g) || b[len(b)/2] != byte(g) || b[len(b)-1] != byte(g) {
						t.Error("somebody else has written to the memory")
					}
					if err := m.Close(); err != nil {
						t.Error(err)
					}
				}
			}
			for _, m := range kept {
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := Mapped(); got != before {
		t.Errorf("%d bytes stay mapped", got-before)
	}
}

// A piece goes back when nobody refers to its mapping, and not before.
func TestTogetherIsCollected(t *testing.T) {
	before := Mapped()
	kept := together(t, minMapped)
	for range 3 {
		fill(together(t, minMapped).Bytes(), 1)
	}
	waitFor(t, func() bool { return Mapped()-before <= minMapped })
	collect()
	if got := Mapped() - before; got != minMapped {
		t.Errorf("%d bytes are left, want those of the mapping in use", got)
	}
	fill(kept.Bytes(), 1)
	must(t, kept.Close())
}

// What grows may be together with others.
func TestGrowingTogether(t *testing.T) {
	before := Mapped()
	g := Growing{Most: minMapped, Together: true}
	x, err := g.Next(minMapped)
	must(t, err)
	fill(x, 1)
	if g.Mapping().Huge() != givesHuge {
		t.Errorf("Huge is %v, want %v", g.Mapping().Huge(), givesHuge)
	}
	must(t, g.Close())
	if got := Mapped(); got != before {
		t.Errorf("%d bytes stay mapped", got-before)
	}
}
