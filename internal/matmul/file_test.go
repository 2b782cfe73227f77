package matmul

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/views"
)

// Where files cannot be mapped, matrices are read and checked.
func TestMatricesWithoutMapping(t *testing.T) {
	ms := someBodies(t, 256)
	var names []string
	for i := range ms {
		names = append(names, fmt.Sprint("matrix ", i))
	}
	var written bytes.Buffer
	_, err := SaveMatrices(&written, names, ms)
	kerneltest.Must(t, err)
	file := written.Bytes()
	empty := func() *Matrices { return &Matrices{named: map[string]*Matrix{}, open: true} }
	a := empty()
	kerneltest.Must(t, a.readAll(bytes.NewReader(file), int64(len(file))))
	for i, name := range names {
		if got := a.Matrix(name); !bytes.Equal(got.data, ms[i].data) {
			t.Errorf("%s differs", name)
		}
	}
	kerneltest.Must(t, a.Close())
	file[len(file)-5] ^= 1
	a = empty()
	kerneltest.MustFail(t, "elements", a.readAll(bytes.NewReader(file), int64(len(file))),
		views.ErrFormat)
	kerneltest.Must(t, a.Close())
	broken := brokenReaderAt{bytes.NewReader(file), 4000}
	kerneltest.MustFail(t, "broken", empty().readAll(broken, int64(len(file))), iotest.ErrTimeout)
}

// A matrix that is read and not mapped ends with its file.
func TestLoadWhole(t *testing.T) {
	for _, m := range someBodies(t, 256) {
		var written bytes.Buffer
		_, err := m.Save(&written)
		kerneltest.Must(t, err)
		file := written.Bytes()
		got, err := loadWhole(iotest.HalfReader(bytes.NewReader(file)))
		kerneltest.Must(t, err)
		if !bytes.Equal(got.data, m.data) {
			t.Error("the matrix differs")
		}
		_, err = loadWhole(bytes.NewReader(append(file, 0)))
		kerneltest.MustFail(t, "a byte too many", err, views.ErrFormat)
	}
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
