package folder

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn"
)

// Tensors is the tensors of a folder's safetensors files: each is a length in 8 bytes, so much JSON, and the elements.
type Tensors struct {
	folder  string
	files   []*os.File
	tensors map[string]*stored
}

// stored is one tensor, of which nothing is believed until it is read.
type stored struct {
	Type    string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"` // from base on

	file *os.File
	base int64
	size int64 // of the file, after base
	used bool
}

// storedTypes are those that this program reads.
var storedTypes = map[string]struct {
	bytes int64
	kind  attn.CacheType
}{"F32": {4, attn.F32}, "F16": {2, attn.F16}, "BF16": {2, attn.BF16}}

// OpenTensors finds the tensors of a folder, in one file or in those that an index names.
func OpenTensors(folder string) (*Tensors, error) {
	c := &Tensors{folder: folder, tensors: map[string]*stored{}}
	if err := c.addAll(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Tensors) addAll() error {
	single, index := filepath.Join(c.folder, "model.safetensors"), filepath.Join(c.folder, "model.safetensors.index.json")
	if _, err := os.Stat(single); err == nil {
		return c.add(single)
	}
	var shards struct {
		Files map[string]string `json:"weight_map"`
	}
	if err := readJSON(index, &shards); err != nil {
		return fmt.Errorf("want model.safetensors or, for a model in several files, an index: %w", err)
	}
	for _, name := range slices.Compact(slices.Sorted(maps.Values(shards.Files))) {
		if name != filepath.Base(name) {
			return fmt.Errorf("%s: weight_map names %q, want files in the same folder", index, name)
		}
		if err := c.add(filepath.Join(c.folder, name)); err != nil {
			return err
		}
	}
	return nil
}

// add reads the header of a file.
func (c *Tensors) add(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	c.files = append(c.files, f)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var length [8]byte
	if _, err := f.ReadAt(length[:], 0); err != nil {
		return fmt.Errorf("%s: %d bytes, want a safetensors file, which begins with the length of its header: %w", path, info.Size(), err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > uint64(info.Size()-8) || n > 100<<20 {
		return fmt.Errorf("%s: its header is to have %d bytes, want at most 100 MiB and no more than the file, which has %d", path, n, info.Size())
	}
	header := make([]byte, n)
	if _, err := f.ReadAt(header, 8); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	tensors := map[string]json.RawMessage{}
	if err := json.Unmarshal(header, &tensors); err != nil {
		return fmt.Errorf("%s: want a header in JSON: %w", path, err)
	}
	delete(tensors, "__metadata__")
	for name, description := range tensors {
		t := &stored{file: f, base: int64(n) + 8, size: info.Size() - int64(n) - 8}
		if err := json.Unmarshal(description, t); err != nil {
			return fmt.Errorf("%s: tensor %s: want dtype, shape and data_offsets: %w", path, name, err)
		}
		if other := c.tensors[name]; other != nil {
			return fmt.Errorf("%s: tensor %s is in %s, too", path, name, other.file.Name())
		}
		c.tensors[name] = t
	}
	return nil
}

func (c *Tensors) Has(name string) bool { return c.tensors[name] != nil }

// Kind is the type in which the folder keeps a tensor.
func (c *Tensors) Kind(name string) attn.CacheType {
	if t := c.tensors[name]; t != nil {
		return storedTypes[t.Type].kind
	}
	return attn.F32
}

// Tensor reads a tensor that must have a shape.
func (c *Tensors) Tensor(name string, shape ...int) ([]float32, error) {
	t := c.tensors[name]
	if t == nil {
		return nil, fmt.Errorf("%s: no safetensors file has tensor %s, want one of shape %v", c.folder, name, shape)
	}
	fail := func(format string, args ...any) ([]float32, error) {
		return nil, fmt.Errorf("%s: tensor %s %s", t.file.Name(), name, fmt.Sprintf(format, args...))
	}
	if !slices.Equal(t.Shape, shape) {
		return fail("has shape %v, want %v by config.json", t.Shape, shape)
	}
	kind, ok := storedTypes[t.Type]
	if !ok {
		return fail("has dtype %q, want F32, F16 or BF16", t.Type)
	}
	elements := int64(1)
	for _, n := range shape {
		elements *= int64(n)
	}
	from, to := t.Offsets[0], t.Offsets[1]
	if from < 0 || to < from || to > t.size {
		return fail("is to be bytes %d to %d, want them within the file, which has %d after its header", from, to, t.size)
	}
	if to-from != elements*kind.bytes {
		return fail("has %d bytes, want %d for %v elements of %s", to-from, elements*kind.bytes, shape, t.Type)
	}
	data := make([]byte, to-from)
	if _, err := t.file.ReadAt(data, t.base+from); err != nil {
		return fail("cannot be read: %v", err)
	}
	t.used = true
	return widen(data, kind.kind), nil
}

// widen returns elements as float32, which represents all of them.
func widen(data []byte, kind attn.CacheType) []float32 {
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

// CheckUsed refuses a folder with weights that this engine knows nothing of, since its answers would be wrong.
func (c *Tensors) CheckUsed() error {
	for _, name := range slices.Sorted(maps.Keys(c.tensors)) {
		t := c.tensors[name]
		if !t.used && name != "lm_head.weight" && !strings.HasSuffix(name, "rotary_emb.inv_freq") {
			return fmt.Errorf("%s: tensor %s has no place in a Llama decoder, want only those that it has", t.file.Name(), name)
		}
	}
	return nil
}

func (c *Tensors) Close() {
	for _, f := range c.files {
		_ = f.Close() // it was only read
	}
}
