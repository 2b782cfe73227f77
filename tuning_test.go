package attn

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// A machine that lacks an implementation that the run was made for must not
// pass for one that has tested it.
func TestRequiredImplementations(t *testing.T) {
	required := os.Getenv("ATTN_TEST_REQUIRE")
	if required == "" {
		required = generic.String()
	}
	var have []string
	for _, i := range implementations() {
		have = append(have, i.String())
	}
	for _, name := range strings.Split(required, ",") {
		if !slices.Contains(have, name) {
			t.Errorf("implementation %s is required and was not tested: this machine runs %v", name, have)
		}
	}
	t.Logf("implementations: %v", have)
}

func TestImplementationName(t *testing.T) {
	if got, want := Implementation(), tuned.isa.String(); got != want {
		t.Errorf("Implementation() = %q, want %q", got, want)
	}
	if forced := os.Getenv("ATTN_ISA"); forced != "" && Implementation() != forced {
		t.Errorf("Implementation() = %q, want %q as ATTN_ISA says", Implementation(), forced)
	}
}

// TestForcedImplementation checks what ATTN_ISA does to the choice.
func TestForcedImplementation(t *testing.T) {
	t.Setenv("ATTN_ISA", "")
	if got := chooseISA(avx2, generic); got != avx2 {
		t.Errorf("chooseISA(avx2, generic) = %v, want the first", got)
	}
	t.Setenv("ATTN_ISA", "generic")
	if got := chooseISA(avx2, generic); got != generic {
		t.Errorf("ATTN_ISA=generic: chooseISA(avx2, generic) = %v, want generic", got)
	}
	t.Setenv("ATTN_ISA", "avx2")
	if got := chooseISA(avx512, avx2, generic); got != avx2 {
		t.Errorf("ATTN_ISA=avx2: chooseISA(avx512, avx2, generic) = %v, want avx2", got)
	}
	for _, name := range []string{"avx512", "neon", "avx1024"} { // of a newer CPU, of another architecture, unheard of
		t.Run(name, func(t *testing.T) {
			t.Setenv("ATTN_ISA", name)
			defer func() {
				text, _ := recover().(string)
				for _, part := range []string{"ATTN_ISA", name, "avx2", "generic"} {
					if !strings.Contains(text, part) {
						t.Errorf("panic %q does not mention %q", text, part)
					}
				}
			}()
			chooseISA(avx2, generic)
		})
	}
}

// Every microarchitecture has a row for each implementation that it may run, and rows are complete.
func TestTuningHasARowForEach(t *testing.T) {
	for _, cpu := range []microarchitecture{zen3, zen4, zen5, intel, otherX86, arm64, anyCPU} {
		tune(cpu, generic, 0, 0)
	}
	for _, cpu := range []microarchitecture{zen4, zen5, intel, otherX86} {
		tune(cpu, avx512, 0, 0)
		tune(cpu, avx2, 0, 0)
	}
	tune(zen3, avx2, 0, 0)
	tune(arm64, neon, 0, 0)
	for _, row := range tunings {
		row = tune(row.cpu, row.isa, 64<<10, 1<<20)
		switch {
		case row.tileRows != leastTileRows && row.tileRows != mostTileRows,
			row.fewRows < leastTileRows,
			row.leastRows16 < 2, row.isa != avx512 && row.leastRows16 != never,
			row.fusedSoftmax && (row.maximaInScore || row.isa != avx2),
			row.flopsPerNs <= 0 || row.bytesPerNs <= 0 || row.smallCall <= 0 || row.wakingCall < row.smallCall,
			row.watch <= 0 || row.watch > 100*time.Microsecond:
			t.Errorf("the row is not sound: %+v", row)
		}
	}
}

// Tiles of many rows need a large L1 cache on some CPUs; an unknown L2 cache counts as the least of all CPUs that have assembly.
func TestTuningFitsCaches(t *testing.T) {
	for _, c := range []struct {
		cpu      microarchitecture
		l1, l2   int
		rows, at int
	}{
		{intel, 32 << 10, 1 << 20, leastTileRows, 1 << 20},
		{intel, 48 << 10, 2 << 20, mostTileRows, 2 << 20},
		{intel, -1, -1, leastTileRows, 512 << 10},
		{zen4, 32 << 10, 1 << 20, mostTileRows, 1 << 20},
		{zen3, 48 << 10, 1, leastTileRows, 256 << 10},
	} {
		row := tune(c.cpu, avx2, c.l1, c.l2)
		if row.tileRows != c.rows || row.l2 != c.at {
			t.Errorf("%+v: %d rows and an L2 cache of %d bytes", c, row.tileRows, row.l2)
		}
	}
}
