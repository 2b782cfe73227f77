// Package weights loads published models into matrices: folders with JSON and tensors in
// safetensors files, and GGUF files.
package weights

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/gguf"
	"github.com/seed-1415985d/attn/internal/modelfile"
	"github.com/seed-1415985d/attn/internal/strictjson"
)

// Loader loads a model's folder or GGUF file. It keeps the first error and does nothing after it,
// so that callers need not check each step.
type Loader struct {
	Path   string
	Random func(name string, shape []int) []float32 // makes weights of a random model
	Err    error
	Packed int // bytes of all matrices so far
	Way

	files    io.Closer // the files of the tensors
	tensors  map[string]*stored
	metadata *gguf.File // nil for a folder
	groups   []string   // of its keys, that were read
	pool     *attn.Pool // packs matrices
	pack     *packFile  // nil for none

	report       func(done, of int64) // nil for none
	read, toRead int64                // bytes
}

// Way says how matrices multiply: in float32, or
type Way struct {
	Integers bool // in integers, by matrices of I8 and of blocks of integers,
	BFloat16 bool // or in bfloat16
}

// Of returns a loader of a folder. It refuses a folder with an adapter (LoRA and others), whose
// weights would have to be added to the model's.
func Of(path string, way Way) *Loader {
	const adapter = "adapter_config.json"
	l := &Loader{Path: path, Way: way}
	if _, err := os.Stat(path); err != nil { // rather than that a file in it is not there
		l.Err = err
		return l
	}
	if l.Exists(adapter) {
		l.Check(adapter, errors.New("the folder has an adapter, want a model without one, as there is "+
			"after merging it"))
	}
	return l
}

// OfGGUF opens a model in a GGUF file, or the first of several files.
func OfGGUF(path string, way Way) *Loader {
	l := &Loader{Path: path, Way: way, tensors: map[string]*stored{},
		pool: attn.NewPool(runtime.GOMAXPROCS(0))}
	l.openGGUF()
	return l
}

// IsGGUF reports whether a path is a file, not a folder.
func IsGGUF(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() || filepath.Ext(path) == ".gguf"
}

// Fail records an error, if it is the first.
func (l *Loader) Fail(format string, args ...any) {
	if l.Err == nil {
		l.Err = fmt.Errorf(format, args...)
	}
}

// Check records an error about a file.
func (l *Loader) Check(name string, err error) {
	var size sizeError
	if errors.As(err, &size) && size.n == 0 && l.Lacks(name, size.key) {
		err = errors.New(strings.Replace(err.Error(), " is 0,", " is not there,", 1))
	}
	if err != nil {
		l.Fail("%s: %w", filepath.Join(l.Path, name), err)
	}
}

// Lacks reports whether a key is nowhere in a JSON file, or not in the metadata of a GGUF file.
func (l *Loader) Lacks(name, key string) bool {
	if l.metadata != nil {
		return !slices.ContainsFunc(l.metadata.Metadata, func(kv gguf.KeyValue) bool {
			return kv.Key == key || strings.HasSuffix(kv.Key, "."+key)
		})
	}
	data, err := os.ReadFile(filepath.Join(l.Path, name))
	return err == nil && !bytes.Contains(data, strconv.AppendQuote(nil, key))
}

// JSON decodes a file. All its keys must have fields in into or be idle.
func (l *Loader) JSON(name string, into any, idle strictjson.Idle) {
	if l.Err == nil {
		l.Err = strictjson.ReadFile(filepath.Join(l.Path, name), into, idle)
		l.Check(name, checkFloats("", reflect.ValueOf(into)))
	}
}

// Metadata decodes the keys of a GGUF file that begin with a group's name. All must have fields in
// into or be idle.
func (l *Loader) Metadata(group string, into any, idle strictjson.Idle) {
	if l.Err == nil {
		l.groups = append(l.groups, group)
		l.Err = l.metadata.Unmarshal(group, into, idle)
		l.Check("", checkFloats(group, reflect.ValueOf(into)))
	}
}

// checkFloats refuses numbers of a struct with json tags that float32, in which models are
// computed, does not have: they would become infinite or 0. key is the struct's.
func checkFloats(key string, v reflect.Value) (err error) {
	switch v.Kind() {
	case reflect.Pointer:
		return checkFloats(key, v.Elem())
	case reflect.Struct:
		for i := 0; i < v.NumField() && err == nil; i++ {
			if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name != "" {
				err = checkFloats(strings.TrimPrefix(key+"."+name, "."), v.Field(i))
			}
		}
	case reflect.Slice:
		for i := 0; v.Type().Elem().Kind() == reflect.Float64 && i < v.Len() && err == nil; i++ {
			err = checkFloats(fmt.Sprintf("%s[%d]", key, i), v.Index(i))
		}
	case reflect.Float64:
		x := v.Float()
		if y := float32(x); y == 0 && x != 0 || math.Abs(float64(y)) > math.MaxFloat32 {
			err = fmt.Errorf("%s is %v, want a number that float32 has: 0, or a magnitude from 1.4e-45 to "+
				"3.4e+38", key, x)
		}
	}
	return err
}

// CheckMetadata refuses keys of groups that were not read, except idle ones.
func (l *Loader) CheckMetadata(idle strictjson.Idle) {
	if l.Err == nil {
		l.Err = l.metadata.CheckKeys(idle, append(l.groups, "split")...) // gguf.Open reads split.*
	}
}

// OptionalJSON decodes a file if it exists.
func (l *Loader) OptionalJSON(name string, into any, idle strictjson.Idle) {
	if l.Exists(name) {
		l.JSON(name, into, idle)
	}
}

// Exists reports whether the folder has a file.
func (l *Loader) Exists(name string) bool {
	_, err := os.Stat(filepath.Join(l.Path, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// First returns the first of some names that the folder has, or else the first of all.
func (l *Loader) First(names ...string) string {
	return names[max(0, slices.IndexFunc(names, l.Exists))]
}

// Read returns the bytes of a file.
func (l *Loader) Read(name string) []byte {
	if l.Err != nil {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(l.Path, name))
	if err != nil {
		l.Fail("%w", err)
	}
	l.Check(name, modelfile.CheckPointer(data))
	return data
}

// OneOrMore is a number or a list of numbers in JSON.
type OneOrMore []int

func (o *OneOrMore) UnmarshalJSON(data []byte) error {
	if data[0] == '[' || string(data) == "null" {
		return json.Unmarshal(data, (*[]int)(o))
	}
	*o = make(OneOrMore, 1)
	return json.Unmarshal(data, &(*o)[0])
}

// Linear is x·Wᵀ + bias, or with scales x·Wᵀ·scales + bias.
type Linear struct {
	*attn.Matrix
	Bias    []float32 // nil for none
	Scales  []float32 // of outputs; nil for none
	In, Out int
}

// MostSize exceeds all sizes of models.
const MostSize = 1 << 24

// sizeError is a size that no model has.
type sizeError struct {
	key string
	n   int
}

func (e sizeError) Error() string {
	return fmt.Sprintf("%s is %d, want 1 to %d", e.key, e.n, MostSize)
}

// Sizes refuses numbers of a configuration that no model has, by their names there. For a key that
// the file lacks, Check says that it is missing.
func Sizes(names []string, sizes ...int) error {
	for i, n := range sizes {
		if n < 1 || n > MostSize {
			return sizeError{names[i], n}
		}
	}
	return nil
}
