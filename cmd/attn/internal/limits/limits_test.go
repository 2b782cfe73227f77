package limits

import "testing"

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

// Measurements are positive, even on an emulator, and within what any machine of the next years can do.
func TestFMA(t *testing.T) {
	for _, v := range kinds() {
		best := 0.0
		for range 3 {
			best = max(best, FMA(v, 1))
		}
		if best <= 0 || best > 1e12 {
			t.Errorf("%v: %g operations per second", v, best)
		}
		if both := FMA(v, 2); both <= 0 {
			t.Errorf("%v: %g on two threads", v, both)
		}
	}
}

// Vectors must be faster than one float at a time: else the loop measures something else.
func TestVectorsAreFaster(t *testing.T) {
	if !has256 {
		return // nothing to compare
	}
	scalar, vector := 0.0, 0.0
	for range 5 {
		scalar, vector = max(scalar, FMA(Scalar, 1)), max(vector, FMA(AVX2, 1))
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
		if inOrder, streams := m.Read(), m.ReadStreams(); inOrder <= 0 || streams <= 0 {
			t.Errorf("%v: %g and %g bytes per second on two threads", v, inOrder, streams)
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
