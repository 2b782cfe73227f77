package folder

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/seed-1415985d/attn"
)

// stored is one tensor of a safetensors file. A file is a length in 8 bytes, so much JSON, and the
// elements, of which each tensor's are read when they are asked for: a model may have more than
// there is memory for twice.
type stored struct {
	described
	file *os.File
	base int64 // of all elements in the file
	used bool
}

// kinds are the types that are read.
var kinds = map[string]attn.Format{"F32": attn.F32, "F16": attn.F16, "BF16": attn.BF16}

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
		l.tensors[tensor] = &stored{described: d, file: f, base: int64(n) + 8}
	}
	return nil
}

// Has says whether a folder has a tensor.
func (l *Loader) Has(name string) bool { return l.tensors[name] != nil }

// Kind is the type in which the folder keeps tensors: F32, which holds the numbers of all types, if
// they have several.
func (l *Loader) Kind(names ...string) attn.Format {
	kind := attn.Format(-1)
	for _, name := range names {
		t := l.tensors[name]
		if t == nil || kind >= 0 && kinds[t.Type] != kind {
			return attn.F32
		}
		kind = kinds[t.Type]
	}
	return kind
}

// Tensor reads a tensor that must have a shape.
func (l *Loader) Tensor(name string, shape ...int) []float32 {
	t := l.tensors[name]
	switch {
	case l.Err != nil:
		return nil
	case l.Random != nil:
		return l.Random(name, shape)
	case t == nil:
		l.Fail("%s: no safetensors file has tensor %s, want one of shape %v", l.Path, name, shape)
		return nil
	}
	t.used = true
	x, err := t.read(shape)
	if err != nil {
		l.Fail("%s: tensor %s %w", t.file.Name(), name, err)
	}
	return x
}

func (t *stored) read(shape []int) ([]float32, error) {
	kind, ok := kinds[t.Type]
	size, elements := uint64(2), uint64(1)
	if kind == attn.F32 {
		size = 4
	}
	for _, n := range shape {
		elements *= uint64(n)
	}
	bytes := t.to() - t.from()
	switch {
	case !slices.EqualFunc(t.Shape, shape, func(a uint64, b int) bool { return a == uint64(b) }):
		return nil, fmt.Errorf("has shape %v, want %v by config.json", t.Shape, shape)
	case !ok:
		return nil, fmt.Errorf("has dtype %s, want F32, F16 or BF16", t.Type)
	case bytes != elements*size:
		return nil, fmt.Errorf("has %d bytes, want %d for %v elements of %s", bytes, elements*size, shape,
			t.Type)
	}
	data := make([]byte, bytes)
	if _, err := t.file.ReadAt(data, t.base+int64(t.from())); err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	return widen(data, kind), nil
}

// widen returns elements as float32, which represents all of them.
func widen(data []byte, kind attn.Format) []float32 {
	if kind == attn.F32 {
		x := make([]float32, len(data)/4)
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		return x
	}
	x := make([]float32, len(data)/2)
	for i := range x {
		bits := uint32(binary.LittleEndian.Uint16(data[2*i:]))
		if kind == attn.F16 {
			x[i] = half(bits)
		} else {
			x[i] = math.Float32frombits(bits << 16)
		}
	}
	return x
}

// half is the value of an IEEE 754 half.
func half(bits uint32) float32 {
	sign, rest := bits&0x8000<<16, bits&0x7fff<<13
	if rest >= 0x7c00<<13 { // infinity or NaN
		return math.Float32frombits(sign | 0xff<<23 | rest)
	}
	// The exponents' biases are 127 and 15; the product is exact, for subnormal halves, too.
	return math.Float32frombits(sign|rest) * 0x1p112
}

// CheckUsed refuses tensors that nobody asked for, since a model that knows nothing of them would
// answer wrongly, but for those without effect: their names, in which * is for any letters.
func (l *Loader) CheckUsed(idle ...string) {
	for _, name := range slices.Sorted(maps.Keys(l.tensors)) {
		t := l.tensors[name]
		if !t.used && !slices.ContainsFunc(idle, func(pattern string) bool {
			ok, _ := path.Match(pattern, name)
			return ok
		}) {
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
}
