package packed

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
)

// kinds are shapes of all formats, with dimensions that fill panels and groups and that do not.
func kinds() (all []Blocks) {
	for keys := kernel.F32; keys.Valid(); keys++ {
		for values := kernel.F32; values.Valid(); values++ {
			for _, d := range [][2]int{{1, 1}, {24, 40}, {70, 33}, {128, 64}} {
				all = append(all, New(keys, values, 2, d[0], d[1], false))
				if keys == values {
					all = append(all, New(keys, values, 2, d[0], min(d[0], d[1]), true))
				}
			}
		}
	}
	return all
}

func (s *Blocks) title() string {
	return fmt.Sprintf("%s and %s of %d and %d, in keys: %t", s.K.Name, s.V.Name, s.D, s.DV,
		s.ValuesInKeys)
}

func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// write writes n tokens of a head from position at on, some at once.
func (s *Blocks) write(w *Writer, head int, k, v []float32, at, n, together int) {
	w.Fit(s)
	for i := 0; i < n; {
		j := at + i
		m := min(together, n-i, kernel.Block-j%kernel.Block)
		x := s.Data[s.OffsetOf(nil, 0, head, j):][:s.Size]
		w.WriteKeys(kerneltest.Tuned, s, x, j%kernel.Block, k[i*s.D:], s.D, m)
		if !s.ValuesInKeys {
			w.WriteValues(kerneltest.Tuned, s, x, j%kernel.Block, v[i*s.DV:], s.DV, m)
		}
		i += m
	}
}

// open gives blocks zeroed memory of their own.
func open(t *testing.T, s Blocks, blocks int) *Blocks {
	t.Helper()
	if err := s.Allocate(1, blocks); err != nil || !s.Open() {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &s
}

// However many tokens are written at once, and wherever they begin, their bytes are the same, no
// reader finds a fault in them, and where tokens that stay are moved together, or copied to another
// block, is what writing only these gives.
func TestTokensHaveOneForm(t *testing.T) {
	r, w := rand.New(rand.NewPCG(1, 2)), new(Writer)
	for _, kind := range kinds() {
		n := kernel.Block + 37
		k, v := normal(r, n*kind.D), normal(r, n*kind.DV)
		want := open(t, kind, 2)
		want.write(w, 1, k, v, 0, n, 1)
		for _, together := range []int{3, 16, 37, n} {
			got := open(t, kind, 2)
			if got.write(w, 1, k, v, 0, n, together); !bytes.Equal(got.Data, want.Data) {
				t.Errorf("%s: %d tokens at once have other bytes than one by one", kind.title(), together)
			}
		}
		for i, hi := range []int{kernel.Block, 37} {
			x := slices.Clone(want.At(1, i))
			want.LittleEndian(x) // as a file has it
			if fault := want.Take(x, 0, hi); fault != "" || !bytes.Equal(x, want.At(1, i)) {
				t.Errorf("%s: block %d has a fault, or was changed: %s", kind.title(), i, fault)
			}
		}
		indices := []int{5, 6, 9}
		for j := 10 + r.IntN(5); j < n; j += 1 + r.IntN(4) {
			indices = append(indices, j)
		}
		mustKeep(t, w, want, k, v, indices)
	}
}

// mustKeep keeps some of the tokens of head 1, and copies the tokens of a block.
func mustKeep(t *testing.T, w *Writer, s *Blocks, k, v []float32, indices []int) {
	t.Helper()
	var keptK, keptV []float32
	for _, j := range indices {
		keptK, keptV = append(keptK, k[j*s.D:][:s.D]...), append(keptV, v[j*s.DV:][:s.DV]...)
	}
	want := open(t, New(s.K.Format, s.V.Format, s.Heads, s.D, s.DV, s.ValuesInKeys), 2)
	want.write(w, 1, k, v, 0, indices[0], kernel.Block)
	want.write(w, 1, keptK, keptV, indices[0], len(indices), kernel.Block)

	copied := make([]byte, s.Size) // what a list of tokens names, from a multiple of Together on
	for j := 0; j < min(len(indices), kernel.Block); j += Together {
		var from [Together]Token
		for i := range from {
			at := indices[min(j+i, len(indices)-1)]
			from[i] = Token{s.At(1, at/kernel.Block), at % kernel.Block}
		}
		s.CopyTokens(copied, j, &from)
	}
	listed := open(t, New(s.K.Format, s.V.Format, s.Heads, s.D, s.DV, s.ValuesInKeys), 1)
	n := min(len(indices), kernel.Block)
	listed.write(w, 1, keptK, keptV, 0, n, kernel.Block)
	if s.Blank(copied, 0, n); !bytes.Equal(copied, listed.At(1, 0)) {
		t.Errorf("%s: copied tokens have other bytes than written ones", s.title())
	}

	s.Keep(nil, 1, indices)
	for i := range 2 {
		hi := min(max(indices[0]+len(indices)-i*kernel.Block, 0), kernel.Block)
		x := slices.Clone(s.At(1, i))
		if s.Blank(x, 0, hi); !bytes.Equal(x, want.At(1, i)) {
			t.Errorf("%s: tokens that stay have other bytes in block %d than written ones", s.title(), i)
		}
	}
}

// What is read is what was written, but for rounding: none in F32, little of 8 bits and more.
func TestReadTokens(t *testing.T) {
	r, w := rand.New(rand.NewPCG(3, 4)), new(Writer)
	most := map[kernel.Format]float64{kernel.F32: 0, kernel.F16: 4e-3, kernel.BF16: 3e-2,
		kernel.I8: 0.2, kernel.I4: 2}
	far := func(got, want []float32) (top float64) {
		for i, e := range got {
			top = max(top, math.Abs(float64(e)-float64(want[i])))
		}
		return top
	}
	for _, kind := range kinds() {
		s, n := open(t, kind, 1), kernel.Block
		k, v := normal(r, n*s.D), normal(r, n*s.DV)
		s.write(w, 0, k, v, 0, n, n)
		key, value := make([]float32, s.D), make([]float32, s.DV)
		for j := range n {
			s.ReadKey(kerneltest.Tuned.ISA, key, s.At(0, 0), j)
			if d := far(key, k[j*s.D:]); d > most[s.K.Format] {
				t.Errorf("%s: key %d is off by %v, want at most %v", s.title(), j, d, most[s.K.Format])
			}
			if s.ValuesInKeys {
				continue
			}
			s.ReadValue(kerneltest.Tuned.ISA, value, s.At(0, 0), j)
			if d := far(value, v[j*s.DV:]); d > most[s.V.Format] {
				t.Errorf("%s: value %d is off by %v, want at most %v", s.title(), j, d, most[s.V.Format])
			}
		}
	}
}

// Turning bytes twice changes nothing, and each byte of a block that is of no token is found.
func TestStrayBytes(t *testing.T) {
	r, w := rand.New(rand.NewPCG(5, 6)), new(Writer)
	for _, kind := range kinds() {
		s := open(t, kind, 1)
		n := 1 + r.IntN(kernel.Block-1)
		s.write(w, 0, normal(r, n*s.D), normal(r, n*s.DV), 0, n, n)
		x := slices.Clone(s.At(0, 0))
		s.SwapBytes(x)
		if s.SwapBytes(x); !bytes.Equal(x, s.At(0, 0)) {
			t.Errorf("%s: bytes that were turned twice are others", s.title())
		}
		of := bytes.Repeat([]byte{0xff}, s.Size) // bits of the tokens
		s.Blank(of, 0, n)
		for range 20 {
			i := r.IntN(s.Size)
			x := slices.Clone(s.At(0, 0))
			x[i] ^= ^of[i]
			if found := s.Blank(x, 0, n) != 0; found != (of[i] != 0xff) {
				t.Errorf("%s: byte %d is of no token: %t, want %t", s.title(), i, found, !found)
			}
		}
	}
}

// Fits is exact where a product overflows.
func TestFits(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	size := func() int { return 1 + r.IntN(1<<r.IntN(29)) }
	for range 5000 {
		s := New(kernel.Format(r.IntN(5)), kernel.Format(r.IntN(5)), size(), size(), size(), false)
		batch, blocks, most := size(), size(), r.IntN(math.MaxInt32)
		elements := func(x *Side, n int) *big.Int {
			bytes := big.NewInt(int64(x.Bits) * kernel.Block / 8)
			bytes.Mul(bytes, big.NewInt(int64(n)))
			if x.Scaled {
				bytes.Add(bytes, big.NewInt(4*kernel.Block))
			}
			return bytes
		}
		want := elements(&s.K, kernel.RoundUp(s.D, s.K.Whole))
		want.Add(want, elements(&s.V, kernel.RoundUp(s.DV, kernel.Panel)))
		for _, n := range []int{batch, s.Heads, blocks} {
			want.Mul(want, big.NewInt(int64(n)))
		}
		fits := want.Cmp(new(big.Int).Mul(big.NewInt(4), big.NewInt(int64(most)))) <= 0
		if got := s.Fits(batch, blocks, most); got != fits {
			t.Fatalf("%s: %d × %d × %d blocks fit in %d words: %t, want %t", s.title(), batch, s.Heads,
				blocks, most, got, fits)
		}
	}
}
