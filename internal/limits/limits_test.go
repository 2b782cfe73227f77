package limits

import (
	"slices"
	"testing"
	"time"
)

// kinds are the vectors that this machine has.
func kinds() []Vectors {
	k := []Vectors{Scalar}
	if has256 {
		k = append(k, AVX2)
	}
	if has512 {
		k = append(k, AVX512)
	}
	return k
}

// Measurements are positive, even on an emulator, and within what any machine of the next years can
// do.
func TestFMA(t *testing.T) {
	for _, v := range kinds() {
		best := 0.0
		for range 3 {
			best = max(best, FMA(v, 1, Burst))
		}
		if best <= 0 || best > 1e12 {
			t.Errorf("%v: %g operations per second", v, best)
		}
		if both := FMA(v, 2, Burst); both <= 0 {
			t.Errorf("%v: %g on two threads", v, both)
		}
		// On a core that others use it may be slower by any factor.
		if loads := FMAWithLoads(v, 1, Burst); loads <= 0 || loads > 1e12 {
			t.Errorf("%v: %g operations per second with loads", v, loads)
		}
	}
}

// Products of integers are positive in number, and VNNI makes more than Go code.
func TestMultiplyIntegers(t *testing.T) {
	have := []Integers{ScalarIntegers}
	if has256 {
		have = append(have, AVX2Integers, AVX2SmallIntegers)
	}
	wide, small := AVX2Integers, AVX2SmallIntegers
	if hasAVXVNNI {
		wide, small = AVXVNNIIntegers, AVXVNNIIntegers
		have = append(have, wide)
	}
	if has512 {
		have = append(have, AVX512Integers)
	}
	if hasVNNI {
		have = append(have, VNNIIntegers)
	}
	for _, v := range have {
		for threads := range 2 {
			if got := MultiplyIntegers(v, threads+1, Burst); got <= 0 || got > 1e14 {
				t.Errorf("%v: %g operations per second on %d threads", v, got, threads+1)
			}
		}
	}
	if got := IntegersFor("generic"); has256 && got != wide {
		t.Errorf("for generic: %v, want %v, the machine's limit", got, wide)
	}
	if got := SmallIntegersFor("generic"); has256 && got != small {
		t.Errorf("small integers for generic: %v, want %v", got, small)
	}
	if got, want := SmallIntegersFor("avx512"), IntegersFor("avx512"); has512 && got != want {
		t.Errorf("small integers for avx512: %v, want %v", got, want)
	}
}

// Products of small integers are more than others: without a multiplication of words for each.
func TestSmallIntegersAreFaster(t *testing.T) {
	if !has256 {
		return // nothing to compare
	}
	small, any := 0.0, 0.0
	for n := 0; n < 5 || n < 200 && small < 1.1*any; n++ { // somebody else may use the core
		small = max(small, MultiplyIntegers(AVX2SmallIntegers, 1, Burst))
		any = max(any, MultiplyIntegers(AVX2Integers, 1, Burst))
	}
	if small < 1.1*any {
		t.Errorf("%g operations per second of small integers, %g of others", small, any)
	}
}

// No operation of the chain is left out.
func TestCycles(t *testing.T) {
	for steps, want := range map[int]uint64{0: 0, 16: 101, 32: 26917, 160: 8984294279564571685} {
		if got := chain(steps); got != want {
			t.Errorf("%d steps: %d, want %d", steps, got, want)
		}
	}
	for _, threads := range []int{1, 2} {
		if got := Cycles(threads, Burst); got <= 0 || got > 1e11 {
			t.Errorf("%g cycles per second on %d threads", got, threads)
		}
	}
}

// A stretch lasts as long as asked for, and a bit.
func TestFMALasts(t *testing.T) {
	const stretch = 5 * time.Millisecond
	for _, v := range kinds() {
		start := time.Now()
		FMA(v, 1, stretch)
		if took := time.Since(start); took < stretch {
			t.Errorf("%v: %v, want at least %v", v, took, stretch)
		}
	}
}

// Vectors must be faster than one float at a time: else the loop measures something else.
func TestVectorsAreFaster(t *testing.T) {
	if !has256 {
		return // nothing to compare
	}
	scalar, vector := 0.0, 0.0
	for n := 0; n < 5 || n < 200 && vector < 2*scalar; n++ { // somebody else may use the core
		scalar, vector = max(scalar, FMA(Scalar, 1, Burst)), max(vector, FMA(AVX2, 1, Burst))
	}
	if vector < 2*scalar {
		t.Errorf("AVX2 %g, scalar %g operations per second", vector, scalar)
	}
}

func TestRead(t *testing.T) {
	for _, v := range kinds() {
		for _, l := range Levels()[:2] {
			m := NewMemory(v, 1, l.Bytes)
			if got := m.Read(); got <= 0 || got > 1e13 {
				t.Errorf("%v: %g bytes per second from %s", v, got, l.Name)
			}
		}
		m := NewMemory(v, 2, 1<<20)
		if inOrder, streams, part := m.Read(), m.ReadStreams(), m.ReadCold(1<<18); inOrder <= 0 ||
			streams <= 0 || part <= 0 {
			t.Errorf("%v: %g, %g and %g bytes per second on two threads", v, inOrder, streams, part)
		}
	}
}

// Where there are huge pages on request, buffers that have room for one are in such.
func TestHugePages(t *testing.T) {
	if NewMemoryInHugePages(Scalar, 1, 1<<20) != nil {
		t.Error("a buffer of 1 MiB is in huge pages")
	}
	if m := NewMemoryInHugePages(Scalar, 1, 16<<20); m != nil && m.Read() <= 0 {
		t.Error("nothing is read")
	}
}

// Nothing that is read before a part is of it, on any thread, nor does it lie beyond its buffer.
func TestCold(t *testing.T) {
	const third = 4 * 4 * granule // bytes of one thread
	for _, threads := range []int{1, 2} {
		for bytes, want := range map[int]int{1: 1, third * threads / 2: 2, 9 * third * threads: 4} {
			m := NewMemory(Scalar, 1, 3*third*threads).Split(threads)
			others, part := m.cold(bytes)
			for i, b := range m.buffers {
				clear(b)
				for _, read := range [][]float32{others.buffers[i], part.buffers[i]} {
					for j := range read {
						read[j]++
					}
				}
				if slices.Max(b) > 1 || len(others.buffers[i]) != 8*granule ||
					len(part.buffers[i]) != want*granule {
					t.Errorf("%d bytes on %d threads: a part of %d after %d, elements up to %g times", bytes,
						threads, len(part.buffers[i]), len(others.buffers[i]), slices.Max(b))
				}
			}
		}
	}
}

// Each thread reads a piece of its own, and together they read as much as there are whole granules
// for all.
func TestSplit(t *testing.T) {
	m := NewMemory(Scalar, 1, 4*10*granule)
	for threads, want := range map[int]int{1: 10, 2: 10, 3: 9, 11: 0} {
		clear(m.buffers[0])
		pieces := m.Split(threads)
		for _, b := range pieces.buffers {
			for i := range b {
				b[i]++
			}
		}
		got := 0
		for i, x := range m.buffers[0] {
			if x > 1 {
				t.Fatalf("%d threads: element %d is in %g pieces", threads, i, x)
			}
			got += int(x)
		}
		if len(pieces.buffers) != threads || got != want*granule {
			t.Errorf("%d threads: %d pieces of %d elements, want %d of them", threads, len(pieces.buffers),
				got, want*granule)
		}
	}
}

// The loop reads all of the buffer: an element that is not 1 shows, wherever it is.
func TestReadSeesEverything(t *testing.T) {
	if !has256 {
		return // the Go loop does not look at what it reads
	}
	for _, size := range []int{granule, 9 * granule, 260 * granule, 300 * granule} {
		x := NewMemory(AVX2, 1, 4*size).buffers[0]
		for _, at := range []int{0, 1, 127, 128, granule - 1, size / 2, size - 129, size - 1} {
			x[at] = -1
			if !panics(func() { read(AVX2, x) }) {
				t.Errorf("element %d of %d was not read in order", at, size)
			}
			if !panics(func() { readStreams(AVX2, x) }) {
				t.Errorf("element %d of %d was not read in streams", at, size)
			}
			x[at] = 1
		}
	}
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

func TestFor(t *testing.T) {
	if v := For("neon"); v != Scalar {
		t.Errorf("neon: %v", v)
	}
	if v := For("generic"); has256 && v != AVX2 {
		t.Errorf("generic: %v", v)
	}
}

func TestLevelsGrow(t *testing.T) {
	last := 0
	for _, l := range Levels() {
		if l.Bytes <= last {
			t.Errorf("%s has %d bytes, the level before %d", l.Name, l.Bytes, last)
		}
		last = l.Bytes
	}
}

// A cache of which cpuid knows nothing has the size of a typical one.
func TestUnknownCache(t *testing.T) {
	if known(-1, 7) != 7 || known(0, 7) != 7 || known(5, 7) != 5 {
		t.Error("known does not choose what is known")
	}
}
