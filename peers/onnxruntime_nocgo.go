//go:build !cgo

package main

func openONNXRuntime() (library, error) {
	return nil, lacking("this program was built without cgo; with a C compiler, and CGO_ENABLED " +
		"not 0, it has a binding")
}
