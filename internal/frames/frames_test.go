package frames

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"testing"
	"testing/iotest"
)

// parts of a file, each in pieces.
var parts = [][]string{{"header"}, {"some ", "", "bytes"}, {""}, {"the last part"}}

// write writes the parts.
func write(to io.Writer) (n int64, err error) {
	w := Writer{To: to}
	for _, part := range parts {
		for i, piece := range part {
			x := append(make([]byte, 0, len(piece)+ChecksumSize), piece...)
			if err := w.Write(x, i == len(part)-1); err != nil {
				return w.N, err
			}
		}
	}
	return w.N, nil
}

// read reads the parts and returns their bytes.
func read(from io.Reader) (got []byte, n int64, err error) {
	r := Reader{From: from}
	for _, part := range parts {
		for _, piece := range part {
			x := make([]byte, len(piece))
			if err := r.Read(x); err != nil {
				return got, r.N, err
			}
			got = append(got, x...)
		}
		if err := r.End(); err != nil {
			return got, r.N, err
		}
	}
	return got, r.N, nil
}

func fileOf(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := write(&b)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("%d bytes are written, N is %d, error %v", b.Len(), n, err)
	}
	return b.Bytes()
}

// The form, written from its definition: after each part the checksum of all bytes before it but
// checksums.
func TestForm(t *testing.T) {
	var want, content []byte
	for _, part := range parts {
		for _, piece := range part {
			want, content = append(want, piece...), append(content, piece...)
		}
		sum := crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli))
		want = binary.LittleEndian.AppendUint32(want, sum)
	}
	if got := fileOf(t); !bytes.Equal(got, want) {
		t.Fatalf("the file is %x, want %x", got, want)
	}
	for name, r := range map[string]io.Reader{
		"at once":        bytes.NewReader(append(slices.Clone(want), "more"...)),
		"byte by byte":   iotest.OneByteReader(bytes.NewReader(want)),
		"EOF with bytes": iotest.DataErrReader(bytes.NewReader(want)),
	} {
		got, n, err := read(r)
		if err != nil || n != int64(len(want)) || !bytes.Equal(got, content) {
			t.Errorf("%s: %q, N is %d, error %v, want %q, %d", name, got, n, err, content, len(want))
		}
	}
}

// Whichever bit is not what it was, the checksum of its part says so; a byte of a part is in all
// checksums after it.
func TestFlippedBits(t *testing.T) {
	file := fileOf(t)
	for at := range file {
		for bit := range 8 {
			file[at] ^= 1 << bit
			_, n, err := read(bytes.NewReader(file))
			var mismatch Mismatch
			if !errors.As(err, &mismatch) || mismatch.Got == mismatch.Want || n > int64(len(file)) {
				t.Errorf("bit %d of byte %d: error is %v after %d bytes, want a Mismatch", bit, at, err, n)
			}
			if int64(at) >= n {
				t.Errorf("the error comes after %d bytes, before byte %d was read", n, at)
			}
			file[at] ^= 1 << bit
		}
	}
}

// Parts in another order are refused, and so are parts of another file.
func TestPartsAreOfTheirPlace(t *testing.T) {
	file := func(parts ...string) []byte {
		var b bytes.Buffer
		w := Writer{To: &b}
		for _, part := range parts {
			if err := w.Write([]byte(part), true); err != nil {
				t.Fatal(err)
			}
		}
		return b.Bytes()
	}
	readAll := func(x []byte) error {
		r := Reader{From: bytes.NewReader(x)}
		for range 3 {
			if err := r.Read(make([]byte, 4)); err != nil {
				return err
			}
			if err := r.End(); err != nil {
				return err
			}
		}
		return nil
	}
	const size = 4 + ChecksumSize
	x, y := file("aaaa", "bbbb", "cccc"), file("AAAA", "bbbb", "cccc")
	for name, bad := range map[string][]byte{
		"swapped":  slices.Concat(x[:size], x[2*size:], x[size:2*size]),
		"repeated": slices.Concat(x[:2*size], x[size:2*size]),
		"mixed":    slices.Concat(x[:size], y[size:]),
	} {
		var mismatch Mismatch
		if err := readAll(bad); !errors.As(err, &mismatch) {
			t.Errorf("%s: error is %v, want a Mismatch", name, err)
		}
	}
	if err := readAll(x); err != nil {
		t.Error(err)
	}
}

var errBroken = errors.New("broken")

// Where the bytes end, the error says whether there was anything at all; other errors come as they
// are.
func TestTruncated(t *testing.T) {
	file := fileOf(t)
	for n := range file {
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		for _, r := range []io.Reader{bytes.NewReader(file[:n]),
			iotest.DataErrReader(bytes.NewReader(file[:n]))} {
			if _, got, err := read(r); err != want || got != int64(n) {
				t.Errorf("%d bytes: N is %d, error %v, want %v", n, got, err, want)
			}
		}
		broken := io.MultiReader(bytes.NewReader(file[:n]), iotest.ErrReader(errBroken))
		if _, got, err := read(broken); !errors.Is(err, errBroken) || got != int64(n) {
			t.Errorf("broken after %d bytes: N is %d, error %v, want %v", n, got, err, errBroken)
		}
	}
}

// shortWriter accepts a number of bytes, then fails, or writes less without an error.
type shortWriter struct {
	left int
	err  error
}

func (w *shortWriter) Write(x []byte) (int, error) {
	if len(x) <= w.left {
		w.left -= len(x)
		return len(x), nil
	}
	n := w.left
	w.left = 0
	return n, w.err
}

// A writer that fails, or that writes less than it is given without an error, is an error.
func TestShortWrites(t *testing.T) {
	for n := range fileOf(t) {
		for err, want := range map[error]error{errBroken: errBroken, nil: io.ErrShortWrite} {
			if got, err := write(&shortWriter{n, err}); err != want || got != int64(n) {
				t.Errorf("a writer of %d bytes: N is %d, error %v, want %v", n, got, err, want)
			}
		}
	}
}

// A piece and its checksum are one call of the writer, and allocate nothing if there is room.
func TestPiecesAreOneCall(t *testing.T) {
	calls := 0
	w := Writer{To: writerFunc(func(x []byte) (int, error) { calls++; return len(x), nil })}
	x := make([]byte, 10, 10+ChecksumSize)
	n := testing.AllocsPerRun(10, func() {
		if err := w.Write(x, true); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 || calls != 11 {
		t.Errorf("%v allocations a call, and %d calls of the writer, want 0 and 11", n, calls)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(x []byte) (int, error) { return f(x) }
