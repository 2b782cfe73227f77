package measure

import "github.com/seed-1415985d/attn/internal/limits"

// Bound says what limits the speed of a call.
type Bound int

const (
	Floats        Bound = iota // multiply-adds of float32
	Integers                   // multiply-adds of 8-bit integers
	SmallIntegers              // multiply-adds where one factor is unsigned, of 4 to 6 bits
	Memory                     // reading
)

// unit is the unit of rates, and name the name of the bound in results.
func (b Bound) unit() string {
	return [...]string{"GFLOP/s", "GOP/s", "GOP/s", "GB/s"}[b]
}

func (b Bound) name() string { return [...]string{"FMA", "INT8", "INT4", "DRAM"}[b] }

// Peaks measures the peaks of this machine at the moment.
type Peaks struct {
	vectors         limits.Vectors
	integers, small limits.Integers
	bytes           int
	memory          map[pages]*limits.Memory
}

// pages is a kind of buffers: the number of threads that read them, and whether they are in huge
// pages, if there are any.
type pages struct {
	threads int
	huge    bool
}

// NewPeaks returns the peaks of an implementation's instructions, and of reading some bytes.
func NewPeaks(implementation string, bytes int) *Peaks {
	return &Peaks{vectors: limits.For(implementation), integers: limits.IntegersFor(implementation),
		small: limits.SmallIntegersFor(implementation), bytes: bytes,
		memory: map[pages]*limits.Memory{}}
}

// Burst returns operations per second in a short burst, all threads together; the bound is not
// Memory.
func (p *Peaks) Burst(b Bound, threads int) float64 {
	switch b {
	case Integers:
		return limits.MultiplyIntegers(p.integers, threads, limits.Burst)
	case SmallIntegers:
		return limits.MultiplyIntegers(p.small, threads, limits.Burst)
	}
	return limits.FMA(p.vectors, threads, limits.Burst)
}

// Memory returns a buffer for each thread: pieces of a large one.
func (p *Peaks) Memory(threads int, huge bool) *limits.Memory {
	all, one := pages{threads, huge}, pages{1, huge}
	if p.memory[one] == nil && huge {
		p.memory[one] = limits.NewMemoryInHugePages(p.vectors, 1, p.bytes)
		if p.memory[one] == nil {
			p.memory[one] = p.Memory(1, false)
		}
	}
	if p.memory[one] == nil {
		p.memory[one] = limits.NewMemory(p.vectors, 1, p.bytes)
	}
	if p.memory[all] == nil {
		p.memory[all] = p.memory[one].Split(threads)
	}
	return p.memory[all]
}
