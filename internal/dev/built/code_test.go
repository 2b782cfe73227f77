package built

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// kernelPackages have all assembly that users call.
var kernelPackages = []string{"github.com/seed-1415985d/attn",
	"github.com/seed-1415985d/attn/internal/kernel/..."}

// TestMachineCode bounds the machine code of kernels by instruction set: what a new kernel, or a
// tile of more rows, adds to programs. Bounds are a few per cent above the current sizes.
func TestMachineCode(t *testing.T) {
	if testing.Short() {
		t.Skip("packages are built where all tests run")
	}
	for arch, most := range map[string]map[string]int{
		"amd64": {"AVX2": 288_000, "AVX-VNNI": 55_000, "AVX-512": 153_000, "AVX-512 VNNI": 196_000,
			"AMX": 13_500},
		"arm64": {"NEON": 83_000, "NEON with dot products": 63_000},
	} {
		code := machineCode(t, arch)
		for _, set := range slices.Sorted(maps.Keys(code)) {
			t.Logf("%s, %s: %d bytes of machine code", arch, set, code[set])
			if code[set] > most[set] {
				t.Errorf("%s, %s: want at most %d bytes of machine code", arch, set, most[set])
			}
		}
		if len(code) != len(most) {
			t.Errorf("%s: machine code of %d instruction sets, want %d", arch, len(code), len(most))
		}
	}
}

// assembled matches a function of an assembly file in the output of nm: its bytes and its name.
// _go_.o has the compiler's functions of the same names, which call these.
var assembled = regexp.MustCompile(`(?m)\([^_][^)]*\):\s+[0-9a-f]+\s+(\d+) T \S+\.(\w+)$`)

// machineCode returns the bytes of all kernels of an architecture, by instruction set.
func machineCode(t *testing.T, arch string) map[string]int {
	t.Helper()
	list := exec.Command("go", append([]string{"list", "-export", "-f", "{{.Export}}"},
		kernelPackages...)...)
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=")
	archives, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	code := map[string]int{}
	for _, archive := range strings.Fields(string(archives)) {
		symbols, err := exec.Command("go", "tool", "nm", "-size", archive).Output()
		if err != nil {
			t.Fatalf("%s: %v", archive, err)
		}
		for _, symbol := range assembled.FindAllSubmatch(symbols, -1) {
			size, err := strconv.Atoi(string(symbol[1]))
			if err != nil {
				t.Fatal(err)
			}
			code[instructionSet(arch, string(symbol[2]))] += size
		}
	}
	return code
}

// instructionSet returns the instruction set that ends a kernel's name, see gen/README.md.
func instructionSet(arch, kernel string) string {
	for _, set := range []struct{ arch, ending, name string }{
		{"amd64", "VNNIAVX512", "AVX-512 VNNI"},
		{"amd64", "AVX512", "AVX-512"},
		{"amd64", "VNNISIMD", "AVX-VNNI"},
		{"amd64", "SIMD", "AVX2"},
		{"amd64", "AMX", "AMX"},
		{"arm64", "SIMD", "NEON"},
		{"arm64", "Dot", "NEON with dot products"},
	} {
		if arch == set.arch && strings.HasSuffix(kernel, set.ending) {
			return set.name
		}
	}
	return fmt.Sprintf("unknown, as of %s", kernel)
}
