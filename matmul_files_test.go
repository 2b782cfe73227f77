package attn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/packed"
)

// someMatrices are matrices of each format and of some block types, under names. The first has two.
func someMatrices(t testing.TB) (names []string, ms []*Matrix) {
	t.Helper()
	for i, c := range matrixConfigs {
		names, ms = append(names, fmt.Sprintf("blk.%d.weight", i)), append(ms, smallMatrix(t, c))
	}
	for _, b := range []BlockType{Q8_0, Q4_K} {
		size := 21 * 512 / traitsOf(b).Inputs * traitsOf(b).Bytes
		m, err := PackBlocks(make([]byte, size), b, 21, 512, MatrixConfig{})
		must(t, err)
		names, ms = append(names, b.String()), append(ms, m)
	}
	return append(names, "output ä"), append(ms, ms[0])
}

// matricesFileOf is what SaveMatrices writes.
func matricesFileOf(t testing.TB, names []string, ms []*Matrix) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := SaveMatrices(&b, names, ms)
	must(t, err)
	if n != int64(b.Len()) {
		t.Fatalf("SaveMatrices returns %d and wrote %d bytes", n, b.Len())
	}
	return b.Bytes()
}

// Matrices that were written and mapped are those that were packed, each under its name, and one
// with two names is one.
func TestMatricesFile(t *testing.T) {
	names, ms := someMatrices(t)
	file := matricesFileOf(t, names, ms)
	path := fileIn(t, t.TempDir(), file)
	before := memory.Mapped()
	a, err := MapMatrices(path)
	must(t, err)
	if got := a.Names(); !slices.Equal(got, names) {
		t.Errorf("names are %q, want %q", got, names)
	}
	a.Names()[0] = "changed by the caller"
	var got []*Matrix
	for i, name := range names {
		m := a.Matrix(name)
		got = append(got, m)
		mustEqualMatrices(t, name, m, ms[i])
		mustMultiplyAlike(t, name, m, ms[i], 3)
	}
	if a.Matrix("none") != nil || got[0] != got[len(got)-1] || a.Matrix(names[0]) != got[0] {
		t.Error("a name has another matrix")
	}
	mustEqualFiles(t, "saved again", matricesFileOf(t, a.Names(), got), file)
	must(t, got[1].Close())
	mustMultiplyAlike(t, "beside a closed one", got[2], ms[2], 1)
	must(t, a.Close())
	for _, m := range got {
		mustFail(t, "closed with all", m.MatMul(Tensor{}, Tensor{}, nil), ErrClosed)
	}
	if a.Matrix(names[0]) != nil || len(a.Names()) != 0 {
		t.Error("there are matrices after Close")
	}
	mustFail(t, "closed twice", a.Close(), ErrClosed)
	mustFail(t, "zero", new(Matrices).Close(), ErrClosed)
	must(t, (*Matrices)(nil).Close())
	if got := memory.Mapped(); got != before {
		t.Errorf("%d bytes are mapped, want %d as before", got, before)
	}
}

// A matrix keeps the file mapped, also if nobody holds the others.
func TestMatricesAreKeptByEach(t *testing.T) {
	names, ms := someMatrices(t)
	a, err := MapMatrices(fileIn(t, t.TempDir(), matricesFileOf(t, names, ms)))
	must(t, err)
	m := a.Matrix(names[2])
	a = nil
	for range 3 {
		runtime.GC()
	}
	mustMultiplyAlike(t, names[2], m, ms[2], 1)
}

// No names are a file, too.
func TestMatricesFileOfNone(t *testing.T) {
	file := matricesFileOf(t, nil, nil)
	if len(file) != headerSize+4 {
		t.Errorf("a file of nothing has %d bytes", len(file))
	}
	a, err := MapMatrices(fileIn(t, t.TempDir(), file))
	must(t, err)
	if a.Matrix("") != nil || len(a.Names()) != 0 {
		t.Error("a file of nothing has a matrix")
	}
	must(t, a.Close())
}

// The form is fixed. Here it is written from its definition.
func TestMatricesFileForm(t *testing.T) {
	one, two := smallMatrix(t, MatrixConfig{}), smallMatrix(t, MatrixConfig{Format: I8})
	first, second := matrixFileOf(t, one), matrixFileOf(t, two)
	u32 := binary.LittleEndian.AppendUint32
	index := u32(u32(nil, 0), 1)
	index = append(u32(u32(append(index, 'a'), 1), 2), "bb"...)
	index = append(u32(u32(index, 0), 1), 'c')
	index = binary.LittleEndian.AppendUint64(index, uint64(len(first)))
	index = binary.LittleEndian.AppendUint64(index, uint64(len(second)))
	want := u32(u32(u32([]byte("attnSet\x04"), 3), 2), uint32(len(index)))
	want = append(append(want, make([]byte, headerSize-len(want))...), index...)
	want = append(want, 0, 0, 0, 0) // checksums, as that in the header
	repairSet(want, len(index))
	for _, file := range [][]byte{first, second} {
		want = append(append(want, make([]byte, -len(want)&4095)...), file...)
	}
	mustEqualFiles(t, "three names", matricesFileOf(t, []string{"a", "bb", "c"},
		[]*Matrix{one, two, one}), want)
}

// repairSet writes the checksums of a header and an index.
func repairSet(file []byte, index int) { repair(file[:headerSize+index+4], index) }

// Whichever byte is not what it was, and wherever the file ends, it is an error; but elements that
// are mapped are not looked at.
func TestMatricesFileCorrupted(t *testing.T) {
	names, ms := someMatrices(t)
	ends := []int{0}
	for i := range ms[:len(ms)-1] {
		ends = append(ends, len(matricesFileOf(t, names[:i+1], ms[:i+1])))
	}
	file := matricesFileOf(t, names, ms)
	folder := t.TempDir()
	before := memory.Mapped()
	step := 1
	if few() {
		step = 97
	}
	for at := 0; at < len(file); at += step {
		_, err := MapMatrices(fileIn(t, folder, file[:at]))
		mustFail(t, fmt.Sprintf("first %d bytes", at), err, ErrFormat)
		m, _ := slices.BinarySearch(ends[1:], at+1)
		if elements := ends[m+1] - ms[m].size() - 4; at >= elements && !packed.BigEndian() {
			continue
		}
		spoiled := slices.Clone(file)
		spoiled[at] ^= 1 << (at % 8)
		_, err = MapMatrices(fileIn(t, folder, spoiled))
		mustFail(t, fmt.Sprintf("byte %d", at), err, ErrFormat)
	}
	_, err := MapMatrices(fileIn(t, folder, append(slices.Clip(file), 0)))
	mustFail(t, "more", err, ErrFormat)
	if got := memory.Mapped(); got > before {
		t.Errorf("%d bytes are left after errors", got-before)
	}
}

// What a checksum does not find is found.
func TestMatricesFileHostile(t *testing.T) {
	one, two := smallMatrix(t, MatrixConfig{}), smallMatrix(t, MatrixConfig{Format: I8})
	whole := matricesFileOf(t, []string{"a", "bb", "c"}, []*Matrix{one, two, one})
	const index = 9 + 10 + 9 + 16
	for _, e := range []struct {
		at   int
		to   []byte
		text string
	}{
		{0, []byte(matrixMagic), `the file begins with "attnMat", want "attnSet"`},
		{7, []byte{3}, "the file is version 3 of the form, want version 4"},
		{8, word(4), "names[3] is empty, want a name"},
		{8, word(2), "names: they are of 2 matrices, and 25 bytes of sizes follow, want 2 and 16"},
		{8, word(math.MaxUint32), "names[3] is empty, want a name"},
		{12, word(3), "names: they are of 2 matrices, and 16 bytes of sizes follow, want 3 and 24"},
		{20, []byte{1}, "byte 20 of the file is 1, want 0"},
		{headerSize, word(1), `names: "a" is of matrix 1, want at most 0`},
		{headerSize + 4, word(1 << 31), "names: they end after 0, want 3"},
		{headerSize + 4, word(0), "names[0] is empty, want a name"},
		{headerSize + 9 + 10 + 8, []byte("a"), `names[2] is "a", want another one than names[0]`},
		{headerSize + index - 16, word(0), "sizes: matrix 0 has 0 bytes, want 64 to "},
		{headerSize + index - 1, []byte{0x80}, "sizes: matrix 1 has -"},
		{headerSize + index - 8, word(100), "the file has "},
		{4095, []byte{7}, "byte 4095 of the file is 7, want 0 (matrix \"a\")"},
		{4096, []byte("attnTok"), `the file begins with "attnTok", want "attnMat" (matrix "a")`},
	} {
		file := slices.Clone(whole)
		copy(file[e.at:], e.to)
		repairSet(file, index)
		_, err := MapMatrices(fileIn(t, t.TempDir(), file))
		mustFailWith(t, fmt.Sprintf("%x at %d", e.to, e.at), err, ErrFormat, e.text)
	}
	for _, size := range []uint32{math.MaxUint32, maxNames + 1, uint32(len(whole))} {
		file := slices.Clone(whole)
		copy(file[16:], word(size))
		repairSet(file, index)
		_, err := MapMatrices(fileIn(t, t.TempDir(), file))
		mustFailWith(t, fmt.Sprint(size), err, ErrFormat, fmt.Sprintf(
			"the file's names and sizes are %d bytes, want at most %d", size, len(whole)-64))
	}
}

// mustFailWith makes sure that an error is of a kind and says something.
func mustFailWith(t testing.TB, what string, err, kind error, text string) {
	t.Helper()
	mustFail(t, what, err, kind)
	if err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("%s: error says %q, want %q in it", what, err, text)
	}
}

// What cannot be saved is an error that names it, and nothing is written.
func TestSaveMatricesRefuses(t *testing.T) {
	m, closed := smallMatrix(t, MatrixConfig{}), smallMatrix(t, MatrixConfig{})
	must(t, closed.Close())
	for _, e := range []struct {
		names []string
		ms    []*Matrix
		kind  error
		text  string
	}{
		{[]string{"a"}, nil, ErrLength, "there are 0 matrices, want 1 as names"},
		{[]string{"a", "b"}, []*Matrix{m, nil}, ErrClosed, "ms[1] is nil, want a matrix"},
		{[]string{"a", "b"}, []*Matrix{m, closed}, ErrClosed, "(ms[1])"},
		{[]string{"a", ""}, []*Matrix{m, m}, ErrOption, "names[1] is empty, want a name"},
		{[]string{"a", "b", "a"}, []*Matrix{m, m, m}, ErrOption,
			`names[2] is "a", want another one than names[0]`},
		{[]string{string(make([]byte, maxNames))}, []*Matrix{m}, ErrLength,
			"names and sizes are 268435472 bytes, want at most 268435456"},
	} {
		n, err := SaveMatrices(panicWriter{}, e.names, e.ms)
		mustFailWith(t, fmt.Sprintf("%.20q", e.names), err, e.kind, e.text)
		if n != 0 {
			t.Errorf("%d bytes were written", n)
		}
	}
}

type panicWriter struct{}

func (panicWriter) Write([]byte) (int, error) { panic("something is written") }

// Errors of writers and of the system come out as they are.
func TestMatricesFileBroken(t *testing.T) {
	names, ms := someMatrices(t)
	file := matricesFileOf(t, names, ms)
	for n := 0; n < len(file); n += 61 {
		for err, want := range map[error]error{errBroken: errBroken, nil: io.ErrShortWrite} {
			got, err := SaveMatrices(&brokenWriter{n, err}, names, ms)
			mustFail(t, "broken writer", err, want)
			if got != int64(n) {
				t.Errorf("a writer that takes %d bytes: SaveMatrices returns %d", n, got)
			}
		}
	}
	folder := t.TempDir()
	_, err := MapMatrices(filepath.Join(folder, "missing"))
	mustFail(t, "missing", err, fs.ErrNotExist)
	if _, err = MapMatrices(folder); err == nil {
		t.Error("a folder is mapped")
	}
	must(t, os.WriteFile(filepath.Join(folder, "empty"), nil, 0o600))
	_, err = MapMatrices(filepath.Join(folder, "empty"))
	mustFail(t, "empty", err, ErrFormat)
	if !errors.Is(err, io.EOF) {
		t.Errorf("an empty file is %v, want io.EOF too", err)
	}
}

// Where files cannot be mapped, matrices are read and checked.
func TestMatricesWithoutMapping(t *testing.T) {
	names, ms := someMatrices(t)
	file := matricesFileOf(t, names, ms)
	a := &Matrices{named: map[string]*Matrix{}, open: true}
	must(t, a.readAll(bytes.NewReader(file), int64(len(file))))
	for i, name := range names {
		mustEqualMatrices(t, name, a.Matrix(name), ms[i])
	}
	must(t, a.Close())
	file[len(file)-5] ^= 1
	a = &Matrices{named: map[string]*Matrix{}, open: true}
	mustFail(t, "elements", a.readAll(bytes.NewReader(file), int64(len(file))), ErrFormat)
	must(t, a.Close())
	broken := brokenReaderAt{bytes.NewReader(file), 4000}
	a = &Matrices{named: map[string]*Matrix{}, open: true}
	mustFail(t, "broken", a.readAll(broken, int64(len(file))), iotest.ErrTimeout)
}

// brokenReaderAt fails from a byte on.
type brokenReaderAt struct {
	io.ReaderAt
	from int64
}

func (r brokenReaderAt) ReadAt(x []byte, at int64) (int, error) {
	if at+int64(len(x)) > r.from {
		return 0, iotest.ErrTimeout
	}
	return r.ReaderAt.ReadAt(x, at)
}

func FuzzMatricesFile(f *testing.F) {
	names, ms := someMatrices(f)
	f.Add(matricesFileOf(f, names[:3], ms[:3]))
	f.Add(matricesFileOf(f, nil, nil))
	path := filepath.Join(f.TempDir(), "matrices")
	f.Fuzz(func(t *testing.T, file []byte) {
		must(t, os.WriteFile(path, file, 0o600))
		a, err := MapMatrices(path)
		if err != nil {
			return
		}
		for _, name := range a.Names() {
			_, err := a.Matrix(name).Save(io.Discard)
			must(t, err)
		}
		must(t, a.Close())
	})
}
