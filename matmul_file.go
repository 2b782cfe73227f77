package attn

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"

	"github.com/seed-1415985d/attn/internal/file"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/packed"
)

// Files of matrices, one or several; internal/file has their form.

// Save writes the packed matrix to w in a form that any machine can read with [LoadMatrix] or
// [MapMatrix]: its elements and scales, and less than 200 bytes beside them. It returns how many
// were written. The same matrix gives the same bytes, on every CPU. Errors of w are wrapped.
func (m *Matrix) Save(w io.Writer) (n int64, err error) {
	if err := m.checkOpen(); err != nil {
		return 0, err
	}
	form := m.form()
	n, err = form.Write(w, m.data, rawBytes(m.scales))
	runtime.KeepAlive(m) // and with it its memory
	return n, err
}

// form is the matrix as its file says.
func (m *Matrix) form() file.Matrix {
	return file.Matrix{Matrix: m.layout(), Integers: m.int8}
}

// matrixOf is a matrix that was read.
func matrixOf(form *file.Matrix, body *file.Body) *Matrix {
	var m *Matrix
	if form.Blocks != 0 {
		m, _ = newBlockMatrix(form.Blocks, form.Outputs, form.Inputs)
	} else {
		m, _ = newMatrix(Format(form.Format), form.Batch, form.Heads, form.Inputs, form.Outputs)
	}
	m.int8 = form.Integers
	m.use(body.Memory, body.Data, body.Scales)
	return m
}

// LoadMatrix reads a matrix that [Matrix.Save] wrote, and nothing after it, so r may hold several
// one after another. It checks all of it; of the integers of an output in I8, that the largest is
// what its scale makes of the largest weight. Products have the bits of those by the matrix that
// was saved. The memory is like that of [PackMatrix], and is taken as bytes come.
//
// What Save cannot have written is [ErrFormat]; it wraps [io.EOF] too if r has no bytes, and
// [io.ErrUnexpectedEOF] if it has too few. A matrix larger than memory can be is [ErrShape], and
// [ErrMemory] if the system has no memory. Other errors of r are wrapped.
func LoadMatrix(r io.Reader) (*Matrix, error) {
	form, body, err := file.ReadMatrix(r)
	if err != nil {
		return nil, err
	}
	return matrixOf(&form, &body), nil
}

// MapMatrix opens a file that [Matrix.Save] wrote, a single matrix, and uses its bytes in place:
// a packed model starts at once, and programs that map the same file share its memory. The header
// and the scales are checked; elements are read from the file when they are first needed, and are
// not checked, nor are the scales of blocks, which lie among them. Products have the bits of those
// by the matrix that was saved.
//
// The file must not change until Close: products by bytes that changed are of any value, and the
// end of the program where the file became shorter. Where the system cannot map the file, or orders
// the bytes of numbers otherwise, it is read and checked as by [LoadMatrix]. A system that gives
// huge pages on request gives them to memory and not to files, so decoding may take longer than by
// a matrix from LoadMatrix.
//
// The errors are those of LoadMatrix, [ErrFormat] for bytes after the matrix, and those of opening
// the file, wrapped.
func MapMatrix(path string) (*Matrix, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("attn: mapping a matrix: %w", err)
	}
	defer f.Close()
	m, err := mapMatrix(f)
	if err != nil {
		return nil, fmt.Errorf("%w (mapping %s)", err, path)
	}
	return m, nil
}

// mapMatrix maps a file, or reads it where that cannot be done.
func mapMatrix(f *os.File) (*Matrix, error) {
	if !packed.BigEndian() {
		if mapping, err := memory.Map(f); err == nil {
			m, err := matrixIn(mapping)
			if err != nil {
				_ = mapping.Close() // what is wrong with it is what the caller wants to know
			}
			return m, err
		}
	}
	return loadWhole(f)
}

// loadWhole is LoadMatrix for a reader with nothing after the matrix.
func loadWhole(r io.Reader) (*Matrix, error) {
	m, err := LoadMatrix(r)
	if err != nil {
		return nil, err
	}
	if n, _ := io.ReadFull(r, make([]byte, 1)); n > 0 {
		form := m.form()
		_ = m.Close()
		return nil, form.ErrSize("more")
	}
	return m, nil
}

// matrixIn is the matrix in the bytes of a file.
func matrixIn(mapping *memory.Mapping) (*Matrix, error) {
	form, body, err := file.MatrixIn(mapping)
	if err != nil {
		return nil, err
	}
	return matrixOf(&form, &body), nil
}

// SaveMatrices writes matrices to w, each under a name, so that [MapMatrices] opens all of a model
// at once. It returns how many bytes were written: those of [Matrix.Save], and for each matrix less
// than 4600 and its name. A matrix with several names, as a tied embedding, is written once. The
// same names and matrices give the same bytes, on every CPU.
//
// len(names) is len(ms), or the error is [ErrLength], as for names of more than 256 MiB together.
// An empty name, one that came before and a nil matrix are [ErrOption], a closed matrix is
// [ErrClosed]; nothing is written then. Errors of w are wrapped.
func SaveMatrices(w io.Writer, names []string, ms []*Matrix) (n int64, err error) {
	set, all, err := newSet(names, ms)
	if err != nil {
		return 0, err
	}
	n, err = set.Write(w)
	for i := 0; i < len(all) && err == nil; i++ {
		if n, err = file.Pad(w, n); err == nil {
			var size int64
			size, err = all[i].Save(w)
			n += size
		}
	}
	return n, err
}

// newSet validates what is to be saved, and returns each matrix once.
func newSet(names []string, ms []*Matrix) (set *file.Set, all []*Matrix, err error) {
	if len(ms) != len(names) {
		return nil, nil, fail(ErrLength, "there are %d matrices, want %d as names", len(ms), len(names))
	}
	set = &file.Set{Names: names}
	first, numbers := map[string]int{}, map[*Matrix]int{}
	for i, m := range ms {
		if err := checkListed(ms, i); err != nil {
			return nil, nil, err
		}
		if before, is := first[names[i]]; is || names[i] == "" {
			return nil, nil, fail(ErrOption, "%s", file.FaultOfName(names[i], i, before))
		}
		first[names[i]] = i
		if _, is := numbers[m]; !is {
			numbers[m] = len(all)
			all = append(all, m)
			form := m.form()
			set.Sizes = append(set.Sizes, int64(form.FileSize()))
		}
		set.Numbers = append(set.Numbers, numbers[m])
	}
	if n := set.IndexSize(); n > file.MaxNames {
		return nil, nil, fail(ErrLength, "names and sizes are %d bytes, want at most %d", n,
			file.MaxNames)
	}
	return set, all, nil
}

// Matrices are those of a file that [SaveMatrices] wrote. Any number of goroutines may ask for them
// and multiply by them.
type Matrices struct {
	names   []string
	named   map[string]*Matrix
	all     []*Matrix
	mapping *memory.Mapping // of the file; nil if each matrix has its own
	open    bool
}

// MapMatrices opens a file that [SaveMatrices] wrote, and uses its bytes in place, as [MapMatrix]
// does with a single matrix: names, headers and scales are checked, elements are read when they are
// first needed, and the file must not change until Close. It is mapped once, for all.
//
// The errors are those of MapMatrix, with the name of the matrix that they are of.
func MapMatrices(path string) (*Matrices, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("attn: mapping matrices: %w", err)
	}
	defer f.Close()
	a := &Matrices{named: map[string]*Matrix{}, open: true}
	if err := a.read(f); err != nil {
		_ = a.Close() // what is wrong with it is what the caller wants to know
		return nil, fmt.Errorf("%w (mapping %s)", err, path)
	}
	return a, nil
}

// read opens all matrices of a file.
func (a *Matrices) read(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("attn: mapping matrices: %w", err)
	}
	if !packed.BigEndian() {
		if a.mapping, err = memory.Map(f); err == nil {
			return a.readAll(bytes.NewReader(a.mapping.Bytes()), info.Size())
		}
	}
	return a.readAll(f, info.Size())
}

// readAll opens all matrices of bytes, which are those of the mapping if there is one.
func (a *Matrices) readAll(whole io.ReaderAt, size int64) error {
	set, at, err := file.ReadSet(io.NewSectionReader(whole, 0, size), size)
	if err != nil {
		return err
	}
	for i, size := range set.Sizes {
		start, err := file.Start(whole, at)
		var m *Matrix
		if err == nil {
			m, err = a.matrixAt(whole, start, size)
		}
		if err != nil {
			return fmt.Errorf("%w (matrix %q)", err, set.Names[slices.Index(set.Numbers, i)])
		}
		a.all, at = append(a.all, m), start+size
	}
	a.names = set.Names
	for i, name := range set.Names {
		a.named[name] = a.all[set.Numbers[i]]
	}
	return nil
}

// matrixAt opens the matrix that some bytes of a file are.
func (a *Matrices) matrixAt(whole io.ReaderAt, at, size int64) (*Matrix, error) {
	if a.mapping != nil {
		return matrixIn(a.mapping.Part(int(at), int(at+size)))
	}
	return loadWhole(io.NewSectionReader(whole, at, size))
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
		if m.mapping != nil {
			if closing := m.Close(); err == nil {
				err = closing
			}
		}
	}
	mapping := a.mapping
	*a = Matrices{}
	if mapping != nil {
		if closing := mapping.Close(); err == nil {
			err = closing
		}
	}
	return err
}
