//go:build !purego

package tuning

import (
	"fmt"

	"github.com/klauspost/cpuid/v2"
	"golang.org/x/sys/unix"
)

// emulatedTiles is set by go test -ldflags=-X in tests that run below .ci/tools/amx, which emulates
// the instructions of AMX on a CPU that has all others.
var emulatedTiles string

// requestTiles asks Linux for the registers of AMX, once for all threads of the process. Linux
// refuses if the alternative signal stack of a thread is too small to save them: they have 8 KiB.
func requestTiles() Tiles {
	const (
		requestPermission = 0x1023 // ARCH_REQ_XCOMP_PERM
		tileData          = 18     // XFEATURE_XTILEDATA
	)
	others := cpuid.CPU.Supports(cpuid.AVX512VBMI, cpuid.AVX512VNNI)
	if emulatedTiles != "" {
		return Tiles{Use: others, BFloat16: others, Why: "AMX is emulated"}
	}
	if !others || !cpuid.CPU.Supports(cpuid.AMXTILE, cpuid.AMXINT8) {
		return Tiles{Why: "this CPU has no AMX-INT8"}
	}
	if _, _, err := unix.Syscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0); err != 0 {
		return Tiles{Why: fmt.Sprintf("the system refuses its registers: %v", err)}
	}
	if cpuid.CPU.Supports(cpuid.AMXBF16) {
		return Tiles{Use: true, BFloat16: true, Why: "this CPU has AMX-INT8 and AMX-BF16"}
	}
	return Tiles{Use: true, Why: "this CPU has AMX-INT8"}
}
