package pages

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Where the kernel has huge pages, the mapping that holds the memory gets their flag.
func TestHuge(t *testing.T) {
	if Huge(make([]float32, fewestBytes/4-1)) {
		t.Error("memory without room for a huge page is advised")
	}
	x := make([]float32, 4*fewestBytes/4)
	advised := Huge(x)
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err == nil && !advised {
		t.Error("the kernel has huge pages, and memory is not advised")
	}
	flags, _ := flagsOf(uintptr(unsafe.Pointer(&x[len(x)/2])))
	if flagsAreTrue(t) && advised != strings.Contains(flags, " hg") {
		t.Errorf("advised: %v, flags of the mapping: %q", advised, flags)
	}
}

// flagsAreTrue reports whether some other advice shows in the flags of its mapping. An emulator makes flags up.
func flagsAreTrue(t *testing.T) bool {
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(page)
	if err := unix.Madvise(page, unix.MADV_DONTFORK); err != nil {
		return false
	}
	flags, _ := flagsOf(uintptr(unsafe.Pointer(&page[0])))
	return strings.Contains(flags, " dc")
}

// Memory stays zero, within and at its ends, and what lies beside it stays what it was.
func TestHugeKeepsMemory(t *testing.T) {
	all := make([]float32, 3*fewestBytes/4)
	part := all[777 : 777+2*fewestBytes/4]
	for i := range all {
		all[i] = 1
	}
	clear(part)
	Huge(part)
	for i := range all {
		want := float32(1)
		if i >= 777 && i < 777+len(part) {
			want = 0
		}
		if all[i] != want {
			t.Fatalf("element %d is %g, want %g", i, all[i], want)
		}
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
