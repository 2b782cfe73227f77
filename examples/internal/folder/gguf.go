package folder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/gguf"
)

// OfGGUF opens a model in a GGUF file, or in several, of which it gets the first.
func OfGGUF(path string, integers bool) *Loader {
	l := &Loader{Path: path, Integers: integers, tensors: map[string]*stored{},
		groups: map[string]bool{}, pool: attn.NewPool(runtime.GOMAXPROCS(0))}
	if l.header = l.addGGUF(path); l.Err == nil {
		l.addParts()
	}
	return l
}

// addGGUF reads the header of a file.
func (l *Loader) addGGUF(path string) *gguf.Header {
	f, err := os.Open(path)
	if err != nil {
		l.Fail("%w", err)
		return nil
	}
	l.files = append(l.files, f)
	info, err := f.Stat()
	if err != nil {
		l.Fail("%w", err)
		return nil
	}
	h, err := gguf.Read(f, info.Size())
	if err != nil {
		l.Fail("%s: want a GGUF file: %w", path, err)
		return nil
	}
	for _, t := range h.Tensors {
		if other := l.tensors[t.Name]; other != nil {
			l.Fail("%s: tensor %s is in %s, too", path, t.Name, other.file.Name())
		}
		from := uint64(t.Offset)
		l.tensors[t.Name] = &stored{encoding: ggufEncodings[t.Type], file: f, base: h.Data,
			described: described{Type: t.Type.String(), Shape: t.Shape, Offsets: []uint64{from,
				from + uint64(t.Bytes)}}}
	}
	return h
}

// split is what files say of which part of a model they are.
type split struct {
	Number  int  `json:"no"` // from 0 on
	Count   int  `json:"count"`
	Tensors *int `json:"tensors.count"` // of all files
}

var partName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// addParts adds the other files of a model in several.
func (l *Loader) addParts() {
	all := map[string]split{}
	l.Metadata("split", &all, nil)
	s := all["split"]
	name := partName.FindStringSubmatch(l.Path)
	switch {
	case l.Err != nil || s.Count <= 1 && s.Number == 0:
		return
	case name == nil || name[2] != "00001" || s.Number != 0 || name[3] != fmt.Sprintf("%05d", s.Count):
		l.Fail("%s: split.no is %d and split.count %d, want the first file, with no 0 and a name that "+
			"ends in -00001-of-%05d.gguf", l.Path, s.Number, s.Count, s.Count)
		return
	}
	for i := 1; i < s.Count && l.Err == nil; i++ {
		path := fmt.Sprintf("%s-%05d-of-%s.gguf", name[1], i+1, name[3])
		if h := l.addGGUF(path); l.Err == nil {
			l.checkPart(path, h, i)
		}
	}
	if n := len(l.tensors); l.Err == nil && s.Tensors != nil && *s.Tensors != n {
		l.Fail("%s: split.tensors.count is %d, want %d as the files have", l.Path, *s.Tensors, n)
	}
}

// checkPart makes sure that a file says which part it is, and nothing else that the first does not.
func (l *Loader) checkPart(path string, h *gguf.Header, number int) {
	for _, kv := range h.Metadata {
		want := l.header.Get(kv.Key)
		if kv.Key == "split.no" {
			kv.Value, want = fmt.Sprint(kv.Value), strconv.Itoa(number)
		}
		if !reflect.DeepEqual(kv.Value, want) {
			l.Fail("%s: %s is %s, want %s as the first file says", path, kv.Key, short(asJSON(kv.Value)),
				short(asJSON(want)))
		}
	}
}

// Metadata reads the keys that begin with a group's name into a map of one struct, under that name.
// All keys must be obeyed or idle, see Obey.
func (l *Loader) Metadata(group string, into any, idle Idle) {
	if l.Err != nil {
		return
	}
	l.groups[group] = true
	var text bytes.Buffer
	fmt.Fprintf(&text, "{%s: {", asJSON(group))
	comma := ""
	for _, kv := range l.header.Metadata {
		if key, ok := strings.CutPrefix(kv.Key, group+"."); ok && !l.isBadText(key, kv, idle) {
			fmt.Fprintf(&text, "%s%s: %s", comma, asJSON(key), asJSON(kv.Value))
			comma = ", "
		}
	}
	text.WriteString("}}")
	err := json.Unmarshal(text.Bytes(), into)
	if err != nil {
		err = fmt.Errorf("want metadata as published models have it: %w", err)
	} else {
		err = idle.Check(text.Bytes(), reflect.TypeOf(into), "", "")
	}
	l.Check("", err)
}

// isBadText says whether a value has texts that are no UTF-8, and notes an error unless they have
// no effect: a description changes nothing, and a token would be another one.
func (l *Loader) isBadText(key string, kv gguf.KeyValue, idle Idle) bool {
	text, bad := kv.Value.(string)
	is := "is"
	if list, ok := kv.Value.([]any); ok {
		i := slices.IndexFunc(list, func(x any) bool {
			text, ok := x.(string)
			return ok && !utf8.ValidString(text)
		})
		if bad = i >= 0; bad {
			text, is = list[i].(string), "has"
		}
	}
	if !bad || utf8.ValidString(text) {
		return false
	}
	if values, ok := idle.Find(key); !ok || values != nil {
		l.Check("", fmt.Errorf("key %q %s %q, want UTF-8", kv.Key, is, text))
	}
	return true
}

// asJSON is a value of metadata: all of those have a JSON.
func asJSON(value any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value)
	return bytes.TrimSpace(b.Bytes())
}

// CheckMetadata refuses keys of groups that nobody read, but for those without effect.
func (l *Loader) CheckMetadata(idle Idle) {
	if l.Err != nil {
		return
	}
	for _, kv := range l.header.Metadata {
		group, _, _ := strings.Cut(kv.Key, ".")
		if !l.groups[group] && !l.isBadText(kv.Key, kv, idle) {
			l.Check("", idle.Allow(kv.Key, kv.Key, asJSON(kv.Value)))
		}
	}
}

// IsGGUF says whether a path is that of a file, not of a folder.
func IsGGUF(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() || filepath.Ext(path) == ".gguf"
}
