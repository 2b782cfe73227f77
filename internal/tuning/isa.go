package tuning

import "fmt"

// ISA names an implementation of the kernels.
type ISA int

const (
	Generic ISA = iota
	AVX2
	AVX512
	NEON
)

func (i ISA) String() string {
	if i < Generic || i > NEON {
		return fmt.Sprintf("ISA(%d)", int(i))
	}
	return [...]string{"generic", "avx2", "avx512", "neon"}[i]
}

// Only these methods say what an implementation has.

// SIMD reports whether kernels are assembly wherever that is faster than generic code, including
// kernels over elements of fewer bits.
func (i ISA) SIMD() bool { return i != Generic }

// Lanes16 reports whether kernels with 16 lanes exist in addition to those with 8.
func (i ISA) Lanes16() bool { return i == AVX512 }

// Maxima reports whether kernels exist that find the maxima of scores, and that are given them.
func (i ISA) Maxima() bool { return i == AVX2 || i == AVX512 }

// DotProduct reports whether kernels exist that add products of four bytes in one instruction.
func (i ISA) DotProduct() bool { return i != Generic }

// Integers reports whether all kernels exist in integers.
func (i ISA) Integers() bool { return i == AVX2 || i == AVX512 }

// choose returns the implementation to use: the best of the possible ones, which this CPU can run,
// or the named one. A name that is not available panics, so that nobody mistakes it for a slow
// machine.
func choose(name string, possible ...ISA) ISA {
	if name == "" {
		return possible[0]
	}
	for _, i := range possible {
		if i.String() == name {
			return i
		}
	}
	panic(fmt.Sprintf("attn: ATTN_ISA=%s is not available here, want one of %v", name, possible))
}
