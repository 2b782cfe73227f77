package weights

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-1415985d/attn"
)

// packFile is a file of packed matrices of a model, which makes opening it fast.
type packFile struct {
	path  string
	mark  string         // of the files, kept as a further name of a matrix, as is Tensors
	saved *attn.Matrices // nil if the file has to be written
	names []string       // of its matrices
	all   []*attn.Matrix
}

// UsePack reads matrices from a file if it exists, otherwise WritePack writes it. It must be of the
// same model and settings, which its mark says.
func (l *Loader) UsePack(path, settings string) {
	if l.Err != nil || path == "" {
		return
	}
	p := &packFile{path: path}
	var err error
	if p.mark, err = l.Mark(); err != nil {
		l.Err = err
		return
	}
	p.mark += ", " + settings
	p.saved, err = attn.MapMatrices(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		l.Err = err
	case p.saved.Matrix(p.mark) == nil:
		l.Fail("%s: the matrices are of another model, or of other weights or products, want the "+
			"model's own; without the file it is made again", path)
	}
	l.pack = p
}

// Mark identifies the open files of a model by their sizes and by samples of their bytes.
func (l *Loader) Mark() (string, error) {
	sum := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(l.paths())) {
		if err := sample(sum, path); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("packed of %x", sum.Sum(nil)), nil
}

// sample writes the size of a file and some of its bytes.
func sample(to io.Writer, path string) error {
	const pieces, size = 256, 4096
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	fmt.Fprintln(to, info.Size())
	for i := range int64(pieces) {
		at := info.Size() / pieces * i
		if _, err := io.Copy(to, io.NewSectionReader(f, at, size)); err != nil {
			return err
		}
	}
	return nil
}

// packed returns a matrix, from the file or, if there is none, packed now.
func (l *Loader) packed(name string, in, out int, pack func() *attn.Matrix) *attn.Matrix {
	switch p := l.pack; {
	case l.Err != nil:
		return nil
	case p == nil:
		return pack()
	case p.saved == nil:
		m := pack()
		p.names, p.all = append(p.names, name), append(p.all, m)
		return m
	default:
		m := p.saved.Matrix(name)
		if m == nil {
			l.Fail("%s: no matrix is %s, want the model's own; without the file it is made again", p.path,
				name)
			return nil
		}
		if _, _, inputs, outputs := m.Dims(); inputs != in || outputs != out {
			l.Fail("%s: matrix %s is %d×%d, want %d×%d", p.path, name, outputs, inputs, out, in)
		}
		l.Packed += m.MemoryUse()
		return m
	}
}

// WritePack writes the file that UsePack did not find, whole or not at all.
func (l *Loader) WritePack() {
	p := l.pack
	if l.Err != nil || p == nil || p.saved != nil || len(p.all) == 0 {
		return
	}
	tensors, err := l.digestTensors()
	if err != nil {
		l.Err = err
		return
	}
	f, err := os.CreateTemp(filepath.Dir(p.path), filepath.Base(p.path)+".*")
	if err != nil {
		l.Err = err
		return
	}
	_, err = attn.SaveMatrices(f, append(p.names, p.mark, tensors),
		append(p.all, p.all[0], p.all[0]))
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), p.path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the user needs the first error
		l.Fail("%s: %w", p.path, err)
	}
}
