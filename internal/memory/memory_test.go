package memory

import (
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// sizes are on both sides of each change of how memory is allocated.
var sizes = []int{0, 1, 3, 64, 4096, minMapped - 1, minMapped, minMapped + 4097,
	fewestHuge - 1, fewestHuge, fewestHuge + 1, 3*hugePage + 12345}

func allocate(t testing.TB, bytes int) *Mapping {
	t.Helper()
	m, err := Allocate(bytes)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// All of the memory is there, zero and aligned, and is the mapping's own.
func TestAllocate(t *testing.T) {
	var all []*Mapping
	for range 3 {
		for _, n := range sizes {
			m := allocate(t, n)
			all = append(all, m)
			b := m.Bytes()
			if len(b) != n || cap(b) != n || len(m.Floats()) != n/4 {
				t.Fatalf("%d bytes: %d, room for %d, and %d floats", n, len(b), cap(b), len(m.Floats()))
			}
			if at := uintptr(unsafe.Pointer(unsafe.SliceData(b))); n > 0 && at%cacheLine != 0 {
				t.Errorf("%d bytes begin at %#x, want a multiple of %d", n, at, cacheLine)
			}
			for i, e := range b {
				if e != 0 {
					t.Fatalf("%d bytes: byte %d is %d, want 0", n, i, e)
				}
			}
			fill(b, byte(len(all)))
		}
	}
	for i, m := range all {
		for at, e := range m.Bytes() {
			if e != byte(i+1) {
				t.Fatalf("allocation %d: byte %d is %d, want %d", i, at, e, i+1)
			}
		}
	}
	for _, m := range all {
		must(t, m.Close())
	}
}

func fill(b []byte, e byte) {
	for i := range b {
		b[i] = e
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What nobody can have is an error that says how much it was.
func TestRefusal(t *testing.T) {
	absurd := []int{-1, math.MinInt, math.MaxInt, math.MaxInt - hugePage + 1}
	if math.MaxInt > math.MaxInt32 {
		// more than processors have addresses for
		absurd = append(absurd, math.MaxInt-hugePage, math.MaxInt>>8)
	}
	before := Mapped()
	for _, n := range absurd {
		m, err := Allocate(n)
		if err == nil {
			t.Errorf("%d bytes are granted: %d", n, len(m.Bytes()))
		} else if !strings.Contains(err.Error(), strconv.Itoa(n)+" bytes") {
			t.Errorf("the error does not say that it was %d bytes: %v", n, err)
		}
	}
	if got := Mapped(); got != before {
		t.Errorf("%d bytes are mapped after refusals, want %d as before", got, before)
	}
}

// Memory goes back by Close, once however often it is called.
func TestClose(t *testing.T) {
	for _, n := range sizes {
		before := Mapped()
		m := allocate(t, n)
		fill(m.Bytes(), 1)
		if got := Mapped() - before; n < minMapped && got != 0 || n >= minMapped && got < int64(n) {
			t.Errorf("%d bytes: %d are mapped", n, got)
		}
		must(t, m.Close())
		must(t, m.Close())
		if got := Mapped(); got != before {
			t.Errorf("%d bytes: %d stay mapped after Close", n, got-before)
		}
		if len(m.Bytes()) != 0 || len(m.Floats()) != 0 {
			t.Errorf("%d bytes: there are some after Close", n)
		}
	}
	collect() // a cleanup that was not stopped would give the memory back once more
	if got := Mapped(); got < 0 {
		t.Errorf("%d bytes are mapped", got)
	}
}

// collect runs cleanups of what nobody refers to, as far as they are quick.
func collect() {
	runtime.GC()
	time.Sleep(time.Millisecond)
}

// Memory goes back when nobody refers to its mapping, and not before.
func TestCollection(t *testing.T) {
	before := Mapped()
	kept := allocate(t, minMapped)
	for _, n := range []int{minMapped, fewestHuge} {
		fill(allocate(t, n).Bytes(), 1)
	}
	waitFor(t, func() bool { return Mapped()-before <= int64(len(kept.whole.bytes)) })
	collect()
	if got := Mapped() - before; got < minMapped {
		t.Errorf("%d bytes are left, want those of the mapping in use", got)
	}
	fill(kept.Bytes(), 1)
	must(t, kept.Close())
	if got := Mapped(); got != before {
		t.Errorf("%d bytes are mapped, want %d as before", got, before)
	}
}

// waitFor collects until a condition holds.
func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); collect() {
		if time.Now().After(deadline) {
			t.Fatal("it does not come true")
		}
	}
}

func BenchmarkAllocate(b *testing.B) {
	for _, n := range []int{16 << 10, 64 << 10, minMapped, 1 << 20, fewestHuge} {
		for _, way := range []struct {
			name string
			take func() []byte
		}{
			{"heap", func() []byte { return onHeap(n) }},
			{"system", func() []byte { whole, _ := take(n); return whole }},
		} {
			b.Run(strconv.Itoa(n>>10)+"KiB/"+way.name, func(b *testing.B) {
				for b.Loop() {
					x := way.take()
					for i := 0; i < len(x); i += 4096 {
						x[i] = 1
					}
					if way.name == "system" {
						giveBack(x)
					}
				}
			})
		}
	}
}
