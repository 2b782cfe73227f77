package gguf

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"

	"github.com/seed-1415985d/attn/internal/strictjson"
)

// split has the keys about the parts of a model in several files.
type split struct {
	Number  int  `json:"no"` // from 0 on
	Count   int  `json:"count"`
	Tensors *int `json:"tensors.count"` // in all files
}

var partName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// openParts opens the other files of a model in several files.
func (f *File) openParts() error {
	var s split
	if err := f.Unmarshal("split", &s, nil); err != nil || s.Count <= 1 && s.Number == 0 {
		return err
	}
	name := partName.FindStringSubmatch(f.Path)
	if name == nil || name[2] != "00001" || s.Number != 0 || name[3] != fmt.Sprintf("%05d", s.Count) {
		return f.named(fmt.Errorf("split.no is %d and split.count %d, want the first file, with no 0 "+
			"and a name that ends in -00001-of-%05d.gguf", s.Number, s.Count, s.Count))
	}
	for i := 1; i < s.Count; i++ {
		path := fmt.Sprintf("%s-%05d-of-%s.gguf", name[1], i+1, name[3])
		h, err := f.open(path)
		if err == nil {
			err = f.checkPart(path, h, i)
		}
		if err != nil {
			return err
		}
	}
	if n := len(f.Tensors); s.Tensors != nil && *s.Tensors != n {
		return f.named(fmt.Errorf("split.tensors.count is %d, want %d as the files have", *s.Tensors, n))
	}
	return nil
}

// checkPart makes sure that a file has the right part number and otherwise no metadata that differs
// from the first file's.
func (f *File) checkPart(path string, h *header, number int) error {
	for _, kv := range h.metadata {
		want := f.Get(kv.Key)
		if kv.Key == "split.no" {
			kv.Value, want = fmt.Sprint(kv.Value), strconv.Itoa(number)
		}
		if !reflect.DeepEqual(kv.Value, want) {
			return fmt.Errorf("%s: %s is %s, want %s as the first file says", path, kv.Key,
				strictjson.Short(asJSON(kv.Value)), strictjson.Short(asJSON(want)))
		}
	}
	return nil
}
