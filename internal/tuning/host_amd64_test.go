//go:build !purego

package tuning

import (
	"slices"
	"testing"

	"github.com/klauspost/cpuid/v2"
)

// Kernels with 8 lanes need AVX2, FMA and conversions of half precision; kernels with 16 need four
// parts of AVX-512 as well.
func TestTuningGatesImplementations(t *testing.T) {
	eight := []cpuid.FeatureID{cpuid.AVX2, cpuid.FMA3, cpuid.F16C}
	sixteen := []cpuid.FeatureID{cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL}
	possible := func(features ...cpuid.FeatureID) []ISA {
		var c cpuid.CPUInfo
		c.Enable(features...)
		return possibleISAs(&c)
	}
	if got := possible(slices.Concat(eight, sixteen)...); !slices.Equal(got,
		[]ISA{AVX512, AVX2, Generic}) {
		t.Errorf("with all features: %v", got)
	}
	for i := range sixteen {
		some := slices.Concat(eight, slices.Delete(slices.Clone(sixteen), i, i+1))
		if got := possible(some...); !slices.Equal(got, []ISA{AVX2, Generic}) {
			t.Errorf("without %v: %v", sixteen[i], got)
		}
	}
	for i := range eight {
		some := slices.Concat(sixteen, slices.Delete(slices.Clone(eight), i, i+1))
		if got := possible(some...); !slices.Equal(got, []ISA{Generic}) {
			t.Errorf("without %v: %v", eight[i], got)
		}
	}
}

func TestTuningKnowsMicroarchitectures(t *testing.T) {
	for _, c := range []struct {
		name          string
		vendor        cpuid.Vendor
		family, model int
		want          Microarchitecture
	}{
		{"Milan", cpuid.AMD, 0x19, 0x01, Zen3},
		{"Cezanne", cpuid.AMD, 0x19, 0x50, Zen3},
		{"Genoa", cpuid.AMD, 0x19, 0x11, Zen4},
		{"Raphael", cpuid.AMD, 0x19, 0x61, Zen4},
		{"Rome", cpuid.AMD, 0x17, 0x31, OtherX86},
		{"Turin", cpuid.AMD, 0x1a, 0x02, Zen5},
		{"Sapphire Rapids", cpuid.Intel, 6, 0x8f, Intel},
		{"another vendor's", cpuid.VIA, 0x19, 0x01, OtherX86},
	} {
		if got := microarchitectureOf(&cpuid.CPUInfo{VendorID: c.vendor, Family: c.family,
			Model: c.model}); got != c.want {
			t.Errorf("%s is %s, want %s", c.name, got, c.want)
		}
	}
}

// ATTN_AMX=off turns tiles off, an implementation without tiles does not ask the operating system,
// and an unknown value is an error.
func TestTilesAreAskedFor(t *testing.T) {
	asked := 0
	request := func() Tiles { asked++; return Tiles{Use: true, Why: "granted"} }
	for _, c := range []struct {
		value string
		isa   ISA
		use   bool
		asked int
		why   string
	}{
		{"off", AVX512, false, 0, "ATTN_AMX=off"},
		{"", AVX2, false, 0, "the implementation is avx2, which has none"},
		{"", Generic, false, 0, "the implementation is generic, which has none"},
		{"", AVX512, true, 1, "granted"},
	} {
		asked = 0
		got := tilesAsked(c.value, c.isa, request)
		if got.Use != c.use || got.Why != c.why || asked != c.asked {
			t.Errorf("ATTN_AMX=%q with %v: %+v, asked %d times", c.value, c.isa, got, asked)
		}
	}
	defer func() {
		if text, _ := recover().(string); text != "attn: ATTN_AMX=on is not known, want off or nothing" {
			t.Errorf("ATTN_AMX=on: %q", text)
		}
	}()
	tilesAsked("on", AVX512, request)
}

// Kernels with 16 lanes need one set of instructions, kernels with 8 another, and ATTN_VNNI=off
// turns both off; an unknown value is an error.
func TestDotProductIsAskedFor(t *testing.T) {
	var none, vex, evex cpuid.CPUInfo
	vex.Enable(cpuid.AVXVNNI)
	evex.Enable(cpuid.AVX512VNNI)
	for _, c := range []struct {
		value string
		cpu   *cpuid.CPUInfo
		isa   ISA
		used  bool
		why   string
	}{
		{"", &vex, AVX2, true, "AVX-VNNI"},
		{"", &evex, AVX512, true, "AVX512_VNNI"},
		{"", &evex, AVX2, false, "the CPU has none"},
		{"", &vex, AVX512, false, "the CPU has none"},
		{"", &none, AVX2, false, "the CPU has none"},
		{"", &vex, Generic, false, "the implementation is generic, which has none"},
		{"off", &vex, AVX2, false, "ATTN_VNNI=off"},
		{"off", &evex, AVX512, false, "ATTN_VNNI=off"},
		{"off", &vex, Generic, false, "the implementation is generic, which has none"},
	} {
		used, why := dotProductAsked(c.value, c.isa, dotProductOf(c.cpu, c.isa))
		if used != c.used || why != c.why {
			t.Errorf("ATTN_VNNI=%q with %v: %t, %q, want %t, %q", c.value, c.isa, used, why, c.used, c.why)
		}
	}
	if used, _ := dotProductAsked("off", NEON, "FEAT_DotProd"); !used {
		t.Error("ATTN_VNNI=off leaves SDOT out")
	}
	defer func() {
		if text, _ := recover().(string); text != "attn: ATTN_VNNI=on is not known, want off or nothing" {
			t.Errorf("ATTN_VNNI=on: %q", text)
		}
	}()
	dotProductAsked("on", AVX2, "AVX-VNNI")
}
