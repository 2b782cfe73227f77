//go:build !purego

package tuning

import (
	"slices"
	"testing"

	"github.com/klauspost/cpuid/v2"
)

// Kernels with 8 lanes need AVX2, FMA and conversions of half precision, those with 16 four parts
// of AVX-512 as well.
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
