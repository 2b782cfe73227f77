package attn

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/tuning"
)

// A machine that lacks an implementation that the run was made for must not
// pass for one that has tested it.
func TestRequiredImplementations(t *testing.T) {
	required := os.Getenv("ATTN_TEST_REQUIRE")
	if required == "" {
		required = tuning.Generic.String()
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
	if got, want := Implementation(), tuned.ISA.String(); got != want {
		t.Errorf("Implementation() = %q, want %q", got, want)
	}
	if forced := os.Getenv("ATTN_ISA"); forced != "" && Implementation() != forced {
		t.Errorf("Implementation() = %q, want %q as ATTN_ISA says", Implementation(), forced)
	}
}
