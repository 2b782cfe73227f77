package folder

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/seed-1415985d/attn"
)

// stored is one tensor of a safetensors or GGUF file, whose elements are read when they are asked
// for: a model may have more than there is memory for twice.
type stored struct {
	described
	*encoding // nil for a type that is not read
	file      *os.File
	base      int64 // of all elements in the file
	used      bool
}

// source is what errors call the parts of a kind of file.
type source struct{ file, shapes, kind, kinds string }

func (l *Loader) source() source {
	if l.header != nil {
		return source{"GGUF file", "its metadata", "type", "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, " +
			"Q5_1, IQ4_NL, MXFP4, Q3_K, Q4_K, Q5_K or Q6_K"}
	}
	return source{"safetensors file", "config.json", "dtype", "F32, F16 or BF16"}
}

// safetensorsEncodings are the types of safetensors files that are read. A file is a length in 8
// bytes, so much JSON, and the elements.
var safetensorsEncodings = map[string]*encoding{"F32": &floats, "F16": &halves, "BF16": &brains}

// Open finds the tensors of the folder, in one file or in those that an index names.
func (l *Loader) Open() {
	const single, index = "model.safetensors", "model.safetensors.index.json"
	l.tensors = map[string]*stored{}
	if l.Err != nil {
		return
	}
	if l.exists(single) {
		l.Check(single, l.add(single))
		return
	}
	var shards struct {
		Files map[string]string `json:"weight_map"`
	}
	if !l.exists(index) {
		l.Fail("%s: want %s or, for a model in several files, %s", l.Path, single, index)
	}
	l.JSON(index, &shards, Idle{"metadata": nil})
	for _, name := range slices.Compact(slices.Sorted(maps.Values(shards.Files))) {
		if name != filepath.Base(name) {
			l.Check(index, fmt.Errorf("weight_map names %q, want files in the same folder", name))
			return
		}
		l.Check(name, l.add(name))
	}
	for _, tensor := range slices.Sorted(maps.Keys(shards.Files)) {
		if t := l.tensors[tensor]; t == nil || filepath.Base(t.file.Name()) != shards.Files[tensor] {
			l.Check(index, fmt.Errorf("weight_map has tensor %q in %s, which has no such tensor", tensor,
				shards.Files[tensor]))
		}
	}
}

// add reads the header of a file.
func (l *Loader) add(name string) error {
	f, err := os.Open(filepath.Join(l.Path, name))
	if err != nil {
		return err
	}
	l.files = append(l.files, f)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var length [8]byte
	if _, err := f.ReadAt(length[:], 0); err != nil {
		return fmt.Errorf("%d bytes, want a safetensors file, which begins with the length of its "+
			"header: %w", info.Size(), err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > uint64(info.Size()-8) || n > 100<<20 {
		return fmt.Errorf("its header is to have %d bytes, want at most 100 MiB and no more than the "+
			"file, which has %d", n, info.Size())
	}
	header := make([]byte, n)
	if _, err := f.ReadAt(header, 8); err != nil {
		return err
	}
	list, err := readHeader(header)
	if err == nil {
		err = checkLayout(list, uint64(info.Size())-8-n)
	}
	if err != nil {
		return err
	}
	for tensor, d := range list {
		if other := l.tensors[tensor]; other != nil {
			return fmt.Errorf("tensor %s is in %s, too", tensor, other.file.Name())
		}
		l.tensors[tensor] = &stored{described: d, encoding: safetensorsEncodings[d.Type], file: f,
			base: int64(n) + 8}
	}
	return nil
}

// Has says whether a folder has a tensor.
func (l *Loader) Has(name string) bool { return l.tensors[name] != nil }

// Kind is the type in which the folder keeps tensors: F32, which holds the numbers of all types, if
// they have several, or one that is no format.
func (l *Loader) Kind(names ...string) attn.Format {
	kind := attn.Format(-1)
	for _, name := range names {
		t := l.tensors[name]
		if t == nil || t.encoding == nil || t.format < 0 || kind >= 0 && t.format != kind {
			return attn.F32
		}
		kind = t.format
	}
	return kind
}

// Tensor reads a tensor that must have a shape.
func (l *Loader) Tensor(name string, shape ...int) []float32 {
	if l.Err == nil && l.Random != nil {
		return l.Random(name, shape)
	}
	t, data := l.stored(name, shape)
	if l.Err != nil {
		return nil
	}
	x := make([]float32, product(shape))
	t.row(x, data)
	return x
}

func product(shape []int) int {
	n := 1
	for _, s := range shape {
		n *= s
	}
	return n
}

// stored reads a tensor as it is in its file.
func (l *Loader) stored(name string, shape []int) (t *stored, data []byte) {
	t = l.tensors[name]
	switch {
	case l.Err != nil:
		return nil, nil
	case t == nil:
		l.Fail("%s: no %s has tensor %s, want one of shape %v", l.Path, l.source().file, name, shape)
		return nil, nil
	}
	t.used = true
	data, err := t.read(shape, l.source())
	if err != nil {
		l.Fail("%s: tensor %s %w", t.file.Name(), name, err)
	}
	return t, data
}

// read returns the bytes of a tensor that must have a shape.
func (t *stored) read(shape []int, from source) ([]byte, error) {
	switch {
	case !sameShape(t.Shape, shape):
		return nil, fmt.Errorf("has shape %v, want %v by %s", t.Shape, shape, from.shapes)
	case t.encoding == nil:
		return nil, fmt.Errorf("has %s %s, want %s", from.kind, t.Type, from.kinds)
	}
	bytes, wanted := t.To()-t.From(), uint64(t.size(product(shape)))
	if bytes != wanted {
		return nil, fmt.Errorf("has %d bytes, want %d for %v elements of %s", bytes, wanted, shape,
			t.Type)
	}
	data := make([]byte, bytes)
	if _, err := t.file.ReadAt(data, t.base+int64(t.From())); err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	return data, nil
}

// sameShape compares shapes but for ones before them, which change no place of an element.
func sameShape(a []uint64, b []int) bool {
	for len(a) > 0 && a[0] == 1 {
		a = a[1:]
	}
	for len(b) > 0 && b[0] == 1 {
		b = b[1:]
	}
	return slices.EqualFunc(a, b, func(x uint64, y int) bool { return x == uint64(y) })
}

// CheckUsed refuses tensors that nobody asked for, since a model that knows nothing of them would
// answer wrongly, but for those without effect: those of no elements, and some names, in which * is
// for any letters.
func (l *Loader) CheckUsed(idle ...string) {
	for _, name := range slices.Sorted(maps.Keys(l.tensors)) {
		t := l.tensors[name]
		known := slices.ContainsFunc(idle, func(pattern string) bool {
			ok, _ := path.Match(pattern, name)
			return ok
		})
		if !t.used && !known && !slices.Contains(t.Shape, 0) {
			l.Fail("%s: tensor %s, %s %v, has no place in this kind of model, want only those that it "+
				"has", t.file.Name(), name, t.Type, t.Shape)
		}
	}
}

// Close closes what Open opened.
func (l *Loader) Close() {
	for _, f := range l.files {
		_ = f.Close() // it was only read
	}
	if l.pool != nil {
		_ = l.pool.Close() // nobody uses it
	}
}
