// Package measure measures calls together with the limits of the machine at the same time: limits,
// turns, quantiles, detection of other programs, and JSON.
package measure

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/klauspost/cpuid/v2"
)

// Environment says where something was measured.
type Environment struct {
	CPU    string `json:"cpu"`
	GOOS   string `json:"goos"`
	GOARCH string `json:"goarch"`
	Go     string `json:"go"`
	NumCPU int    `json:"num_cpu"`
}

// Here returns the environment of this process.
func Here() Environment {
	return Environment{CPU: CPUName(), GOOS: runtime.GOOS, GOARCH: runtime.GOARCH,
		Go: runtime.Version(), NumCPU: runtime.NumCPU()}
}

// CPUName is the CPU's own name for itself.
func CPUName() string {
	if name := strings.TrimSpace(cpuid.CPU.BrandName); name != "" {
		return name
	}
	return "unknown " + runtime.GOARCH + " CPU"
}

// Benchmark is what attn bench measured.
type Benchmark struct {
	Environment
	Procs    int      `json:"gomaxprocs"`
	Commands []string `json:"commands"`
	Early    bool     `json:"ended_early,omitempty"` // ended by a signal
	Reports  []Report `json:"reports"`
}

// Report is about one implementation.
type Report struct {
	Implementation string   `json:"implementation"`
	Machine        Machine  `json:"machine"`
	Results        []Result `json:"results"`
}

// Machine is the limits of one thread.
type Machine struct {
	Vectors      string             `json:"measured_with"`
	FMA          float64            `json:"fma_gflops"`
	Clock        float64            `json:"clock_ghz"`
	PerCycle     float64            `json:"fma_flops_per_cycle"`
	Integers     float64            `json:"int8_gops"`
	IntegersWith string             `json:"int8_measured_with"`
	Read         map[string]float64 `json:"read_gbs"`
}

// Result is about one case on a number of threads.
type Result struct {
	Implementation string  `json:"implementation"`
	Case           string  `json:"case"`
	Benchmark      string  `json:"benchmark"`
	Shape          string  `json:"shape"`
	Threads        int     `json:"threads"`
	Nanoseconds    float64 `json:"ns_per_call"` // least of all repetitions
	// far above the least on a noisy machine
	Median  float64 `json:"median_ns"`
	Rate    float64 `json:"rate"`              // work per second
	Busy    bool    `json:"busy,omitempty"`    // the limit is not known
	Limit   float64 `json:"limit,omitempty"`   // best of all repetitions
	Unit    string  `json:"unit"`              // of rate and limit
	LimitOf string  `json:"limit_of"`          // FMA, INT8, INT4 or DRAM
	Percent float64 `json:"percent,omitempty"` // rate to limit
	// unless memory is the limit: rate to peak at the clock of the moment, median of the fastest tenth
	// of the quiet repetitions
	AtItsClock  float64 `json:"percent_at_its_clock,omitempty"`
	Repetitions int     `json:"repetitions"`
	// repetitions with the limit near its best, and no other program on the core before and after
	Quiet         int     `json:"quiet_repetitions"`
	Calls         int     `json:"calls_per_repetition"`
	AllocsPerCall float64 `json:"allocs_per_call"`
}

// Duration prints nanoseconds with three digits or more.
func Duration(ns float64) string {
	switch {
	case ns < 1e4:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 1e6:
		return fmt.Sprintf("%.1f µs", ns/1e3)
	case ns < 1e8:
		return fmt.Sprintf("%.2f ms", ns/1e6)
	case ns < 1e9:
		return fmt.Sprintf("%.1f ms", ns/1e6)
	}
	return fmt.Sprintf("%.2f s", ns/1e9)
}
