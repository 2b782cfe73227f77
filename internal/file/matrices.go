package attn

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/seed-1415985d/attn/internal/frames"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/packed"
)

// A file of several matrices begins with a header of 64 bytes, numbers little-endian:
//
//	7 bytes   matricesMagic
//	1 byte    fileVersion
//	u32       names
//	u32       matrices
//	u32       bytes of the names and sizes
//	bytes     zero
//	u32       checksum
//
// Then come the names in the order of SaveMatrices, each as the number of its matrix (u32), its
// length (u32) and its bytes; then the size of each matrix's file (u64), and a checksum. Matrices
// are numbered as names come to them first. Each begins at the next multiple of matrixPage, with
// zeros before it, as Matrix.Save writes it.
const (
	matricesMagic = "attnSet"
	matrixPage    = 4096
	maxNames      = 1 << 28 // bytes of names and sizes
)

// SaveMatrices writes matrices to w, each under a name, so that [MapMatrices] opens all of a model
// at once. It returns how many bytes were written: those of [Matrix.Save], and for each matrix less
// than 4600 and its name. A matrix with several names, as a tied embedding, is written once. The
// same names and matrices give the same bytes, on every CPU.
//
// len(names) is len(ms), or the error is [ErrLength], as for names of more than 256 MiB together.
// An empty name and one that came before are [ErrOption], a nil or closed matrix is [ErrClosed];
// nothing is written then. Errors of w are wrapped.
func SaveMatrices(w io.Writer, names []string, ms []*Matrix) (n int64, err error) {
	set, err := newMatrixSet(names, ms)
	if err != nil {
		return 0, err
	}
	f := frames.Writer{To: w}
	err = f.Write(set.header(), true)
	if err == nil {
		err = f.Write(set.index(), true)
	}
	if err != nil {
		return f.N, errWriting(&f, err)
	}
	n = f.N
	for _, m := range set.all {
		zeros, err := w.Write(make([]byte, pagePadding(n)))
		if n += int64(zeros); err == nil && pagePadding(n) != 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return n, fmt.Errorf("attn: writing a file, %d bytes are written: %w", n, err)
		}
		size, err := m.Save(w)
		if n += size; err != nil {
			return n, err
		}
	}
	return n, nil
}

// pagePadding is how many bytes after the first n there are before a matrix.
func pagePadding(n int64) int64 { return -n & (matrixPage - 1) }

// matrixSet is what a file of several matrices holds.
type matrixSet struct {
	names   []string
	numbers []int     // of the matrices of names
	all     []*Matrix // each once
	sizes   []int64   // of their files
}

// newMatrixSet validates what is to be saved.
func newMatrixSet(names []string, ms []*Matrix) (*matrixSet, error) {
	if len(ms) != len(names) {
		return nil, fail(ErrLength, "there are %d matrices, want %d as names", len(ms), len(names))
	}
	set := &matrixSet{names: names}
	first, numbers := map[string]int{}, map[*Matrix]int{}
	for i, m := range ms {
		if m == nil {
			return nil, fail(ErrClosed, "ms[%d] is nil, want a matrix", i)
		}
		if err := m.checkOpen(); err != nil {
			return nil, fmt.Errorf("%w (ms[%d])", err, i)
		}
		if before, is := first[names[i]]; is || names[i] == "" {
			return nil, fail(ErrOption, "%s", faultOfName(names[i], i, before))
		}
		first[names[i]] = i
		if _, is := numbers[m]; !is {
			numbers[m] = len(set.all)
			set.all = append(set.all, m)
			set.sizes = append(set.sizes, int64(m.fileSize()))
		}
		set.numbers = append(set.numbers, numbers[m])
	}
	if n := set.indexSize(); n > maxNames {
		return nil, fail(ErrLength, "names and sizes are %d bytes, want at most %d", n, maxNames)
	}
	return set, nil
}

// faultOfName says what is wrong with names[i], which is empty or that of before.
func faultOfName(name string, i, before int) string {
	if name == "" {
		return fmt.Sprintf("names[%d] is empty, want a name", i)
	}
	return fmt.Sprintf("names[%d] is %q, want another one than names[%d]", i, name, before)
}

func (s *matrixSet) indexSize() (n int) {
	for _, name := range s.names {
		n += 8 + len(name)
	}
	return n + 8*len(s.sizes)
}

// header is the header without its checksum.
func (s *matrixSet) header() []byte {
	x := append(make([]byte, 0, headerSize), matricesMagic...)
	x = append(x, fileVersion)
	for _, n := range []int{len(s.names), len(s.all), s.indexSize()} {
		x = binary.LittleEndian.AppendUint32(x, uint32(n))
	}
	return x[:headerSize-frames.ChecksumSize]
}

// index is the names and sizes without their checksum.
func (s *matrixSet) index() []byte {
	x := make([]byte, 0, s.indexSize()+frames.ChecksumSize)
	for i, name := range s.names {
		x = binary.LittleEndian.AppendUint32(x, uint32(s.numbers[i]))
		x = binary.LittleEndian.AppendUint32(x, uint32(len(name)))
		x = append(x, name...)
	}
	for _, size := range s.sizes {
		x = binary.LittleEndian.AppendUint64(x, uint64(size))
	}
	return x
}

// Matrices are those of a file that [SaveMatrices] wrote. Any number of goroutines may ask for them
// and multiply by them.
type Matrices struct {
	names  []string
	named  map[string]*Matrix
	all    []*Matrix
	memory *memory.Mapping // of the file; nil if each matrix has its own
	open   bool
}

// MapMatrices opens a file that [SaveMatrices] wrote, and uses its bytes in place, as [MapMatrix]
// does with a single matrix: names, headers and scales are checked, elements are read when they are
// first needed, and the file must not change until Close. It is mapped once, for all.
//
// The errors are those of MapMatrix, with the name of the matrix that they are of.
func MapMatrices(path string) (*Matrices, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("attn: mapping matrices: %w", err)
	}
	defer file.Close()
	a := &Matrices{named: map[string]*Matrix{}, open: true}
	if err := a.read(file); err != nil {
		_ = a.Close() // what is wrong with it is what the caller wants to know
		return nil, fmt.Errorf("%w (mapping %s)", err, path)
	}
	return a, nil
}

// read opens all matrices of a file.
func (a *Matrices) read(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("attn: mapping matrices: %w", err)
	}
	if !packed.BigEndian() {
		if a.memory, err = memory.Map(file); err == nil {
			return a.readAll(bytes.NewReader(a.memory.Bytes()), info.Size())
		}
	}
	return a.readAll(file, info.Size())
}

// readAll opens all matrices of bytes, which are those of the mapping if there is one.
func (a *Matrices) readAll(whole io.ReaderAt, size int64) error {
	set, at, err := readMatrixSet(io.NewSectionReader(whole, 0, size), size)
	if err != nil {
		return err
	}
	for i, size := range set.sizes {
		m, err := a.matrixAt(whole, at, size)
		if err != nil {
			return fmt.Errorf("%w (matrix %q)", err, set.names[slices.Index(set.numbers, i)])
		}
		a.all = append(a.all, m)
		at += pagePadding(at) + size
	}
	a.names = set.names
	for i, name := range set.names {
		a.named[name] = a.all[set.numbers[i]]
	}
	return nil
}

// matrixAt opens the matrix after the first bytes of a file and zeros.
func (a *Matrices) matrixAt(whole io.ReaderAt, at, size int64) (*Matrix, error) {
	zeros := make([]byte, pagePadding(at))
	if _, err := whole.ReadAt(zeros, at); err != nil {
		return nil, fmt.Errorf("attn: reading a file: %w", err)
	}
	if err := checkZeros(zeros, at); err != nil {
		return nil, err
	}
	at += pagePadding(at)
	if a.memory != nil {
		return matrixIn(a.memory.Part(int(at), int(at+size)))
	}
	return loadWhole(io.NewSectionReader(whole, at, size))
}

// checkZeros makes sure that bytes of a file, of which the first is number at, are zero.
func checkZeros(x []byte, at int64) error {
	for i, e := range x {
		if e != 0 {
			return fail(ErrFormat, "byte %d of the file is %d, want 0", at+int64(i), e)
		}
	}
	return nil
}

// readMatrixSet reads names and sizes of a file of some size, and how many bytes they take.
func readMatrixSet(r io.Reader, fileSize int64) (*matrixSet, int64, error) {
	f := frames.Reader{From: r}
	var x [headerSize - frames.ChecksumSize]byte
	if err := readPart(&f, "header", x[:]); err != nil {
		return nil, 0, err
	}
	if err := checkMagic(string(x[:8]), matricesMagic); err != nil {
		return nil, 0, err
	}
	const fields = 8 + 3*4
	if err := checkZeros(x[fields:], fields); err != nil {
		return nil, 0, err
	}
	size := int64(binary.LittleEndian.Uint32(x[16:]))
	if most := min(maxNames, fileSize-headerSize); size > most {
		return nil, 0, fail(ErrFormat, "the file's names and sizes are %d bytes, want at most %d", size,
			most)
	}
	index := make([]byte, size)
	if err := readPart(&f, "names", index); err != nil {
		return nil, 0, err
	}
	set := &matrixSet{}
	err := set.parse(index, binary.LittleEndian.Uint32(x[8:]), binary.LittleEndian.Uint32(x[12:]))
	if err == nil {
		err = set.checkEnd(f.N, fileSize)
	}
	return set, f.N, err
}

// readPart reads a part of a file and its checksum.
func readPart(f *frames.Reader, part string, x []byte) error {
	err := f.Read(x)
	if err == nil {
		err = f.End()
	}
	if err != nil {
		return errPart(f, part, err)
	}
	return nil
}

// parse takes names and sizes out of the index of a file.
func (s *matrixSet) parse(x []byte, names, matrices uint32) error {
	first, seen := map[string]int{}, uint32(0)
	for i := range names {
		if len(x) < 8 || int64(len(x)-8) < int64(binary.LittleEndian.Uint32(x[4:])) {
			return fail(ErrFormat, "names: they end after %d, want %d", i, names)
		}
		number, length := binary.LittleEndian.Uint32(x), binary.LittleEndian.Uint32(x[4:])
		name := string(x[8:][:length])
		x = x[8+length:]
		if before, is := first[name]; is || name == "" {
			return fail(ErrFormat, "%s", faultOfName(name, int(i), before))
		}
		if first[name] = int(i); number > seen {
			return fail(ErrFormat, "names: %q is of matrix %d, want at most %d", name, number, seen)
		}
		seen = max(seen, number+1)
		s.names, s.numbers = append(s.names, name), append(s.numbers, int(number))
	}
	if seen != matrices || uint64(len(x)) != 8*uint64(matrices) {
		return fail(ErrFormat, "names: they are of %d matrices, and %d bytes of sizes follow, want %d "+
			"and %d", seen, len(x), matrices, 8*uint64(matrices))
	}
	for ; len(x) > 0; x = x[8:] {
		s.sizes = append(s.sizes, int64(binary.LittleEndian.Uint64(x)))
	}
	return nil
}

// checkEnd makes sure that a file ends with its last matrix. The first begins after at bytes.
func (s *matrixSet) checkEnd(at, fileSize int64) error {
	for i, size := range s.sizes {
		start := at + pagePadding(at)
		if size < headerSize || size > fileSize-start {
			return fail(ErrFormat, "sizes: matrix %d has %d bytes, want %d to %d", i, size, headerSize,
				max(0, fileSize-start))
		}
		at = start + size
	}
	if at != fileSize {
		return fail(ErrFormat, "the file has %d bytes, want %d", fileSize, at)
	}
	return nil
}

// Names returns the names of the matrices, in the order of [SaveMatrices].
func (a *Matrices) Names() []string { return slices.Clone(a.names) }

// Matrix returns the matrix of a name, nil if there is none and after Close. The same matrix comes
// each time. Its own Close lets nobody multiply by it any more; its memory stays until that of all.
func (a *Matrices) Matrix(name string) *Matrix { return a.named[name] }

// Close closes all matrices and gives their memory back. Closing again is [ErrClosed]. Closing
// while another goroutine multiplies ends the program.
func (a *Matrices) Close() error {
	if a == nil {
		return nil
	}
	if !a.open {
		return fail(ErrClosed, "the matrices were closed, or are not from MapMatrices")
	}
	var err error
	for _, m := range a.all {
		if m.memory != nil {
			if closing := m.Close(); err == nil {
				err = closing
			}
		}
	}
	file := a.memory
	*a = Matrices{}
	if file != nil {
		if closing := file.Close(); err == nil {
			err = closing
		}
	}
	return err
}
