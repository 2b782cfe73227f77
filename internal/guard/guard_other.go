//go:build !linux

package guard

const canProtect = false

// protected is never called here.
func protected[T Elem](int) (*Buffer[T], error) { panic("guard: no protection on this system") }
