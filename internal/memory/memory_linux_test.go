package memory

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func startOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Where the kernel has huge pages, all of a large mapping gets their flag, and nothing of a small
// one.
func TestHuge(t *testing.T) {
	_, err := os.Stat("/sys/kernel/mm/transparent_hugepage")
	for _, n := range []int{minMapped, fewestHuge - 1, fewestHuge, 5*hugePage + 4097} {
		m := allocate(t, n)
		if err == nil && m.Huge() != (n >= fewestHuge) {
			t.Errorf("%d bytes: Huge is %v", n, m.Huge())
		}
		if m.Huge() && startOf(m.Bytes())%hugePage != 0 {
			t.Errorf("%d bytes begin at %#x, want a multiple of %#x", n, startOf(m.Bytes()), hugePage)
		}
		for _, at := range []int{0, n / 2, n - 1} {
			flags, ok := flagsOf(startOf(m.Bytes()[at:]))
			if !ok {
				t.Errorf("%d bytes: byte %d is in no mapping", n, at)
			}
			if flagsAreTrue(t) && m.Huge() != strings.Contains(flags, " hg") {
				t.Errorf("%d bytes: Huge is %v, flags of the mapping are %q", n, m.Huge(), flags)
			}
		}
		must(t, m.Close())
	}
}

// flagsAreTrue reports whether some other advice shows in the flags of its mapping. An emulator
// makes flags up.
func flagsAreTrue(t *testing.T) bool {
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(page)
	if err := unix.Madvise(page, unix.MADV_DONTFORK); err != nil {
		return false
	}
	flags, _ := flagsOf(startOf(page))
	return strings.Contains(flags, " dc")
}

// What has gone back is no memory any more, and neither is what was mapped to find an aligned
// place.
func TestGivesBack(t *testing.T) {
	for _, n := range []int{minMapped, fewestHuge + 1} {
		m := allocate(t, n)
		page := os.Getpagesize()
		first := unsafe.Pointer(unsafe.SliceData(m.Bytes()))
		last := unsafe.Add(first, n-1)
		if faults(first) || faults(last) {
			t.Fatalf("%d bytes: an access within them faults", n)
		}
		if mapped := len(m.whole.bytes); mapped != roundUp(n, page) {
			t.Errorf("%d bytes: %d are mapped", n, mapped)
		}
		must(t, m.Close())
		if !faults(first) || !faults(last) {
			t.Errorf("%d bytes: they can still be read after Close", n)
		}
	}
}

// faults reports whether reading a byte is a fault.
func faults(p unsafe.Pointer) (yes bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { yes = recover() != nil }()
	sink = *(*byte)(p)
	return false
}

var sink byte

// 32 TiB are refused by a kernel that looks at what there is.
func TestRefusalOfTheKernel(t *testing.T) {
	policy, err := os.ReadFile("/proc/sys/vm/overcommit_memory")
	if err != nil || strings.TrimSpace(string(policy)) == "1" || math.MaxInt == math.MaxInt32 {
		return // it grants any address there is
	}
	size := math.MaxInt>>18 + 1
	if m, err := Allocate(size); err == nil {
		t.Errorf("%d bytes are granted", len(m.Bytes()))
	}
}

// Trimming leaves no more addresses in use than what was asked for.
func TestTrims(t *testing.T) {
	size := func() (pages int) {
		text, err := os.ReadFile("/proc/self/statm")
		must(t, err)
		fmt.Sscan(string(text), &pages)
		return pages
	}
	// mapped one below the other, they do not begin where they shall
	const count, each = 64, fewestHuge + 3*4096
	before := size()
	var all []*Mapping
	for range count {
		all = append(all, allocate(t, each))
	}
	if grown := (size() - before) * os.Getpagesize(); grown >= count*each+count*hugePage/8 {
		t.Errorf("%d mappings of %d bytes take %d bytes of addresses", count, each, grown)
	}
	for _, m := range all {
		must(t, m.Close())
	}
}

// flagsOf returns the flags of the mapping of an address.
func flagsOf(address uintptr) (flags string, ok bool) {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return "", false
	}
	defer f.Close()
	inside := false
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var from, to uintptr
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &from, &to); n == 2 {
			inside = from <= address && address < to
		}
		if rest, found := strings.CutPrefix(lines.Text(), "VmFlags:"); found && inside {
			return rest, true
		}
	}
	return "", false
}

// What is populated has its memory before somebody writes to it.
func TestPopulate(t *testing.T) {
	m, err := Allocate(8 * hugePage)
	must(t, err)
	defer m.Close()
	if !m.Huge() {
		t.Skip("the system gives no huge pages on request")
	}
	refused := unix.Madvise(m.Bytes()[7*hugePage:], unix.MADV_POPULATE_WRITE) != nil
	from, to := 2*hugePage+5, 4*hugePage+7
	m.Populate(m.Bytes()[from:to])
	m.Populate(nil)
	pages := make([]byte, 8*hugePage/os.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, startOf(m.Bytes()),
		uintptr(8*hugePage), startOf(pages))
	if errno != 0 {
		t.Fatal(errno)
	}
	has := func(at int) bool { return pages[at/os.Getpagesize()]&1 != 0 }
	if has(0) {
		t.Error("what was not asked for has memory, too")
	}
	// User-mode emulators accept advice and do nothing.
	if refused || !has(7*hugePage) {
		if has(from) {
			t.Error("there is memory, which the system gives to nobody else who asks")
		}
		t.Skip("the system does not populate memory on request")
	}
	for at := from; at < to; at += os.Getpagesize() {
		if !has(at) {
			t.Fatalf("byte %d has no memory", at)
		}
	}
}

// Small objects follow each other in huge pages. The pages leave memory with the last of those in
// them, and the addresses with the last of a region.
func TestRegion(t *testing.T) {
	const each = hugePage/2 + 64
	var all []*Mapping
	for range 2 * regionBytes / each {
		all = append(all, together(t, each))
	}
	first := all[0].whole.of
	if first == nil {
		t.Skip("the system gives no huge pages on request")
	}
	if flags, ok := flagsOf(startOf(all[0].Bytes())); flagsAreTrue(t) &&
		(!ok || !strings.Contains(flags, " hg")) {
		t.Errorf("flags of the mapping are %q, want hg among them", flags)
	}
	if got := first.pieces; got != regionBytes/each {
		t.Errorf("a region has %d pieces, want %d", got, regionBytes/each)
	}
	before := resident(t)
	for _, m := range all {
		fill(m.Bytes(), 1)
	}
	written := resident(t) - before
	if most := len(all)*each + 3*hugePage; written > most {
		t.Errorf("%d bytes take %d of memory, want at most %d", len(all)*each, written, most)
	}
	kept, regions, at := all[7], map[*region]bool{}, []unsafe.Pointer(nil)
	for _, m := range all {
		if regions[m.whole.of] = true; m != kept {
			at = append(at, unsafe.Pointer(unsafe.SliceData(m.Bytes())))
			must(t, m.Close())
		}
	}
	if len(regions) < 2 {
		t.Errorf("there are %d regions, want a second one", len(regions))
	}
	if got := resident(t) - before; got > 3*hugePage && got > written/4 {
		t.Errorf("%d bytes stay in memory for %d", got, each)
	}
	mustHold(t, kept.Bytes(), 1)
	if last := at[len(at)-1]; faults(at[0]) || !faults(last) {
		t.Errorf("the region of what is kept faults: %v, and the other: %v", faults(at[0]), faults(last))
	}
	must(t, kept.Close())
	if !faults(at[0]) {
		t.Error("addresses stay in use after the last Close")
	}
}
