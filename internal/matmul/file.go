package matmul

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"

	"github.com/seed-1415985d/attn/internal/file"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/views"
)

// Files of one or several matrices; internal/file has their format.

// Save writes the matrix to w.
func (m *Matrix) Save(w io.Writer) (n int64, err error) {
	if err := m.checkOpen(); err != nil {
		return 0, err
	}
	form := m.form()
	n, err = form.Write(w, m.data, kernel.RawBytes(m.scales))
	runtime.KeepAlive(m) // and with it its memory
	return n, err
}

// form returns the description of the matrix in a file.
func (m *Matrix) form() file.Matrix {
	return file.Matrix{Matrix: m.layout(), Integers: m.int8, BFloat16: m.paired}
}

// matrixOf is a matrix that was read.
func matrixOf(form *file.Matrix, body *file.Body) *Matrix {
	var m *Matrix
	if form.Blocks != 0 {
		m, _ = newBlockMatrix(form.Blocks, form.Outputs, form.Inputs)
	} else {
		m, _ = newMatrix(form.Format, form.Batch, form.Heads, form.Inputs, form.Outputs)
	}
	m.int8, m.paired = form.Integers, form.BFloat16
	m.Use(body.Memory, body.Data, body.Scales)
	return m
}

// LoadMatrix reads a matrix that Save wrote, and nothing after it.
func LoadMatrix(r io.Reader) (*Matrix, error) {
	form, body, err := file.ReadMatrix(r)
	if err != nil {
		return nil, err
	}
	return matrixOf(&form, &body), nil
}

// MapMatrix opens a file that Save wrote, and uses its bytes in place.
func MapMatrix(path string) (*Matrix, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("attn: mapping a matrix: %w", err)
	}
	defer f.Close()
	m, err := mapFile(f)
	if err != nil {
		return nil, fmt.Errorf("%w (mapping %s)", err, path)
	}
	return m, nil
}

// mapFile maps a file, or reads it where that cannot be done.
func mapFile(f *os.File) (*Matrix, error) {
	if !packed.BigEndian() {
		if mapping, err := memory.Map(f); err == nil {
			m, err := matrixIn(mapping)
			if err != nil {
				_ = mapping.Close() // the caller needs the reason why the file is wrong
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

// SaveMatrices writes matrices to w, each under a name.
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

// newSet validates the arguments of a save, and returns each matrix once.
func newSet(names []string, ms []*Matrix) (set *file.Set, all []*Matrix, err error) {
	if len(ms) != len(names) {
		return nil, nil, views.Fail(views.ErrLength, "there are %d matrices, want %d as names", len(ms),
			len(names))
	}
	set = &file.Set{Names: names}
	first, numbers := map[string]int{}, map[*Matrix]int{}
	for i, m := range ms {
		if !m.isOpen() {
			return nil, nil, errListed(ms, i)
		}
		if before, is := first[names[i]]; is || names[i] == "" {
			return nil, nil, views.Fail(views.ErrOption, "%s", file.FaultOfName(names[i], i, before))
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
		return nil, nil, views.Fail(views.ErrLength, "names and sizes are %d bytes, want at most %d", n,
			file.MaxNames)
	}
	return set, all, nil
}

// Matrices is the body of a Matrices.
type Matrices struct {
	names   []string
	named   map[string]*Matrix
	all     []*Matrix
	mapping *memory.Mapping // of the file; nil if each matrix has its own
	open    bool
}

// MapMatrices opens a file that SaveMatrices wrote, and uses its bytes in place.
func MapMatrices(path string) (*Matrices, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("attn: mapping matrices: %w", err)
	}
	defer f.Close()
	a := &Matrices{named: map[string]*Matrix{}, open: true}
	if err := a.read(f); err != nil {
		_ = a.Close() // the caller needs the reason why the file is wrong
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

// readAll opens all matrices of a file. whole is the mapping, if there is one.
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

// Names returns the names in the order of the file.
func (a *Matrices) Names() []string { return slices.Clone(a.names) }

// Matrix returns the matrix of a name, nil if there is none.
func (a *Matrices) Matrix(name string) *Matrix { return a.named[name] }

// Close closes all matrices and gives their memory back.
func (a *Matrices) Close() error {
	if !a.open {
		return views.Fail(views.ErrClosed, "the matrices were closed, or are not from MapMatrices")
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
