// Package folder reads models from folders as they are published: JSON, tensors in safetensors
// files, and tokenizers.
package folder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/gguf"
	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/chat"
)

// Loader reads a model's folder. It keeps the first error and does nothing after it, so that a
// model can be read like a table.
type Loader struct {
	Path     string
	Random   func(name string, shape []int) []float32 // makes weights of no folder
	Err      error
	Packed   int  // bytes of all matrices so far
	Integers bool // matrices of I8 and of blocks of integers multiply in integers

	files    io.Closer // what the tensors are in
	tensors  map[string]*stored
	metadata *gguf.File // nil for a folder
	groups   []string   // of its keys, that were read
	pool     *attn.Pool // that packs it
	pack     *packFile  // nil for none
}

// Of is a loader of a folder. It refuses one with an adapter (LoRA and others): its weights would
// have to be added to the model's.
func Of(path string, integers bool) *Loader {
	const adapter = "adapter_config.json"
	l := &Loader{Path: path, Integers: integers}
	if l.exists(adapter) {
		l.Check(adapter, errors.New("the folder has an adapter, want a model without one, as there is "+
			"after merging it"))
	}
	return l
}

// OfGGUF opens a model in a GGUF file, or in several, of which it gets the first.
func OfGGUF(path string, integers bool) *Loader {
	l := &Loader{Path: path, Integers: integers, tensors: map[string]*stored{},
		pool: attn.NewPool(runtime.GOMAXPROCS(0))}
	l.openGGUF()
	return l
}

// IsGGUF says whether a path is that of a file, not of a folder.
func IsGGUF(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() || filepath.Ext(path) == ".gguf"
}

// Beside begins to read a tokenizer, which takes about as long as to start from packed matrices,
// and returns who waits for it. Errors of the model come first.
func (l *Loader) Beside(read func(l *Loader) *BPE) (wait func() *BPE) {
	other, done := &Loader{Path: l.Path, Err: l.Err}, make(chan *BPE, 1)
	go func() { done <- read(other) }()
	return func() *BPE {
		t := <-done
		if l.Err == nil {
			l.Err = other.Err
		}
		return t
	}
}

// Fail notes an error, if it is the first.
func (l *Loader) Fail(format string, args ...any) {
	if l.Err == nil {
		l.Err = fmt.Errorf(format, args...)
	}
}

// Check notes what is wrong with a file.
func (l *Loader) Check(name string, err error) {
	var size sizeError
	if errors.As(err, &size) && size.n == 0 && l.lacks(name, size.key) {
		err = errors.New(strings.Replace(err.Error(), " is 0,", " is not there,", 1))
	}
	if err != nil {
		l.Fail("%s: %w", filepath.Join(l.Path, name), err)
	}
}

// lacks says whether a JSON file has a key nowhere, or the metadata of a GGUF file.
func (l *Loader) lacks(name, key string) bool {
	if l.metadata != nil {
		return !slices.ContainsFunc(l.metadata.Metadata, func(kv gguf.KeyValue) bool {
			return kv.Key == key || strings.HasSuffix(kv.Key, "."+key)
		})
	}
	data, err := os.ReadFile(filepath.Join(l.Path, name))
	return err == nil && !bytes.Contains(data, strconv.AppendQuote(nil, key))
}

// JSON reads a file into what it fills, of which all keys must be obeyed or idle.
func (l *Loader) JSON(name string, into any, idle strictjson.Idle) {
	if l.Err == nil {
		l.Err = strictjson.ReadFile(filepath.Join(l.Path, name), into, idle)
	}
}

// Metadata reads the keys of a GGUF file that begin with a group's name. All must be obeyed or
// idle.
func (l *Loader) Metadata(group string, into any, idle strictjson.Idle) {
	if l.Err == nil {
		l.groups = append(l.groups, group)
		l.Err = l.metadata.Unmarshal(group, into, idle)
	}
}

// CheckMetadata refuses keys of groups that nobody read, but for those without effect.
func (l *Loader) CheckMetadata(idle strictjson.Idle) {
	if l.Err == nil {
		l.Err = l.metadata.CheckKeys(idle, append(l.groups, "split")...) // which opening reads
	}
}

// OptionalJSON reads a file if it is there.
func (l *Loader) OptionalJSON(name string, into any, idle strictjson.Idle) {
	if l.exists(name) {
		l.JSON(name, into, idle)
	}
}

func (l *Loader) exists(name string) bool {
	_, err := os.Stat(filepath.Join(l.Path, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// First is the first of some names that the folder has, or the first of all.
func (l *Loader) First(names ...string) string {
	return names[max(0, slices.IndexFunc(names, l.exists))]
}

func (l *Loader) read(name string) []byte {
	if l.Err != nil {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(l.Path, name))
	if err != nil {
		l.Fail("%w", err)
	}
	return data
}

// OneOrMore is a number or a list of them.
type OneOrMore []int

func (o *OneOrMore) UnmarshalJSON(data []byte) error {
	if data[0] == '[' || string(data) == "null" {
		return json.Unmarshal(data, (*[]int)(o))
	}
	*o = make(OneOrMore, 1)
	return json.Unmarshal(data, &(*o)[0])
}

// Linear is x·Wᵀ + bias.
type Linear struct {
	*attn.Matrix
	Bias    []float32 // nil for none
	In, Out int
}

// mostSize is more than sizes of models are.
const mostSize = 1 << 24

// sizeError is a number that no model has.
type sizeError struct {
	key string
	n   int
}

func (e sizeError) Error() string {
	return fmt.Sprintf("%s is %d, want 1 to %d", e.key, e.n, mostSize)
}

// Sizes refuses numbers of a config, under their names there, that no model has. Check says of a
// key that the file has not that it is missing.
func Sizes(names []string, sizes ...int) error {
	for i, n := range sizes {
		if n < 1 || n > mostSize {
			return sizeError{names[i], n}
		}
	}
	return nil
}

// Codec turns texts and conversations into tokens, and tokens back.
type Codec interface {
	// Encode returns the tokens of a text, control tokens among them whose texts it has.
	Encode(text string) ([]int, error)
	// EncodePlain returns those of a text whose writer may write no control tokens.
	EncodePlain(text string) ([]int, error)
	// Conversation returns those of messages up to where the answer begins. Messages have no control
	// tokens, unless control is true.
	Conversation(control bool, messages ...chat.Message) ([]int, error)
	// ControlIn are the texts of control tokens that Encode finds in a text.
	ControlIn(text string) []string
	Decode(token int) string
	Ends() []int // tokens that end an answer though no number says so
}
