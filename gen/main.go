// Command gen makes the x86-64 assembly of package attn, with AVX2 and AVX-512; asm makes the arm64
// one. See README.md.
//
// Every function here emits one kernel or one step of one. The mathematics is in
// generic code, which each kernel equals bit for bit.
package main

import (
	"flag"
	"os"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	passes "github.com/mmcloughlin/avo/pass"

	"github.com/seed-1415985d/attn/internal/dev/generate"
)

func main() {
	os.Exit(generate.Command("gen", os.Args[1:], map[string]generate.File{
		"kernel_amd64.s":     func() ([]byte, error) { return assembly(passKernels) },
		"floats_amd64.s":     func() ([]byte, error) { return assembly(floatKernels) },
		"narrow_amd64.s":     func() ([]byte, error) { return assembly(typedKernels) },
		"pairs_amd64.s":      func() ([]byte, error) { return assembly(pairKernels) },
		"pairtiles_amd64.s":  func() ([]byte, error) { return assembly(pairTilesKernels) },
		"tiles_amd64.s":      func() ([]byte, error) { return assembly(tilesKernels) },
		"integers_amd64.s":   func() ([]byte, error) { return assembly(int8Kernels) },
		"blockwise_amd64.s":  func() ([]byte, error) { return assembly(blockKernels) },
		"blocktiles_amd64.s": func() ([]byte, error) { return assembly(blockTilesKernels) },
		"int4_amd64.s":       func() ([]byte, error) { return assembly(int4Kernels) },
		"elements_amd64.s":   func() ([]byte, error) { return assembly(elementKernels) },
		"triangle_amd64.s":   func() ([]byte, error) { return assembly(triangleKernels) },
		"types_amd64.go":     blockTypesGo,
	}, os.Stderr))
}

// assembly returns the text of a file with the kernels that emit adds to Avo's one file for each
// process. It works in the repository's root.
func assembly(emit func()) ([]byte, error) {
	if err := readPackage("."); err != nil {
		return nil, err
	}
	ConstraintExpr("!purego")
	emit()
	var file *ir.File
	passes.Compile = passes.Concat(passes.Compile, passes.Func(func(f *ir.File) error {
		file = f
		return nil
	}))
	// Avo prints the file, too, in its own way.
	if err := flag.CommandLine.Parse([]string{"-out", os.DevNull}); err != nil {
		return nil, err
	}
	Generate() // ends the process if it fails
	return printed(file)
}

// twin is the Go function that a kernel works like: the generic one of its name, or one of twins.
func twin(kernel string) string {
	name := kernel
	for _, ending := range []string{"SIMD", "AVX512", "VNNI", "AMX"} {
		name = strings.TrimSuffix(name, ending)
	}
	if t, ok := twins[name]; ok {
		return t
	}
	for prefix, t := range twinsOfBlocks {
		if strings.HasPrefix(name, prefix) {
			return t
		}
	}
	return name + "Generic"
}

// twinsOfBlocks maps the first part of the name of a kernel over blocks to its twin.
var twinsOfBlocks = map[string]string{"few": "multiplyBlocksGeneric",
	"unpack": "unpackBlockGeneric", "decodePairs": "decodePairsGeneric",
	"rounded": "multiplyRoundedGeneric"}

var twins = map[string]string{
	"addGathered":       "addDistantGeneric",
	"setNearRows":       "addDistantGeneric",
	"addNearColumns":    "addDistantGeneric",
	"combineFour":       "combineGeneric",
	"accumulateF16":     "accumulateTypedGeneric",
	"accumulateBF16":    "accumulateTypedGeneric",
	"accumulateI8":      "accumulateTypedGeneric",
	"accumulateI4":      "accumulateTypedGeneric",
	"widenF16":          "widenGeneric",
	"widenBF16":         "widenGeneric",
	"widenI8":           "widenGeneric",
	"narrowF16":         "narrowGeneric",
	"narrowBF16":        "narrowGeneric",
	"accumulatePairs":   "accumulateGeneric",
	"accumulateHalves":  "accumulateGeneric",
	"accumulateFloats":  "accumulateGeneric",
	"roundPairs":        "roundGeneric",
	"mergeRows":         "mergeGeneric",
	"multiplyPairTiles": "accumulateGeneric",
	"multiplyInt8":      "accumulateInt8Generic",
	"multiplyTiles":     "accumulateInt8Generic",
	"accumulateTiles":   "accumulateInt8Generic",
	"scoreTiles":        "scoreInt8Generic",
	"quantizeRows":      "QuantizeToken",
	"quantizeRotated":   "QuantizeToken",
	"quantizeGroups":    "quantizeFourRows",
	"rotateRows":        "rotateGeneric",
	"sumBlocks":         "sumBlocksGeneric",
	"multiplyPlain":     "multiplyBlocksGeneric",
	"multiplyNibbles":   "multiplyBlocksGeneric",
	"multiplyLevels":    "multiplyBlocksGeneric",
	"multiplyBytes":     "multiplyBlocksGeneric",
	"multiplyQ4K":       "multiplyBlocksGeneric",
	"multiplyQ5K":       "multiplyBlocksGeneric",
	"multiplyQ6K":       "multiplyBlocksGeneric",
	"multiplyMinima":    "multiplyBlocksGeneric",
	"multiplyHalves":    "multiplyBlocksGeneric",
	"multiplyOffset":    "multiplyBlocksGeneric",
	"multiplyScaled":    "multiplyBlocksGeneric",
	"multiplyPairs":     "multiplyBlocksGeneric",
	"multiplyFloats":    "multiplyBlocksGeneric",
	"multiplySingle":    "multiplyBlocksGeneric",
	"multiplyOdd":       "multiplyBlocksGeneric",
	"transposeFloats":   "transposeGeneric",
	"transposeHalves":   "transposeGeneric",
	"silu":              "activateGeneric",
	"sigmoid":           "activateGeneric",
	"relu":              "activateGeneric",
	"reluSquared":       "activateGeneric",
	"tanh":              "activateGeneric",
	"expAll":            "activateGeneric",
	"gelu":              "activateGeneric",
	"geluTanh":          "activateGeneric",
	"softplus":          "activateGeneric",
}

// passKernels emits passes over slices.
func passKernels() {
	dotKernel()
	addProductsKernel()
	maxOfKernel()
	expKernel()
	expSumKernel("expSumSIMD", true)
	expSumKernel("sumExpSIMD", false)
}

// floatKernels emits the kernels over float32.
func floatKernels() {
	scoreKernel()
	scoreMaximaKernel()
	accumulateKernel()
	accumulateMaskedKernel()
	scoreAVX512Kernel()
	accumulateAVX512Kernel()
	scoreRowsKernel()
	softmaxKernels()
	packKeysKernel()
	packValuesKernel()
	scaleKernel()
	normalizeKernel()
	normalizeAVX512Kernel()
	mergeKernel()
	mergeRowsAVX512Kernel()
	mergeSumsKernel()
	softcapKernel()
	alibiKernel()
	addBiasKernel()
	addGatheredKernel()
	setNearRowsKernel()
	addNearColumnsKernel()
	maskBiasKernel()
	maskKeysKernel()
	weightsKernel()
	allFiniteKernel()
	columnsKernels()
	softmaxScaledKernel()
	transposeFloatsKernel()
	transposeFloatsAVX512Kernel()
	transposeHalvesKernel()
	transposeGroupsKernel()
}
