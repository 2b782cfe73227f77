//go:build !(amd64 || arm64) || purego

package attn

// Without assembly the generic kernels are the only ones: the dispatchers never call these.

func dot(a, b []float32) float32 { return dotGeneric(a, b) }

func addProducts(lane *[64]float32, a, b []float32) { addProductsGeneric(lane, a, b) }

func maxOf(x []float32) float32 { return maxOfGeneric(x) }

func exp(dst, x []float32) { expGeneric(dst, x) }

func expSum(dst, x []float32, top float32) float32 { return expSumGeneric(dst, x, top) }

func sumExp(x []float32, top float32) float32 { return sumExpGeneric(x, top) }
