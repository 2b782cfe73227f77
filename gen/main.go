// Command gen writes kernel_amd64.s, the AVX2 and AVX-512 kernels of package attn, and kernel_typed_amd64.s, those
// over fewer bits.
//
//	go run . -out ../kernel_amd64.s
//	go run . -typed -out ../kernel_typed_amd64.s
//
// Every function here emits one kernel or one step of one; the mathematics is
// that of kernel_generic.go, which each kernel equals bit for bit.
package main

//go:generate go run . -out ../kernel_amd64.s
//go:generate go run . -typed -out ../kernel_typed_amd64.s

import (
	"flag"

	. "github.com/mmcloughlin/avo/build"
)

func main() {
	typed := flag.Bool("typed", false, "write the kernels over fewer bits instead")
	flag.Parse()
	ConstraintExpr("!purego")
	if *typed {
		typedKernels()
	} else {
		ordinaryKernels()
	}
	Generate()
}

// ordinaryKernels emits those over float32.
func ordinaryKernels() {
	scoreKernel()
	scoreMaximaKernel()
	accumulateKernel()
	accumulateMaskedKernel()
	scoreAVX512Kernel()
	accumulateAVX512Kernel()
	scoreRowsKernel()
	softmaxKernel("softmaxSIMD", false, false)
	softmaxKernel("softmaxMaskedSIMD", true, false)
	softmaxMaximaKernel()
	softmaxKernel("softmaxAVX512", false, true)
	softmaxKernel("softmaxMaskedAVX512", true, true)
	softmaxValuesKernel()
	packKeysKernel()
	packValuesKernel()
	scaleKernel()
	normalizeKernel()
	mergeKernel()
	mergeSumsKernel()
	softcapKernel()
	alibiKernel()
	addBiasKernel()
	maskKeysKernel()
	weightsKernel()
	allFiniteKernel()
	dotKernel()
	addProductsKernel()
	maxOfKernel()
	expKernel()
	expSumKernel("expSumSIMD", true)
	expSumKernel("sumExpSIMD", false)
}
