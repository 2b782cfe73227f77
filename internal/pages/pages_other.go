//go:build !linux

package pages

// Huge does nothing and reports so: other systems choose the size of pages by themselves, or want privileges for large ones.
func Huge(x []float32) bool { return false }
