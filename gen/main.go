// Command gen writes kernel_amd64.s, the AVX2 and AVX-512 kernels of package attn.
//
//	go run . -out ../kernel_amd64.s
//
// Every function here emits one kernel or one step of one; the mathematics is
// that of kernel_generic.go, which each kernel equals bit for bit.
package main

//go:generate go run . -out ../kernel_amd64.s

import (
	. "github.com/mmcloughlin/avo/build"
)

func main() {
	ConstraintExpr("!purego")
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
	Generate()
}
