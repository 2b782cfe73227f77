//go:build !linux

package guard

const canProtect = false

// protected is never called here.
func protected[T Elem](int) (*Buffer[T], error) { panic("guard: no protection on this system") }

// forbid is never called here.
func forbid[T Elem]([]T) (func(), error) { panic("guard: no protection on this system") }
