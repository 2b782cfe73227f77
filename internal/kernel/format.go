package kernel

// Format is a number format of elements; its values are those of the public one.
type Format int

const (
	F32 Format = iota
	F16
	BF16
	I8
	I4
)

var (
	formatBits  = [...]int{F32: 32, F16: 16, BF16: 16, I8: 8, I4: 4}
	formatBytes = [...]int{F32: 4, F16: 2, BF16: 2, I8: 1, I4: 1}
)

// Bits is the size of an element in memory.
func (f Format) Bits() int { return formatBits[f] }

// Bytes is its size as kernels read it: levels of I4 become integers of I8.
func (f Format) Bytes() int { return formatBytes[f] }

// Scaled reports whether elements are integers with a scale for each token and head.
func (f Format) Scaled() bool { return f == I8 || f == I4 }
