package weights

import (
	"fmt"
	"os"
	"strings"
	"sync"
)

// FileTable is a [Table] whose rows are read from the file whenever they are asked for, so that
// they need no memory. Its file is open until Close.
type FileTable struct {
	table   *Table // in memory, of a random model; or nil:
	of      Table  // how rows are decoded
	file    *os.File
	name    string
	offset  int64
	scratch sync.Pool // of *[]byte, for a row
}

// FileTable finds a tensor of some rows, without reading it.
func (l *Loader) FileTable(name string, rows, width int) *FileTable {
	if l.Random != nil {
		return &FileTable{table: l.Table(name, rows, width, nil)}
	}
	t, again := l.find(name, []int{rows, width})
	if l.Err != nil {
		return nil
	}
	f := &FileTable{name: name, offset: t.offset, of: Table{encoding: t.encoding, width: width,
		scale: l.scale(strings.TrimSuffix(name, ".weight"), 1, 0)}}
	size := t.encoding.size(width)
	f.scratch.New = func() any { b := make([]byte, size); return &b }
	var err error
	if f.file, err = os.Open(t.Path()); err != nil {
		l.Fail("%w", err)
	} else if !again {
		l.progress(int64(rows) * int64(size))
	}
	return f
}

// Row reads and decodes a row.
func (f *FileTable) Row(to []float32, i int) error {
	if f.table != nil {
		f.table.Row(to, i)
		return nil
	}
	row := f.scratch.Get().(*[]byte)
	defer f.scratch.Put(row)
	if _, err := f.file.ReadAt(*row, f.offset+int64(i)*int64(len(*row))); err != nil {
		return fmt.Errorf("%s: row %d of tensor %s: %w", f.file.Name(), i, f.name, err)
	}
	one := f.of
	one.data = *row
	one.Row(to, 0)
	return nil
}

// MemoryUse returns the bytes of rows in memory.
func (f *FileTable) MemoryUse() int {
	if f.table == nil {
		return 0
	}
	return f.table.MemoryUse()
}

// Close closes the file.
func (f *FileTable) Close() {
	if f.file != nil {
		_ = f.file.Close() // it was only read
	}
}
