// Package safetensors reads the headers of safetensors files.
package safetensors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-1415985d/attn/strictjson"
)

// Described is what the header of a safetensors file says of a tensor. It is own code because
// nlpodyssey/safetensors refuses files that have types it does not know, also of tensors that
// nobody reads, and takes tensors that overlap.
type Described struct {
	Type    string   `json:"dtype"`
	Shape   []uint64 `json:"shape"`
	Offsets []uint64 `json:"data_offsets"`
}

func (d *Described) From() uint64 { return d.Offsets[0] }
func (d *Described) To() uint64   { return d.Offsets[1] }

// ReadHeader returns what a header says of each tensor.
func ReadHeader(header []byte) (map[string]Described, error) {
	list := map[string]Described{}
	if !json.Valid(header) || !bytes.HasPrefix(bytes.TrimSpace(header), []byte("{")) {
		return nil, errors.New("want a header of safetensors, an object in JSON")
	}
	err := strictjson.Members(header, "", func(name string, value json.RawMessage) error {
		var d Described
		if name == "__metadata__" { // for people
			if err := json.Unmarshal(value, &map[string]string{}); err != nil {
				return fmt.Errorf("want a header of safetensors: %s: %w", name, err)
			}
			return nil
		}
		err := strictjson.Obey(value, &d, nil)
		if err == nil && (d.Type == "" || d.Shape == nil || len(d.Offsets) != 2) {
			err = errors.New("want dtype, shape and data_offsets, two numbers")
		}
		if err != nil {
			return fmt.Errorf("want a header of safetensors: tensor %q: %w", name, err)
		}
		list[name] = d
		return nil
	})
	return list, err
}

// CheckLayout makes sure that each tensor begins where the one before it ends, and the last one
// ends with the file.
func CheckLayout(list map[string]Described, size uint64) error {
	end, last := uint64(0), "the header"
	names := slices.SortedFunc(maps.Keys(list), func(a, b string) int {
		return cmp.Or(slices.Compare(list[a].Offsets, list[b].Offsets), cmp.Compare(a, b))
	})
	for _, name := range names {
		if d := list[name]; d.To() < d.From() || d.To() > size {
			return fmt.Errorf("tensor %s is to be bytes %d to %d, want them within the file, which has %d "+
				"after its header", name, d.From(), d.To(), size)
		}
	}
	for _, name := range names {
		d := list[name]
		if d.From() != end {
			return fmt.Errorf("tensor %s begins at byte %d, want %d, where %s ends: tensors neither "+
				"overlap nor leave room", name, d.From(), end, last)
		}
		end, last = d.To(), name
	}
	if end != size {
		return fmt.Errorf("the tensors have %d bytes, want %d as the file has after its header", end,
			size)
	}
	return nil
}
