package pages

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// The mapping that holds the memory has the flag of huge pages, if the system has it at all.
func TestHuge(t *testing.T) {
	if Huge(make([]float32, fewestBytes/4-1)) {
		t.Error("memory without room for a huge page is advised")
	}
	x := make([]float32, 4*fewestBytes/4)
	if !Huge(x) {
		t.Skip("this system has no huge pages on request")
	}
	flags, ok := flagsOf(t, uintptr(unsafe.Pointer(&x[len(x)/2])))
	if !ok {
		t.Skip("this system does not tell the flags of mappings") // an emulator
	}
	if !strings.Contains(flags, " hg") {
		t.Errorf("the flags are %q, want hg among them", flags)
	}
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
func flagsOf(t *testing.T, address uintptr) (flags string, ok bool) {
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
