package file

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/seed-1415985d/attn/internal/frames"
)

// A file of several matrices begins with a header of 64 bytes, numbers little-endian:
//
//	7 bytes   matricesMagic
//	1 byte    version
//	u32       names
//	u32       matrices
//	u32       bytes of the names and sizes
//	bytes     zero
//	u32       checksum
//
// Then come the names in the order of SaveMatrices, each as the number of its matrix (u32), its
// length (u32) and its bytes; then the size of each matrix's file (u64), and a checksum. Matrices
// are numbered in the order of their first names. Each begins at the next multiple of matrixPage,
// after zeros, as Matrix.Save writes it.
const (
	matricesMagic = "attnSet"
	matrixPage    = 4096

	// MaxNames bounds the bytes of names and sizes.
	MaxNames = 1 << 28
)

// Set is the index of a file of several matrices.
type Set struct {
	Names   []string
	Numbers []int   // of the matrices of names
	Sizes   []int64 // of their files
}

// Write writes the part before the matrices, and returns the number of bytes.
func (s *Set) Write(to io.Writer) (n int64, err error) {
	f := frames.Writer{To: to}
	if err = f.Write(s.header(), true); err == nil {
		err = f.Write(s.index(), true)
	}
	return f.N, errWriting(&f, err)
}

// Pad writes the zeros that follow n bytes before a matrix, and returns how many bytes are written.
func Pad(to io.Writer, n int64) (int64, error) {
	zeros := make([]byte, padding(n))
	written, err := to.Write(zeros)
	if n += int64(written); err == nil && written != len(zeros) {
		err = io.ErrShortWrite
	}
	if err != nil {
		err = fmt.Errorf("attn: writing a file, %d bytes are written: %w", n, err)
	}
	return n, err
}

// padding returns the number of bytes between the first n and a matrix.
func padding(n int64) int64 { return -n & (matrixPage - 1) }

// FaultOfName says what is wrong with names[i]: it is empty or repeated; or it returns "".
func FaultOfName(name string, i, before int) string {
	if name == "" {
		return fmt.Sprintf("names[%d] is empty, want a name", i)
	}
	return fmt.Sprintf("names[%d] is %q, want another one than names[%d]", i, name, before)
}

// IndexSize returns the bytes of the names and sizes.
func (s *Set) IndexSize() (n int) {
	for _, name := range s.Names {
		n += 8 + len(name)
	}
	return n + 8*len(s.Sizes)
}

// header returns the header without its checksum.
func (s *Set) header() []byte {
	x := append(make([]byte, 0, HeaderSize), matricesMagic...)
	x = append(x, version)
	for _, n := range []int{len(s.Names), len(s.Sizes), s.IndexSize()} {
		x = binary.LittleEndian.AppendUint32(x, uint32(n))
	}
	return x[:HeaderSize-frames.ChecksumSize]
}

// index returns the names and sizes without their checksum.
func (s *Set) index() []byte {
	x := make([]byte, 0, s.IndexSize()+frames.ChecksumSize)
	for i, name := range s.Names {
		x = binary.LittleEndian.AppendUint32(x, uint32(s.Numbers[i]))
		x = binary.LittleEndian.AppendUint32(x, uint32(len(name)))
		x = append(x, name...)
	}
	for _, size := range s.Sizes {
		x = binary.LittleEndian.AppendUint64(x, uint64(size))
	}
	return x
}

// ReadSet reads the part before the matrices of a file of some size, and returns where they begin.
func ReadSet(r io.Reader, fileSize int64) (*Set, int64, error) {
	f := frames.Reader{From: r}
	var x [HeaderSize - frames.ChecksumSize]byte
	if err := readStart(&f, x[:], matricesMagic); err != nil {
		return nil, 0, err
	}
	const fields = 8 + 3*4
	if err := checkZeros(x[fields:], fields); err != nil {
		return nil, 0, err
	}
	size := int64(binary.LittleEndian.Uint32(x[16:]))
	if most := min(MaxNames, fileSize-HeaderSize); size > most {
		return nil, 0, malformed("the file's names and sizes are %d bytes, want at most %d", size,
			most)
	}
	index := make([]byte, size)
	if err := readPart(&f, "names", index); err != nil {
		return nil, 0, err
	}
	set := &Set{}
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

// parse reads names and sizes from the index of a file.
func (s *Set) parse(x []byte, names, matrices uint32) error {
	first, seen := map[string]int{}, uint32(0)
	for i := range names {
		if len(x) < 8 || int64(len(x)-8) < int64(binary.LittleEndian.Uint32(x[4:])) {
			return malformed("names: they end after %d, want %d", i, names)
		}
		number, length := binary.LittleEndian.Uint32(x), binary.LittleEndian.Uint32(x[4:])
		name := string(x[8:][:length])
		x = x[8+length:]
		if before, is := first[name]; is || name == "" {
			return malformed("%s", FaultOfName(name, int(i), before))
		}
		if first[name] = int(i); number > seen {
			return malformed("names: %q is of matrix %d, want at most %d", name, number, seen)
		}
		seen = max(seen, number+1)
		s.Names, s.Numbers = append(s.Names, name), append(s.Numbers, int(number))
	}
	if seen != matrices || uint64(len(x)) != 8*uint64(matrices) {
		return malformed("names: they are of %d matrices, and %d bytes of sizes follow, want %d "+
			"and %d", seen, len(x), matrices, 8*uint64(matrices))
	}
	for ; len(x) > 0; x = x[8:] {
		s.Sizes = append(s.Sizes, int64(binary.LittleEndian.Uint64(x)))
	}
	return nil
}

// checkEnd verifies that a file ends with its last matrix. The first begins after at bytes.
func (s *Set) checkEnd(at, fileSize int64) error {
	for i, size := range s.Sizes {
		start := at + padding(at)
		if size < HeaderSize || size > fileSize-start {
			return malformed("sizes: matrix %d has %d bytes, want %d to %d", i, size, HeaderSize,
				max(0, fileSize-start))
		}
		at = start + size
	}
	if at != fileSize {
		return malformed("the file has %d bytes, want %d", fileSize, at)
	}
	return nil
}

// Start reads the zeros before a matrix, from offset at of a file, and returns where the matrix
// begins.
func Start(whole io.ReaderAt, at int64) (int64, error) {
	zeros := make([]byte, padding(at))
	if _, err := whole.ReadAt(zeros, at); err != nil {
		return at, fmt.Errorf("attn: reading a file: %w", err)
	}
	return at + padding(at), checkZeros(zeros, at)
}

// checkZeros verifies that bytes of a file, from offset at on, are zero.
func checkZeros(x []byte, at int64) error {
	for i, e := range x {
		if e != 0 {
			return malformed("byte %d of the file is %d, want 0", at+int64(i), e)
		}
	}
	return nil
}
