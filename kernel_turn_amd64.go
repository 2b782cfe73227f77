//go:build !purego

package attn

// turnsTyped reports whether there are kernels of turnHalves and turnGroups.
func turnsTyped() bool { return tuned.ISA.SIMD() }

// turnFloatsStep turns whole panels of channels. It works like turnGeneric, for so many squares of
// 16 keys, which are stride apart.
func turnFloatsStep(dst, k *float32, stride, squares, panels int) {
	if tuned.ISA.Lanes16() {
		turnFloatsAVX512(dst, k, stride, squares, panels)
		return
	}
	turnFloatsSIMD(dst, k, stride, squares, panels)
}

// turnFloatsAVX512 is turnFloatsStep with registers of 16 keys.
//
//go:noescape
func turnFloatsAVX512(dst, k *float32, stride, squares, panels int)

// turnFloatsSIMD is turnFloatsStep with registers of 8 channels.
//
//go:noescape
func turnFloatsSIMD(dst, k *float32, stride, squares, panels int)

// turnHalvesSIMD is turnFloatsSIMD for elements of 16 bits.
//
//go:noescape
func turnHalvesSIMD(dst, k *uint16, stride, squares, panels int)

// turnGroupsSIMD turns whole groups of channels of 16 keys. It works like turnGroupsGeneric, with
// groups of keys stride apart.
//
//go:noescape
func turnGroupsSIMD(dst, k *byte, stride, groups int)
