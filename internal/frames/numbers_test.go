package frames

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/views"
)

// numbersFile is a file of some numbers.
func numbersFile(t *testing.T) []byte {
	var b bytes.Buffer
	w := NewNumberWriter(&b)
	for _, x := range []any{uint32(7), []float32{1.5, -2}} {
		if err := w.Put(x); err != nil {
			t.Fatal(err)
		}
	}
	n, err := w.End()
	if err != nil || n != int64(b.Len()) || n != 16 {
		t.Fatalf("%d bytes of %d: %v", n, b.Len(), err)
	}
	return b.Bytes()
}

// readNumbers reads what numbersFile wrote.
func readNumbers(from io.Reader) (int64, error) {
	r := NewNumberReader(from)
	var count uint32
	row := make([]float32, 2)
	for _, x := range []any{&count, row} {
		if err := r.Get(x); err != nil {
			return r.N, err
		}
	}
	if err := r.End(); err != nil {
		return r.N, err
	}
	if count != 7 || !slices.Equal(row, []float32{1.5, -2}) {
		return r.N, errors.New("other numbers")
	}
	return r.N, nil
}

// TestNumbers reads what was written, and refuses it with any byte changed or left out.
func TestNumbers(t *testing.T) {
	file := numbersFile(t)
	if n, err := readNumbers(bytes.NewReader(append(slices.Clone(file), 1))); err != nil || n != 16 {
		t.Errorf("%d bytes were read: %v", n, err)
	}
	for i := range file {
		bad := slices.Clone(file)
		bad[i] ^= 64
		if _, err := readNumbers(bytes.NewReader(bad)); !errors.Is(err, views.ErrFormat) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if n, err := readNumbers(bytes.NewReader(file[:i])); !errors.Is(err, views.ErrFormat) ||
			n != int64(i) {
			t.Errorf("%d of %d bytes: %v", n, i, err)
		}
	}
	broken := errors.New("broken")
	_, err := readNumbers(io.MultiReader(bytes.NewReader(file[:5]), failing{broken}))
	if !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v", err)
	}
}

// failing fails, or with a nil error reads and writes nothing.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestNumberWriterFails(t *testing.T) {
	broken := errors.New("broken")
	for in, want := range map[error]error{broken: broken, nil: io.ErrShortWrite} {
		w := NewNumberWriter(failing{in})
		if err := w.Put(uint32(1)); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		if n, err := w.End(); n != 0 || !errors.Is(err, want) {
			t.Errorf("%d bytes and %v at the end, want %v", n, err, want)
		}
	}
}
