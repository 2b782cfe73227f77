// Command asm generates the arm64 assembly of package attn, for NEON; gen generates the x86-64
// assembly. See README.md.
//
// Each function below emits one kernel or one step of one. Every kernel equals its generic Go code
// (kernel_generic.go, internal/kernel/*/generic.go) bit for bit.
package main

import (
	"os"
	"path/filepath"

	"github.com/seed-1415985d/attn/internal/dev/constants"
	"github.com/seed-1415985d/attn/internal/dev/generate"
)

func main() {
	files := map[string]generate.File{"types_arm64.go": blockTypesGo}
	for path, emit := range families {
		files[filepath.Base(path)] = func() ([]byte, error) {
			p, err := assembly(".", emit)
			if err != nil {
				return nil, err
			}
			return p.file(), nil
		}
	}
	os.Exit(generate.Command("asm", os.Args[1:], files, os.Stderr))
}

// families maps files, by their path from the repository's root, to the functions that emit their
// kernels.
var families = map[string]func(p *program){
	"kernel_arm64.s":                              (*program).slicePasses,
	"internal/kernel/floats/floats_arm64.s":       (*program).floats,
	"internal/kernel/narrow/narrow_arm64.s":       (*program).narrow,
	"internal/kernel/integers/integers_arm64.s":   (*program).integers,
	"internal/kernel/int4/int4_arm64.s":           (*program).int4,
	"internal/kernel/elements/elements_arm64.s":   (*program).elementKernels,
	"internal/kernel/pairs/pairs_arm64.s":         (*program).pairKernels,
	"internal/kernel/triangle/triangle_arm64.s":   (*program).triangleKernels,
	"internal/kernel/blockwise/blockwise_arm64.s": (*program).blockKernels,
}

// assembly is the program of a file for the repository in a folder.
func assembly(folder string, emit func(p *program)) (*program, error) {
	values, err := constants.Read(filepath.Join(folder, "internal/f32/elementary.go"),
		filepath.Join(folder, "internal/f32/gelu.go"))
	if err != nil {
		return nil, err
	}
	offsets, err := constants.KernelOffsets(folder)
	if err != nil {
		return nil, err
	}
	p := newProgram(values, offsets)
	emit(p)
	p.constantTable()
	return p, nil
}

// floats are the kernels over float32.
func (p *program) floats() {
	p.score()
	p.accumulate()
	p.accumulateMasked()
	p.scoreRows()
	p.softmax()
	p.softmaxMasked()
	p.packKeys()
	p.packValues()
	p.scale()
	p.merge()
	p.mergeSums()
	p.softcap()
	p.alibi()
	p.addBias()
	p.maskBias()
	p.maskBits()
	p.weights()
	p.allFinite()
	p.columns()
}

// slicePasses are passes over slices.
func (p *program) slicePasses() {
	p.dot()
	p.addProducts()
	p.maxOf()
	p.exp()
	p.expSum()
	p.sumExp()
}

// narrow are the kernels over fewer bits.
func (p *program) narrow() {
	p.accumulateTyped("accumulateF16SIMD", elementF16)
	p.accumulateTyped("accumulateBF16SIMD", elementBF16)
	p.accumulateTyped("accumulateI8SIMD", elementI8)
	p.widen("widenF16SIMD", elementF16)
	p.widen("widenBF16SIMD", elementBF16)
	p.widenI8()
	p.narrowF16()
	p.narrowBF16()
}

// integers are the kernels in integers.
func (p *program) integers() {
	p.largest()
	p.quantize()
	p.rotate()
	p.int8Kernels()
	p.accumulateInt8()
	p.weightsInt8()
}

// int4 are the kernels of codes of four bits.
func (p *program) int4() {
	p.encode()
	p.lookUp()
	p.int4Kernels()
}
