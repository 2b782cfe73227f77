package attn

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// chosen is the implementation that init chose, before any test changed it.
var chosen = active

// implementations lists what this machine can run: what was chosen and
// everything below it.
func implementations() []isa {
	switch chosen {
	case generic:
		return []isa{generic}
	case avx512:
		return []isa{avx512, avx2, generic}
	}
	return []isa{chosen, generic}
}

// use makes an implementation the active one until the test ends.
func use(t testing.TB, i isa) {
	before := active
	active = i
	t.Cleanup(func() { active = before })
}

// forEach runs a subtest for each implementation of this machine.
func forEach(t *testing.T, test func(t *testing.T)) {
	for _, i := range implementations() {
		t.Run(i.String(), func(t *testing.T) {
			use(t, i)
			use16Lanes(t)
			test(t)
		})
	}
}

// budget is the number of cases that a test tries: fewer with -short, which is
// how the tests run on emulated machines, and fewer where generic code is only
// compared with itself.
func budget(n int) int {
	if testing.Short() {
		n /= 10
	}
	if active == generic {
		n /= 4
	}
	return max(n, 1)
}

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
	if got, want := Implementation(), active.String(); got != want {
		t.Errorf("Implementation() = %q, want %q", got, want)
	}
	if forced := os.Getenv("ATTN_ISA"); forced != "" && Implementation() != forced {
		t.Errorf("Implementation() = %q, want %q as ATTN_ISA says", Implementation(), forced)
	}
}

// TestForcedImplementation checks what ATTN_ISA does to the choice.
func TestForcedImplementation(t *testing.T) {
	t.Setenv("ATTN_ISA", "")
	if got := choose(avx2, generic); got != avx2 {
		t.Errorf("choose(avx2, generic) = %v, want the first", got)
	}
	t.Setenv("ATTN_ISA", "generic")
	if got := choose(avx2, generic); got != generic {
		t.Errorf("ATTN_ISA=generic: choose(avx2, generic) = %v, want generic", got)
	}
	t.Setenv("ATTN_ISA", "avx2")
	if got := choose(avx512, avx2, generic); got != avx2 {
		t.Errorf("ATTN_ISA=avx2: choose(avx512, avx2, generic) = %v, want avx2", got)
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
			choose(avx2, generic)
		})
	}
}
