//go:build !purego

package attn

import (
	"math"
	"slices"
	"testing"

	"github.com/klauspost/cpuid/v2"
)

// In which order few rows of queries go through memory, and ask for it, depends on the
// processor; the bits do not.
func TestOrdersOfMemory(t *testing.T) {
	defer func(headsPerChunk, sequential bool, wide int) {
		panelsAbreast, sequentialReads, leastRows16 = headsPerChunk, sequential, wide
	}(panelsAbreast, sequentialReads, leastRows16)
	leastRows16 = fewestRows16(true, false)
	forEach(t, func(t *testing.T) {
		for i := range kernels {
			for order := range 4 {
				panelsAbreast, sequentialReads = order&1 != 0, order&2 != 0
				switch k := &kernels[i]; k.name {
				case "score", "scoreRows", "accumulate", "packKeys", "packValues":
					k.fewRows(t)
				}
			}
		}
	})
}

// In which order requests go through rows depends on it too.
func TestScatteredRowsAskedOnce(t *testing.T) {
	defer func(was bool) { pagedPrefetch = was }(pagedPrefetch)
	forEach(t, func(t *testing.T) {
		for _, pagedPrefetch = range []bool{false, true} {
			testAskedOnce(t)
		}
	})
}

// fewRows tries random sizes with 1 to 5 rows of queries and, as often, with 6 to 35.
func (k *kernelTest) fewRows(t *testing.T) {
	c := newTrial(t, random(k.name))
	n := make([]int, len(k.dims))
	for i := range budget(600) {
		for j := range n {
			most := k.dims[j].hi
			if k.dims[j].name == "cols" && c.IntN(3) == 0 {
				most = k.dims[j].larger // more than eight panels
			}
			n[j] = k.dims[j].pick(c, most)
			if k.dims[j].name == "gap" && i%2 == 0 {
				n[j] = 0 // rows without gaps
			}
		}
		n[0] = 1 + i/2%5
		if i%4 > 1 {
			n[0] = 6 + i/4%30
		}
		k.check(t, c, n)
	}
}

// What this CPU does not decide.
func TestChoices(t *testing.T) {
	for _, c := range []struct {
		eight, sixteen bool
		want           []isa
	}{
		{false, false, []isa{generic}},
		{false, true, []isa{generic}}, // kernels with 16 lanes are not enough
		{true, false, []isa{avx2, generic}},
		{true, true, []isa{avx512, avx2, generic}},
	} {
		if got := bestFirst(c.eight, c.sixteen); !slices.Equal(got, c.want) {
			t.Errorf("with 8 lanes %v, with 16 %v: %v, want %v", c.eight, c.sixteen, got, c.want)
		}
	}
	for _, c := range []struct {
		pagedPrefetch, split bool
		want                 int
	}{{true, false, 2}, {false, false, 13}, {false, true, math.MaxInt}, {true, true, math.MaxInt}} {
		if got := fewestRows16(c.pagedPrefetch, c.split); got != c.want {
			t.Errorf("%+v: with 16 lanes from %d rows on", c, got)
		}
	}
}

func TestRowsOfTile(t *testing.T) {
	defer func(was, wasInOrder bool) { pagedPrefetch, sequentialReads = was, wasInOrder }(pagedPrefetch, sequentialReads)
	for _, c := range []struct {
		l1                             int
		pagedPrefetch, sequentialReads bool
		want                           int
	}{
		{32 << 10, true, false, fewTileRows},
		{48 << 10, false, false, fewTileRows},
		{48 << 10, true, false, mostTileRows},
		{-1, true, false, fewTileRows},
		{32 << 10, false, true, mostTileRows},
	} {
		pagedPrefetch, sequentialReads = c.pagedPrefetch, c.sequentialReads
		if got := rowsOfTile(c.l1); got != c.want {
			t.Errorf("%+v: %d rows", c, got)
		}
	}
}

func TestGenerations(t *testing.T) {
	for _, c := range []struct {
		name          string
		vendor        cpuid.Vendor
		family, model int
		want          int
	}{
		{"Milan", cpuid.AMD, 0x19, 0x01, 3},
		{"Cezanne", cpuid.AMD, 0x19, 0x50, 3},
		{"Genoa", cpuid.AMD, 0x19, 0x11, 4},
		{"Raphael", cpuid.AMD, 0x19, 0x61, 4},
		{"Rome", cpuid.AMD, 0x17, 0x31, 0},
		{"Turin", cpuid.AMD, 0x1a, 0x02, 5},
		{"another vendor's", cpuid.Intel, 0x19, 0x01, 0},
		{"another vendor's", cpuid.Intel, 0x1a, 0x01, 0},
	} {
		cpu := &cpuid.CPUInfo{VendorID: c.vendor, Family: c.family, Model: c.model}
		for generation, is := range map[int]bool{3: zen3(cpu), 4: zen4(cpu), 5: zen5(cpu)} {
			if want := generation == c.want; is != want {
				t.Errorf("%s: Zen %d: %v, want %v", c.name, generation, is, want)
			}
		}
		want := [2]int{6144, 8192}
		if c.want == 4 {
			want = [2]int{256, 4096}
		}
		if one, few := prefetchDistances(cpu); one != want[0] || few != want[1] {
			t.Errorf("%s: packed panels %d and %d bytes ahead, want %v", c.name, one, few, want)
		}
	}
}
