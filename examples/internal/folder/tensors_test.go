package folder

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestHalf compares all halves with what IEEE 754 says of them.
func TestHalf(t *testing.T) {
	for bits := range uint32(1 << 16) {
		exponent, fraction := int(bits>>10&31), float64(bits&1023)
		want := math.Ldexp(1+fraction/1024, exponent-15)
		switch {
		case exponent == 0:
			want = math.Ldexp(fraction, -24)
		case exponent == 31 && fraction == 0:
			want = math.Inf(1)
		case exponent == 31:
			want = math.NaN()
		}
		want = math.Copysign(want, 1-2*float64(bits>>15))
		got := float64(half(bits))
		if math.IsNaN(want) && math.IsNaN(got) {
			continue
		}
		if math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("half %#04x is %v, want %v", bits, got, want)
		}
	}
}

// FuzzTensors reads hostile files: an error, or a tensor of the shape that was asked for.
func FuzzTensors(f *testing.F) {
	header := `{"a":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]}}`
	f.Add(append(append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header...),
		make([]byte, 12)...))
	f.Add([]byte{})
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(filepath.Join(folder, "model.safetensors"), data, 0o666); err != nil {
			t.Fatal(err)
		}
		l := &Loader{Path: folder}
		l.Open()
		defer l.Close()
		if x := l.Tensor("a", 2, 3); l.Err == nil && len(x) != 6 || l.Err != nil && x != nil {
			t.Errorf("there are %d elements, want 6, or none with an error (%v)", len(x), l.Err)
		}
	})
}
