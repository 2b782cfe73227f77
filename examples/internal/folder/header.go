package folder

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// described is what the header of a safetensors file says of a tensor. It is own code because
// nlpodyssey/safetensors refuses files that have types it does not know, also of tensors that
// nobody reads, and takes tensors that overlap.
type described struct {
	Type    string   `json:"dtype"`
	Shape   []uint64 `json:"shape"`
	Offsets []uint64 `json:"data_offsets"`
}

func (d *described) from() uint64 { return d.Offsets[0] }
func (d *described) to() uint64   { return d.Offsets[1] }

// readHeader returns what a header says of each tensor.
func readHeader(header []byte) (map[string]described, error) {
	list := map[string]described{}
	if !json.Valid(header) || !bytes.HasPrefix(bytes.TrimSpace(header), []byte("{")) {
		return nil, errors.New("want a header of safetensors, an object in JSON")
	}
	err := members(header, "", func(name string, value json.RawMessage) error {
		var d described
		if name == "__metadata__" { // for people
			if err := json.Unmarshal(value, &map[string]string{}); err != nil {
				return fmt.Errorf("want a header of safetensors: %s: %w", name, err)
			}
			return nil
		}
		err := Obey(value, &d, nil)
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

// checkLayout makes sure that each tensor begins where the one before it ends, and the last one
// ends with the file.
func checkLayout(list map[string]described, size uint64) error {
	end, last := uint64(0), "the header"
	names := slices.SortedFunc(maps.Keys(list), func(a, b string) int {
		return cmp.Or(slices.Compare(list[a].Offsets, list[b].Offsets), cmp.Compare(a, b))
	})
	for _, name := range names {
		if d := list[name]; d.to() < d.from() || d.to() > size {
			return fmt.Errorf("tensor %s is to be bytes %d to %d, want them within the file, which has %d "+
				"after its header", name, d.from(), d.to(), size)
		}
	}
	for _, name := range names {
		d := list[name]
		if d.from() != end {
			return fmt.Errorf("tensor %s begins at byte %d, want %d, where %s ends: tensors neither "+
				"overlap nor leave room", name, d.from(), end, last)
		}
		end, last = d.to(), name
	}
	if end != size {
		return fmt.Errorf("the tensors have %d bytes, want %d as the file has after its header", end,
			size)
	}
	return nil
}
