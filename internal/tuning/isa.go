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

// What an implementation has is asked here and nowhere else.

// SIMD reports whether the kernels are assembly: all of the generic ones that this is faster for,
// those over fewer bits included.
func (i ISA) SIMD() bool { return i != Generic }

// Lanes16 reports whether there are kernels with 16 lanes beside those with fewer.
func (i ISA) Lanes16() bool { return i == AVX512 }

// Maxima reports whether there are kernels that find the maxima of scores, and take them.
func (i ISA) Maxima() bool { return i == AVX2 || i == AVX512 }

// DotProduct reports whether there are kernels that add products of four bytes in one instruction.
func (i ISA) DotProduct() bool { return i != Generic }

// Integers reports whether there are all kernels in integers.
func (i ISA) Integers() bool { return i == AVX2 || i == AVX512 }

// choose returns the implementation to use: the possible ones are what this CPU can run, best
// first. A name overrides that; to ask for what is not there is a mistake that must not pass for a
// slow machine.
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
