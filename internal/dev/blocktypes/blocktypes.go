// Package blocktypes is the table of kernels of block types (internal/blocks): gen and asm emit
// them, and the Go code of internal/kernel/blockwise that chooses among them.
package blocktypes

import "github.com/seed-1415985d/attn/internal/blocks"

// Row names the kernels of a type. Types with the same layout share kernels.
type Row struct {
	Type    blocks.Type
	Unpack  AMD64  // for products of many rows; on arm64 Go code unpacks
	Few     AMD64  // products of few rows by blocks in memory order,
	Rounded AMD64  // the same in bfloat16, none for VNNI; "" for none
	FewDot  string // as Few on arm64 with dot products; "" for none
	Eight   bool   // AVX-512 has a tile of eight of few rows
}

// AMD64 names a kernel for each instruction set. If AVX-VNNI has none, AVX2's is called.
type AMD64 struct {
	AVX512 string // with VNNI
	AVX2   string
	VNNI   string // AVX-VNNI, with 8 lanes; "" for none
}

// Rows are in the order in which kernels are emitted.
var Rows = []Row{
	{blocks.Q8_0, AMD64{"unpackQ8AVX512", "unpackQ8SIMD", "unpackQ8VNNISIMD"},
		AMD64{"fewQ8VNNIAVX512", "fewQ8SIMD", "fewQ8VNNISIMD"},
		AMD64{"roundedPlainAVX512", "", ""}, "fewQ8Dot", true},
	{blocks.Q4_0, AMD64{"unpackNibblesF16AVX512", "unpackNibblesF16SIMD", ""},
		AMD64{"fewNibblesVNNIAVX512", "fewNibblesSIMD", "fewNibblesVNNISIMD"},
		AMD64{"roundedPlainAVX512", "", ""}, "fewNibblesDot", true},
	{blocks.IQ4_NL, AMD64{"unpackNibblesF16AVX512", "unpackNibblesF16SIMD", ""},
		AMD64{"fewNibblesVNNIAVX512", "fewLevelsSIMD", "fewNibblesVNNISIMD"},
		AMD64{"roundedPlainAVX512", "", ""}, "fewLevelsDot", true},
	{blocks.MXFP4, AMD64{"unpackNibblesBF16AVX512", "unpackNibblesBF16SIMD", ""},
		AMD64{"fewMXFPVNNIAVX512", "fewMXFPSIMD", ""},
		AMD64{"roundedPowerAVX512", "", ""}, "fewMXFPDot", true},
	{blocks.IQ4_XS, AMD64{"unpackXSAVX512", "unpackXSSIMD", ""},
		AMD64{"fewXSVNNIAVX512", "fewXSSIMD", ""},
		AMD64{"roundedScaledAVX512", "", ""}, "fewXSDot", true},
	{blocks.Q4_K, AMD64{"unpackQ4KAVX512", "unpackQ4KSIMD", ""},
		AMD64{"fewQ4KVNNIAVX512", "fewQ4KSIMD", "fewQ4KVNNISIMD"},
		AMD64{"roundedMinimaAVX512", "roundedMinimaSIMD", ""}, "fewQ4KDot", true},
	{blocks.Q5_K, AMD64{"unpackQ5KAVX512", "unpackQ5KSIMD", ""},
		AMD64{"fewQ5KVNNIAVX512", "fewQ5KSIMD", ""},
		AMD64{"roundedMinimaAVX512", "roundedMinimaSIMD", ""}, "fewQ5KDot", true},
	{blocks.Q6_K, AMD64{"unpackQ6KAVX512", "unpackQ6KSIMD", ""},
		AMD64{"fewQ6KVNNIAVX512", "fewQ6KSIMD", "fewQ6KVNNISIMD"},
		AMD64{"roundedHalvesAVX512", "roundedHalvesSIMD", ""}, "fewQ6KDot", true},
	{blocks.Q3_K, AMD64{"unpackQ3KAVX512", "unpackQ3KSIMD", ""},
		AMD64{"fewQ3KVNNIAVX512", "fewQ3KSIMD", ""},
		AMD64{"roundedHalvesAVX512", "roundedHalvesSIMD", ""}, "fewQ3KDot", false},
	{blocks.Q4_1, AMD64{"unpackQ41AVX512", "unpackQ41SIMD", ""},
		AMD64{"fewQ41VNNIAVX512", "fewQ41SIMD", ""},
		AMD64{"roundedOffsetAVX512", "", ""}, "fewQ41Dot", true},
	{blocks.Q5_0, AMD64{"unpackQ50AVX512", "unpackQ50SIMD", "unpackQ50VNNISIMD"},
		AMD64{"fewQ50VNNIAVX512", "fewQ50SIMD", ""},
		AMD64{"roundedPlainAVX512", "", ""}, "fewQ50Dot", true},
	{blocks.Q5_1, AMD64{"unpackQ51AVX512", "unpackQ51SIMD", ""},
		AMD64{"fewQ51VNNIAVX512", "fewQ51SIMD", ""},
		AMD64{"roundedOffsetAVX512", "", ""}, "fewQ51Dot", true},
	{blocks.Q2_K, AMD64{"unpackQ2KAVX512", "unpackQ2KSIMD", ""},
		AMD64{"fewQ2KVNNIAVX512", "fewQ2KSIMD", ""},
		AMD64{"roundedPairsAVX512", "", ""}, "", false},
	{blocks.NVFP4, AMD64{"unpackNVFPAVX512", "unpackNVFPSIMD", ""},
		AMD64{"fewNVFPVNNIAVX512", "fewNVFPSIMD", ""},
		AMD64{"roundedFloatsAVX512", "", ""}, "", false},
	{blocks.TQ1_0, AMD64{"unpackTQ1AVX512", "unpackTQ1SIMD", "unpackTQ1VNNISIMD"},
		AMD64{"fewTQ1VNNIAVX512", "fewTQ1SIMD", ""},
		AMD64{}, "", false},
	{blocks.TQ2_0, AMD64{"unpackTQ2AVX512", "unpackTQ2SIMD", "unpackTQ2VNNISIMD"},
		AMD64{"fewTQ2VNNIAVX512", "fewTQ2SIMD", ""},
		AMD64{"roundedPlainAVX512", "", ""}, "", false},
	{blocks.Q1_0, AMD64{"unpackQ10AVX512", "unpackQ10SIMD", "unpackQ10VNNISIMD"},
		AMD64{"fewQ10VNNIAVX512", "fewQ10SIMD", "fewQ10VNNISIMD"},
		AMD64{"roundedPlainAVX512", "", ""}, "", false},
	{blocks.Q2_0, AMD64{"unpackQ20AVX512", "unpackQ20SIMD", "unpackQ20VNNISIMD"},
		AMD64{"fewQ20VNNIAVX512", "fewQ20SIMD", "fewQ20VNNISIMD"},
		AMD64{"roundedPlainAVX512", "", ""}, "", false},
	{blocks.IQ2_XXS, AMD64{"unpackIQ2XXSAVX512", "unpackIQ2XXSSIMD", ""},
		AMD64{"fewIQ2XXSVNNIAVX512", "fewIQ2XXSSIMD", ""},
		AMD64{}, "", false},
	{blocks.IQ2_XS, AMD64{"unpackIQ2XSAVX512", "unpackIQ2XSSIMD", ""},
		AMD64{"fewIQ2XSVNNIAVX512", "fewIQ2XSSIMD", ""},
		AMD64{}, "", false},
	{blocks.IQ2_S, AMD64{"unpackIQ2SAVX512", "unpackIQ2SSIMD", ""},
		AMD64{"fewIQ2SVNNIAVX512", "fewIQ2SSIMD", ""},
		AMD64{}, "", false},
	{blocks.IQ3_XXS, AMD64{"unpackIQ3XXSAVX512", "unpackIQ3XXSSIMD", ""},
		AMD64{"fewIQ3XXSVNNIAVX512", "fewIQ3XXSSIMD", ""},
		AMD64{}, "", false},
	{blocks.IQ3_S, AMD64{"unpackIQ3SAVX512", "unpackIQ3SSIMD", ""},
		AMD64{"fewIQ3SVNNIAVX512", "fewIQ3SSIMD", ""},
		AMD64{}, "", false},
	{blocks.IQ1_S, AMD64{"unpackIQ1SAVX512", "unpackIQ1SSIMD", ""},
		AMD64{"fewIQ1SVNNIAVX512", "fewIQ1SSIMD", ""},
		AMD64{}, "", false},
	{blocks.IQ1_M, AMD64{"unpackIQ1MAVX512", "unpackIQ1MSIMD", ""},
		AMD64{"fewIQ1MVNNIAVX512", "fewIQ1MSIMD", ""},
		AMD64{}, "", false},
}

// TypeName returns the name of a type in Go code.
func TypeName(t blocks.Type) string { return "blocks." + t.String() }

// ScalingName returns the name of a scaling in Go code.
func ScalingName(s blocks.Scaling) string {
	return "blocks." + [...]string{blocks.One: "One", blocks.Offset: "Offset", blocks.Scaled: "Scaled",
		blocks.Minima: "Minima", blocks.Halves: "Halves", blocks.Pairs: "Pairs",
		blocks.Floats: "Floats", blocks.Single: "Single",
		blocks.Odd: "Odd"}[s]
}
