// Package limits measures what this machine's cores can do at best: fused multiply-adds per second,
// and bytes read per second from each level of the memory. It is for tools that compare attn with
// these limits, such as cmd/attn.
package limits

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/cpuid/v2"

	"github.com/seed-1415985d/attn/internal/memory"
)

// Vectors are the instructions with which a limit is measured.
type Vectors int

const (
	Scalar Vectors = iota // plain Go: no limit of the hardware, only a comparison
	AVX2                  // 8 floats
	AVX512                // 16 floats
)

// Lanes is the number of floats of a vector.
func (v Vectors) Lanes() int { return [...]int{1, 8, 16}[v] }

// For returns the vectors of an implementation of package attn.
func For(implementation string) Vectors {
	switch {
	case implementation == "avx512" && has512:
		return AVX512
	case implementation != "neon" && has256: // generic too: the limit is the machine's
		return AVX2
	}
	return Scalar
}

// String describes how the limit was measured.
func (v Vectors) String() string {
	return [...]string{"Go loops, not the hardware's limit", "AVX2 loops", "AVX-512 loops"}[v]
}

const (
	accumulators = 12    // independent chains: latency 4 × 2 units, and some more
	fmaSteps     = 16384 // of one call, 40 µs: assembly cannot be preempted
	chainSteps   = 1 << 16
)

// Burst is short enough to fall between two disturbances of a shared machine.
const Burst = 400 * time.Microsecond

// Cycles runs a chain of additions and exclusive ors on all threads at once, for some time. Each
// operation needs the result before it and so a cycle, whatever else the core does. It returns
// operations per second: the clock.
func Cycles(threads int, stretch time.Duration) float64 {
	return chainSteps * rounds(threads, stretch, func() { sink.Store(uint32(chain(chainSteps))) })
}

// FMA runs multiply-adds on all threads at once, for some time, and returns floating-point
// operations per second, two for each multiply-add.
func FMA(v Vectors, threads int, stretch time.Duration) float64 {
	return multiplyAdds(fma, v, threads, stretch)
}

// FMAWithLoads is FMA with two loads from the L1 cache for every three multiply-adds, as in a
// matrix product. It is as fast on a quiet core, and slower if another program uses the core's
// other thread. For scalar loops it is FMA.
func FMAWithLoads(v Vectors, threads int, stretch time.Duration) float64 {
	return multiplyAdds(fmaLoads, v, threads, stretch)
}

func multiplyAdds(loop func(Vectors, int), v Vectors, threads int, stretch time.Duration) float64 {
	return 2 * accumulators * fmaSteps * float64(v.Lanes()) * rounds(threads, stretch, func() {
		loop(v, fmaSteps)
	})
}

// rounds calls f on all threads at once, for some time, and returns calls per second.
func rounds(threads int, stretch time.Duration, f func()) float64 {
	var n atomic.Int64
	took := parallel(threads, func(int) {
		for start := Now(); ; {
			f()
			n.Add(1)
			if Now()-start >= stretch {
				return
			}
		}
	})
	return float64(n.Load()) / took.Seconds()
}

// Memory is buffers, one for each thread, for reads from one level of the memory hierarchy.
type Memory struct {
	vectors  Vectors
	buffers  [][]float32
	mappings []*memory.Mapping // the memory of buffers, if not on the heap
	rounds   int
}

// Sizes of a step of the reading loops, in floats.
const (
	chunk      = 128 // in order
	streams    = 8   // or from this number of places
	streamStep = 32  // so much of each
	granule    = streams * chunk
)

// NewMemory returns buffers of bytes bytes in total for reads by threads threads.
func NewMemory(v Vectors, threads, bytes int) *Memory {
	m := &Memory{vectors: v, rounds: max(1, (1<<21)/bytes)}
	for range threads {
		m.add(make([]float32, bufferOf(threads, bytes)))
	}
	return m
}

// NewMemoryInHugePages is NewMemory in pages like those of a cache, or nil if the system grants
// none.
func NewMemoryInHugePages(v Vectors, threads, bytes int) *Memory {
	m := &Memory{vectors: v, rounds: max(1, (1<<21)/bytes)}
	for range threads {
		mapping, err := memory.Allocate(4 * bufferOf(threads, bytes))
		if err != nil || !mapping.Huge() {
			return nil
		}
		m.mappings = append(m.mappings, mapping)
		m.add(mapping.Floats())
	}
	return m
}

// bufferOf returns the number of floats of one buffer.
func bufferOf(threads, bytes int) int { return bytes / threads / 4 / granule * granule }

// add appends a buffer, written to so that it has memory.
func (m *Memory) add(b []float32) {
	for i := range b {
		b[i] = 1
	}
	m.buffers = append(m.buffers, b)
}

// Split returns the same memory for a number of threads, a piece of the first buffer for each.
func (m *Memory) Split(threads int) *Memory {
	pieces := &Memory{vectors: m.vectors, mappings: m.mappings, rounds: m.rounds}
	n := len(m.buffers[0]) / threads / granule * granule
	for t := range threads {
		pieces.buffers = append(pieces.buffers, m.buffers[0][t*n:(t+1)*n])
	}
	return pieces
}

// Read reads all buffers in order, several times if they are small, and returns bytes per second.
func (m *Memory) Read() float64 { return m.read(read) }

// ReadStreams is Read from 8 places of each buffer at once.
func (m *Memory) ReadStreams() float64 { return m.read(readStreams) }

// ReadCold reads memory that no cache holds: two thirds of the buffers in order, and then about
// that many bytes, at most the last third, from 8 places. It returns the faster of both.
func (m *Memory) ReadCold(bytes int) float64 {
	others, part := m.cold(bytes)
	return max(others.Read(), part.ReadStreams())
}

// cold divides the buffers: reading the first part evicts the other part from the caches, which
// would keep some of it if they had seen it twice in a short time.
func (m *Memory) cold(bytes int) (others, part *Memory) {
	others = &Memory{vectors: m.vectors, mappings: m.mappings, rounds: 1}
	part = &Memory{vectors: m.vectors, mappings: m.mappings, rounds: 1}
	granules := max(1, bytes/4/len(m.buffers)/granule)
	for _, b := range m.buffers {
		first := len(b) / 3 * 2 / granule * granule
		others.buffers = append(others.buffers, b[:first])
		part.buffers = append(part.buffers, b[first:min(len(b), first+granules*granule)])
	}
	return others, part
}

func (m *Memory) read(loop func(Vectors, []float32)) float64 {
	bytes := 4 * len(m.buffers) * len(m.buffers[0]) * m.rounds
	took := parallel(len(m.buffers), func(t int) {
		for range m.rounds {
			loop(m.vectors, m.buffers[t])
		}
	})
	runtime.KeepAlive(m) // and with it mappings, until the last byte is read
	return float64(bytes) / took.Seconds()
}

// parallel runs f on threads goroutines and returns the time from the first one's start to the last
// one's end. They start together, because waking one takes longer than some measurements.
func parallel(threads int, f func(thread int)) time.Duration {
	starts, ends := make([]time.Duration, threads), make([]time.Duration, threads)
	var ready atomic.Int32
	var done sync.WaitGroup
	for t := range threads {
		done.Go(func() {
			for ready.Add(1); int(ready.Load()) < threads; {
				// Yielding here could move the work of both threads to one processor.
			}
			starts[t] = Now()
			f(t)
			ends[t] = Now()
		})
	}
	done.Wait()
	return slices.Max(ends) - slices.Min(starts)
}

// Level is a part of the memory hierarchy and a size of buffer that lives in it.
type Level struct {
	Name  string
	Bytes int
}

// Levels returns the levels of this machine. Sizes are half of a cache, so that the rest of the
// program does not evict the buffer; sizes that cpuid does not report are typical ones.
func Levels() []Level {
	c := cpuid.CPU.Cache
	return []Level{
		{"L1", known(c.L1D, 32<<10) / 2},
		{"L2", known(c.L2, 512<<10) / 2},
		{"L3", min(known(c.L3, 16<<20)/2, 8<<20)},
		{"DRAM", DRAM()},
	}
}

// DRAM is the size of a buffer of which a cache holds little.
func DRAM() int { return min(max(256<<20, 8*cpuid.CPU.Cache.L3), 1<<30) }

// Cold is the size of buffers for ReadCold: it reads as much as DRAM before a part.
func Cold() int { return DRAM() / 2 * 3 }

func known(size, typical int) int {
	if size <= 0 {
		return typical
	}
	return size
}
