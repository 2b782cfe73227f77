package guard

import (
	"os"
	"runtime/debug"
	"testing"
	"unsafe"
)

// faults reports whether f causes a memory fault.
func faults(f func()) (yes bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { yes = recover() != nil }()
	f()
	return false
}

func next(p *float32, n int) *float32 { return (*float32)(unsafe.Add(unsafe.Pointer(p), 4*n)) }

func TestEdgesFault(t *testing.T) {
	if !Protects() {
		return
	}
	for _, n := range []int{1, 7, 1024, 5000} {
		b, err := New[float32](n)
		if err != nil {
			t.Fatal(err)
		}
		front, frontRead := b.Front(n)
		back, backRead := b.Back(n)
		var sink float32
		for name, f := range map[string]func(){
			"read before the front": func() { sink = *next(&front[0], -1) },
			"read before the input": func() { sink = *next(&frontRead[0], -1) },
			"read after the back":   func() { sink = *next(&back[n-1], 1) },
			"read after the input":  func() { sink = *next(&backRead[n-1], 1) },
			"write to the input":    func() { frontRead[0] = 1 },
			"write after":           func() { *next(&back[n-1], 1) = 1 },
		} {
			if !faults(f) {
				t.Errorf("n=%d: %s does not fault", n, name)
			}
		}
		inside := func() {
			for i := range n {
				front[i], back[i] = 1, 2
				sink += frontRead[i] + backRead[i]
			}
		}
		if faults(inside) {
			t.Errorf("n=%d: an access inside faults", n)
		}
		b.Free()
	}
}

func TestViewsShareElements(t *testing.T) {
	b, err := New[uint64](300)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Free()
	if b.Cap() < 300 {
		t.Fatalf("Cap is %d, want at least 300", b.Cap())
	}
	for _, place := range []func(int) ([]uint64, []uint64){b.Front, b.Back} {
		write, read := place(300)
		for i := range write {
			write[i] = uint64(i) * 3
		}
		for i := range read {
			if read[i] != uint64(i)*3 {
				t.Fatalf("element %d is %d, want %d", i, read[i], i*3)
			}
		}
	}
}

func TestForbiddenPagesFault(t *testing.T) {
	if !Protects() {
		return
	}
	page := os.Getpagesize() / 4
	b, err := New[float32](3 * page)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Free()
	x, _ := b.Front(3 * page)
	if _, err := Forbid(x[1 : 1+page]); err == nil {
		t.Error("parts of pages are forbidden")
	}
	allow, err := Forbid(x[page : 2*page])
	if err != nil {
		t.Fatal(err)
	}
	var sink float32
	if !faults(func() { sink += x[page] }) || !faults(func() { sink += x[2*page-1] }) {
		t.Error("a forbidden page is read")
	}
	if faults(func() { sink += x[page-1] + x[2*page] }) {
		t.Error("the pages beside it are forbidden, too")
	}
	if allow(); faults(func() { x[page] = sink }) {
		t.Error("a page that is allowed again faults")
	}
}
