package limits

import "time"

// Integers are the instructions with which the limit of products of 8-bit integers is measured.
type Integers int

const (
	ScalarIntegers    Integers = iota // plain Go, see Scalar
	AVX2Integers                      // VPMADDUBSW and VPMADDWD of 32 bytes
	AVX512Integers                    // the same of 64 bytes
	VNNIIntegers                      // VPDPBUSD of 64 bytes
	AVX2SmallIntegers                 // VPMADDUBSW and VPADDW of 32 bytes, see SmallIntegersFor
	AVXVNNIIntegers                   // VPDPBUSD of 32 bytes
)

// IntegersFor returns the instructions of an implementation of package attn.
func IntegersFor(implementation string) Integers {
	switch For(implementation) {
	case AVX512:
		if hasVNNI {
			return VNNIIntegers
		}
		return AVX512Integers
	case AVX2:
		if hasAVXVNNI {
			return AVXVNNIIntegers
		}
		return AVX2Integers
	}
	return ScalarIntegers
}

// SmallIntegersFor is IntegersFor if one factor of each product is unsigned, of 4 to 6 bits, like
// many weights of GGUF files: with AVX2 alone several such products fit in 16 bits, and share a
// VPMADDWD.
func SmallIntegersFor(implementation string) Integers {
	if v := IntegersFor(implementation); v != AVX2Integers {
		return v
	}
	return AVX2SmallIntegers
}

// Products returns the number of products that an instruction adds to an accumulator.
func (v Integers) Products() int { return [...]int{1, 32, 64, 64, 32, 32}[v] }

// String describes how the limit was measured.
func (v Integers) String() string {
	return [...]string{"Go loops, not the hardware's limit", "VPMADDUBSW and VPMADDWD, AVX2",
		"VPMADDUBSW and VPMADDWD, AVX-512", "VPDPBUSD, AVX-512", "VPMADDUBSW and VPADDW, AVX2",
		"VPDPBUSD, AVX-VNNI"}[v]
}

// MultiplyIntegers multiplies 8-bit integers and adds the products on all threads at once, for some
// time, and returns operations per second, two for each product.
func MultiplyIntegers(v Integers, threads int, stretch time.Duration) float64 {
	return 2 * accumulators * fmaSteps * float64(v.Products()) * rounds(threads, stretch, func() {
		integers(v, fmaSteps)
	})
}
