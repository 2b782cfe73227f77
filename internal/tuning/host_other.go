//go:build !(amd64 || arm64) || purego

package tuning

// detect returns this machine's caches: without assembly, nothing else matters.
func detect() (cpu Microarchitecture, l1, l2 int, possible []ISA) {
	l1, l2 = caches()
	return AnyCPU, l1, l2, []ISA{Generic}
}

// hostDotProduct: no kernel here has an instruction for products of four bytes.
func hostDotProduct(ISA) string { return "" }
