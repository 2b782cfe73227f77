package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/klauspost/cpuid/v2"
	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/inspect"
	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/internal/measure"
)

const infoAbout = `attn info [-call H=…,Lq=…,D=…]

Shows the CPU, its caches and features, the implementation of the kernels in use, and the reason for
it. With -call it shows instead how a call of some shape is computed here:

  H, KVH   heads of queries, and of keys and values (default: H)
  Lq, Lk   numbers of queries and of keys (default: Lq)
  D, Dv    dimensions of queries and keys, and of values (default: D)
  B        batch (default: 1)
  layout   bhld (default), blhd, or cache if keys and values are in a cache
  causal   1 for a causal mask (default: 0)
  workers  threads that share the work (default: 1)

`

func infoCommand(args []string, stdout, stderr io.Writer) error {
	var call callFlag
	fs := flags.New(infoAbout)
	fs.Var(&call, "call", "show how a call of this `shape` is computed, such as "+
		"H=32,KVH=8,Lq=1,Lk=4096,D=128,layout=cache")
	if err := flags.ParseAll(fs, args, stdout); err != nil {
		return err
	}
	if call.given != nil {
		return call.print(stdout)
	}
	c := &cpuid.CPU
	line := func(name, value string) { printFact(stdout, name, value) }
	line("CPU", measure.CPUName())
	line("platform", fmt.Sprintf("%s/%s, %s", runtime.GOOS, runtime.GOARCH, runtime.Version()))
	line("cores", fmt.Sprintf("%s, GOMAXPROCS %d", cores(c), runtime.GOMAXPROCS(0)))
	line("caches", caches(c))
	for _, f := range features(runtime.GOARCH) {
		line(f.name, f.state())
	}
	line("implementation", attn.Implementation())
	line("why", why(attn.Implementation(), runtime.GOARCH))
	used, reason := inspect.DotProduct()
	line("integers", integers(attn.Implementation(), used, reason))
	line("tiles", tiles(inspect.Tiles()))
	line("bfloat16", bfloat16(inspect.BFloat16Tiles()))
	line("all features", strings.Join(c.FeatureSet(), " "))
	return nil
}

// printFact prints a name and its value, in lines of at most 100 columns that begin below the
// value.
func printFact(w io.Writer, name, value string) {
	const width, indent = 100, 16
	line := fmt.Sprintf("%-*s", indent-1, name)
	for _, word := range strings.Fields(value) {
		if len(line) >= indent && len(line)+1+len(word) > width {
			fmt.Fprintln(w, line)
			line = strings.Repeat(" ", indent-1)
		}
		line += " " + word
	}
	fmt.Fprintln(w, line)
}

func cores(c *cpuid.CPUInfo) string {
	if c.PhysicalCores == 0 || c.LogicalCores == 0 {
		return fmt.Sprintf("%d usable", runtime.NumCPU())
	}
	return fmt.Sprintf("%d usable, %d threads on %d cores in the package", runtime.NumCPU(),
		c.LogicalCores, c.PhysicalCores)
}

func caches(c *cpuid.CPUInfo) string {
	var known []string
	for _, level := range []struct {
		name string
		size int
	}{{"L1 data", c.Cache.L1D}, {"L2", c.Cache.L2}, {"L3", c.Cache.L3}} {
		if level.size > 0 {
			known = append(known, fmt.Sprintf("%s %d KiB", level.name, level.size>>10))
		}
	}
	if c.CacheLine > 0 {
		known = append(known, fmt.Sprintf("line %d bytes", c.CacheLine))
	}
	if known == nil {
		return "unknown"
	}
	return strings.Join(known, ", ")
}

// feature is an instruction set that an implementation needs.
type feature struct {
	name    string
	present bool
	use     string
}

func (f feature) state() string {
	if f.present {
		return "present: " + f.use
	}
	return "missing: " + f.use
}

// features returns the features that matter on an architecture. cpuid reports the vector features
// only if the operating system saves their registers.
func features(arch string) []feature {
	has := cpuid.CPU.Supports
	switch arch {
	case "amd64":
		return []feature{
			{"AVX2", has(cpuid.AVX2), "vectors of 8 floats, for avx2"},
			{"FMA3", has(cpuid.FMA3), "fused multiply-add, for avx2"},
			{"F16C", has(cpuid.F16C), "half-precision conversion, for avx2"},
			{"AVX-512", has(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL),
				"F, BW, DQ and VL, vectors of 16 floats, for avx512"},
			{"AVX-VNNI", has(cpuid.AVXVNNI), "four products of integers at once, for avx2"},
			{"AVX512_VNNI", has(cpuid.AVX512VNNI), "four products of integers at once, for avx512"},
		}
	case "arm64":
		return []feature{{"ASIMD", has(cpuid.ASIMD), "vectors of 4 floats, for neon"},
			{"DotProd", has(cpuid.ASIMDDP), "four products of integers at once, for neon"}}
	}
	return nil
}

// why explains the choice of the implementation.
func why(implementation, arch string) string {
	forced, needed := os.Getenv("ATTN_ISA"), features(arch)
	switch {
	case forced != "":
		return "ATTN_ISA=" + forced + " in the environment forces it"
	case pureGo:
		return "built with -tags purego, which leaves all assembly out"
	case implementation != "generic":
		return "the best of this build that the CPU and the operating system support"
	case len(needed) == 0:
		return "there is no assembly for " + arch + "; same results, less speed"
	}
	return lacking(needed[:min(3, len(needed))], arch)
}

// integers describes the instruction that multiplies 8-bit integers (Options.Integers,
// MatrixConfig.Integers), and says whether and why it adds four products.
func integers(implementation string, used bool, reason string) string {
	x86 := implementation == "avx512" || implementation == "avx2"
	switch {
	case used && x86:
		return "VPDPBUSD for scores and matrices, VPDPWSSD for values: " + reason
	case used:
		return "SDOT"
	case x86:
		return "VPMADDUBSW and VPMADDWD: " + reason
	}
	return "Go code; same results, less speed"
}

// tiles says what the tiles of AMX are used for, or why they are not used.
func tiles(used bool, reason string) string {
	if used {
		return "TDPBSSD for scores and matrices in I8 of many rows, TDPBUSD for values, TDPBSUD for " +
			"matrices of blocks: " + reason
	}
	return "not used: " + reason
}

// bfloat16 says what multiplies in bfloat16 (Options.BFloat16, MatrixConfig.BFloat16), and whether
// and why tiles do.
func bfloat16(used bool, reason string) string {
	if used {
		return "TDPBF16PS for many rows: " + reason
	}
	return "multiply-adds in float32, without tiles: " + reason
}

// lacking names the first missing feature that all assembly needs.
func lacking(needed []feature, arch string) string {
	for _, f := range needed {
		if !f.present {
			return "the CPU or the operating system lacks " + f.name
		}
	}
	return "this build has no assembly for " + arch
}
