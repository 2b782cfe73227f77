//go:build !purego && linux

package tuning

import (
	"testing"

	"github.com/klauspost/cpuid/v2"
)

// Two libraries report the same of this CPU.
func TestHostDotProduct(t *testing.T) {
	if got, want := hostDotProduct(NEON) != "", cpuid.CPU.Supports(cpuid.ASIMDDP); got != want {
		t.Errorf("FEAT_DotProd is %v, want %v", got, want)
	}
}
