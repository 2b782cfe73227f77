package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/blocks/blockstest"
	"github.com/seed-1415985d/attn/internal/dev/gguftest"
	"github.com/seed-1415985d/attn/internal/strictjson"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// says fails if an error does not say something.
func says(t *testing.T, name string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: the error is %v, want it to say %q", name, err, want)
	}
}

// TestDecode compares tensors of each type that is decoded with what an independent encoder says
// they are, and refuses other lengths.
func TestDecode(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 1))
	x := make([]float32, 4*256)
	for i := range x {
		x[i] = float32(source.NormFloat64()) + 0.3
	}
	f := &gguftest.File{}
	exact := map[string][]float64{}
	for name, kind := range gguftest.Types {
		data, values := gguftest.Encode(name, x)
		exact[name] = values
		f.Tensors = append(f.Tensors, gguftest.Tensor{Name: name, Shape: []int{4, 256}, Type: kind,
			Data: data})
	}
	path := filepath.Join(t.TempDir(), "all.gguf")
	f.Write(t, path)
	file, err := Open(path)
	must(t, err)
	defer file.Close()
	for _, x := range file.Tensors {
		got, err := x.Float32s()
		must(t, err)
		if x.Type.String() != x.Name || len(got) != 4*256 {
			t.Errorf("%s is of type %v with %d elements", x.Name, x.Type, len(got))
		}
		for i, g := range got {
			if want := float32(exact[x.Name][i]); g != want {
				t.Fatalf("element %d of %s is %v, want %v", i, x.Name, g, want)
			}
		}
		data, err := x.Bytes()
		must(t, err)
		dst := []float32{7, 7}
		for _, wrong := range [][]byte{data[:len(data)-1], data[:0], data} {
			if err := x.Type.Decode(dst, wrong); !errors.Is(err, attn.ErrLength) || dst[0] != 7 {
				t.Errorf("%d bytes of %v: the error is %v, and dst %v", len(wrong), x.Type, err, dst)
			}
		}
		x.Release()
		again, err := x.Float32s()
		must(t, err)
		if !slices.Equal(again, got) {
			t.Errorf("after Release, %s has other elements", x.Name)
		}
	}
	must(t, file.Close())
	if _, err := file.Tensors[0].Bytes(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close, the error is %v", err)
	}
	says(t, "closed", errorOf(file.Tensors[0].Float32s()), path+": tensor ")
}

func errorOf[T any](_ T, err error) error { return err }

// TestBlockTypeOf has each type of blocks that attn multiplies, and those that it does not.
func TestBlockTypeOf(t *testing.T) {
	found := map[attn.BlockType]Type{}
	for kind := range lastType + 1 {
		of, known := kind.traits()
		if !known {
			continue
		}
		block, err := BlockTypeOf(kind)
		if err != nil {
			if !errors.Is(err, attn.ErrUnsupported) || !strings.Contains(err.Error(),
				"gguf: "+kind.String()+" is no type of blocks that are multiplied"+kind.why()+
					", want F16, Q4_0, ") {
				t.Errorf("%v: the error is %v", kind, err)
			}
			continue
		}
		found[block] = kind
		if name := strings.TrimPrefix(block.String(), "Block"); name != kind.String() {
			t.Errorf("%v is %v", kind, block)
		}
		// Zeros of this size are packed.
		m, err := attn.PackBlocks(make([]byte, of.bytes), block, 1, of.elements, attn.MatrixConfig{})
		must(t, err)
		must(t, m.Close())
	}
	for block := attn.BlockType(1); !strings.HasPrefix(block.String(), "BlockType("); block++ {
		if _, ok := found[block]; !ok {
			t.Errorf("no type of files is %v", block)
		}
	}
	says(t, "type 99", errorOf(BlockTypeOf(99)), "gguf: type 99 is no type of blocks")
	says(t, "type 99", Type(99).Decode(nil, nil), "gguf: type 99 is not decoded, want F32, F16, ")
}

// TestDecodeIsRows compares numbers of blocks of any bits with what products use.
func TestDecodeIsRows(t *testing.T) {
	source := rand.New(rand.NewPCG(2, 2))
	for kind := range lastType + 1 {
		of, _ := kind.traits()
		if of.block == 0 || of.elements == 1 {
			continue
		}
		const outputs, inputs = 20, 1024
		data := blockstest.File(source, blocks.Type(of.block), outputs, inputs)
		m, err := attn.PackBlocks(data, of.block, outputs, inputs, attn.MatrixConfig{})
		must(t, err)
		got, want := make([]float32, outputs*inputs), make([]float32, outputs*inputs)
		var all []int32
		for i := range outputs {
			all = append(all, int32(i))
		}
		must(t, kind.Decode(got, data))
		must(t, m.Rows(attn.BHLD(want, 1, 1, outputs, inputs), all))
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("number %d of %v is %v, want %v", i, kind, got[i], want[i])
			}
		}
		must(t, m.Close())
	}
}

// TestUnknownType has tensors whose bytes nobody knows, and one that is known and not decoded.
func TestUnknownType(t *testing.T) {
	f := small()
	f.Tensors[1] = gguftest.Tensor{Name: "u", Shape: []int{256}, Type: uint32(Q8_K),
		Data: make([]byte, 292)}
	file, err := read(f.Bytes())
	must(t, err)
	if data, err := file.Tensor("u").Bytes(); err != nil || len(data) != 292 {
		t.Errorf("%d bytes (%v)", len(data), err)
	}
	says(t, "u", errorOf(file.Tensor("u").Float32s()), `tensor "u" cannot be decoded: gguf: Q8_K is not`)
	v := file.Tensor("v")
	if err := errorOf(v.Float32s()); !errors.Is(err, attn.ErrUnsupported) || v.Path() != "" {
		t.Errorf("the error is %v", err)
	}
	says(t, "v", errorOf(v.Bytes()), `tensor "v" is of type 99, want one that is known here`)
}

// TestParts opens a model in three files, whose others must be there and say the same.
func TestParts(t *testing.T) {
	folder := t.TempDir()
	path := func(i int) string {
		return filepath.Join(folder, fmt.Sprintf("model-%05d-of-00003.gguf", i))
	}
	parts := func() []*gguftest.File { return small().Split(3) }
	for i, part := range parts() {
		part.Write(t, path(i+1))
	}
	f, err := Open(path(1))
	must(t, err)
	if f.Get("a.u8") != uint8(200) || len(f.Tensors) != 3 || f.Tensor("u").Path() != path(2) {
		t.Errorf("the file is %+v", f)
	}
	if got, err := f.Tensor("u").Float32s(); err != nil || len(got) != 128 {
		t.Errorf("%d elements (%v)", len(got), err)
	}
	must(t, f.Close())
	must(t, f.Close())

	says(t, "the second", errorOf(Open(path(2))), path(2)+": split.no is 1 and split.count 3, want "+
		"the first file, with no 0 and a name that ends in -00001-of-00003.gguf")
	other := filepath.Join(folder, "model.gguf")
	must(t, os.Rename(path(1), other))
	says(t, "another name", errorOf(Open(other)), other+": split.no is 0 and split.count 3, want the "+
		"first")
	must(t, os.Rename(other, path(1)))
	set := func(key string, value any) func(*gguftest.File) {
		return func(f *gguftest.File) { f.Set(key, value) }
	}
	for _, c := range []struct {
		change func(second *gguftest.File)
		want   string
	}{
		{set("split.no", uint16(2)), path(2) + ": split.no is \"2\", want \"1\" as the first file says"},
		{set("split.count", uint16(4)), path(2) + ": split.count is 4, want 3 as the first file says"},
		{set("more", true), path(2) + ": more is true, want null as the first file says"},
		{func(f *gguftest.File) { f.Tensors[0].Name = "t" },
			path(2) + `: tensor "t" is in ` + path(1) + ", too"},
		{func(f *gguftest.File) { f.Tensors = nil },
			path(1) + ": split.tensors.count is 3, want 2 as the files have"},
	} {
		second := parts()[1]
		c.change(second)
		second.Write(t, path(2))
		says(t, "the second is changed", errorOf(Open(path(1))), c.want)
	}
	must(t, os.WriteFile(path(2), []byte("tomorrow"), 0o666))
	says(t, "no GGUF", errorOf(Open(path(1))), path(2)+`: want a GGUF file: it begins with "tomo"`)
	must(t, os.Remove(path(2)))
	if err := errorOf(Open(path(1))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the second the error is %v", err)
	}
	first := parts()[0]
	first.Set("split.more", "x")
	first.Write(t, path(1))
	says(t, "a key", errorOf(Open(path(1))), path(1)+`: key "split.more" is "x", want only keys that are`)
}

// keys are what a program reads of a group.
type keys struct {
	Count  int       `json:"count"`
	Heads  []int     `json:"attention.heads"`
	Factor float64   `json:"factor"`
	Name   string    `json:"name"`
	Tokens []string  `json:"tokens"`
	Bytes  []uint16  `json:"bytes"`
	Wide   []float32 `json:"wide"`
}

func withKeys(all ...gguftest.Key) *gguftest.File { return &gguftest.File{Keys: all} }

// ownKeys reads JSON itself.
type ownKeys struct {
	Tokens []string `json:"tokens"`
}

func (o *ownKeys) UnmarshalJSON([]byte) error {
	o.Tokens = []string{"7"}
	return nil
}

// TestUnmarshal decodes keys, of which each is obeyed, idle, or an error.
func TestUnmarshal(t *testing.T) {
	folder := t.TempDir()
	open := func(all ...gguftest.Key) *File {
		path := filepath.Join(folder, "x.gguf")
		withKeys(all...).Write(t, path)
		f, err := Open(path)
		must(t, err)
		must(t, f.Close())
		return f
	}
	f := open(gguftest.Key{Name: "m.count", Value: uint64(3)},
		gguftest.Key{Name: "m.attention.heads", Value: []int32{4, -5}},
		gguftest.Key{Name: "m.name", Value: "<&> \"é\n"}, gguftest.Key{Name: "m.other", Value: false},
		gguftest.Key{Name: "m.tokens", Value: []string{"", " a"}},
		gguftest.Key{Name: "m.bytes", Value: []uint8{1, 255}},
		gguftest.Key{Name: "m.note", Value: "\xff"},
		gguftest.Key{Name: "m.notes", Value: []string{"\xfe"}},
		gguftest.Key{Name: "m.wide", Value: []float32{0.1, -1e30}},
		gguftest.Key{Name: "mm.count", Value: uint8(9)}, gguftest.Key{Name: "n", Value: "x"})
	x := keys{Factor: 2.5, Count: 1}
	idle := strictjson.Idle{"other": {"false"}, "note*": nil}
	must(t, f.Unmarshal("m", &x, idle))
	if fmt.Sprintf("%+v", x) != `{Count:3 Heads:[4 -5] Factor:2.5 Name:<&> "é`+"\n"+
		` Tokens:[  a] Bytes:[1 255] Wide:[0.1 -1e+30]}` {
		t.Errorf("%+v", x)
	}
	x.Tokens[0], x.Wide[0] = "b", 7
	if f.Get("m.tokens").([]string)[0] != "" || f.Get("m.wide").([]float32)[0] != 0.1 {
		t.Error("lists are the file's own")
	}
	own, all := ownKeys{}, map[string]any{}
	must(t, f.Unmarshal("m", &own, idle))
	must(t, f.Unmarshal("m", &all, idle))
	if fmt.Sprint(own.Tokens, all["tokens"]) != "[7] [  a]" {
		t.Errorf("who reads JSON has %v, and a map %v", own.Tokens, all["tokens"])
	}
	must(t, f.CheckKeys(strictjson.Idle{"mm.*": nil, "n": {`"x"`}}, "m"))
	for want, err := range map[string]error{
		`key "n" is "x", want only keys that are known here`:    f.CheckKeys(nil, "m", "mm", "n"),
		`key "mm.count" is 9, want only`:                        f.CheckKeys(nil, "m"),
		`key "m.other" is false, want only keys that are known`: f.Unmarshal("m", &x, anyOf("note*")),
		`key "m.note" is "\xff", want UTF-8`:                    f.Unmarshal("m", &x, anyOf("other")),
		`key "m.notes" has "\xfe", want UTF-8`:                  f.Unmarshal("m", &x, anyOf("note", "other")),
		`key "m.count" is 3, want only`:                         f.CheckKeys(nil),
		`m: want metadata as published models have it: json: `:  f.Unmarshal("m", &struct{ Count string }{}, anyOf("*")),
	} {
		says(t, "keys", err, f.Path+": "+want)
	}
	f.Path = ""
	says(t, "without a file", f.CheckKeys(nil, "m", "mm"), `key "n" is "x"`)
}

func anyOf(all ...string) strictjson.Idle {
	idle := strictjson.Idle{}
	for _, key := range all {
		idle[key] = nil
	}
	return idle
}

// endless has a GGUF file of zeros behind its beginning.
type endless []byte

func (e endless) ReadAt(to []byte, at int64) (int, error) {
	clear(to)
	if at < int64(len(e)) {
		copy(to, e[at:])
	}
	return len(to), nil
}

// TestHeadersEnd has files of a terabyte whose headers would fill memory.
func TestHeadersEnd(t *testing.T) {
	good := small().Bytes()
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"tensors": {put(good, "GGUF", 4, uint64(1)<<35), "34359738368 tensors, want no more than the h"},
		"keys":    {put(good, "GGUF", 12, uint64(1)<<35), "34359738368 keys, want no more than the h"},
		"array":   {put(good, "a.bytes", 8, uint64(1)<<33), "8589934592 elements, want no more"},
		"text":    {put(good, "a.text", 4, uint64(1)<<28), "268435456 bytes, want at most 67108864"},
	} {
		_, err := NewFile(endless(c.data), 1<<40)
		says(t, name, err, c.want)
	}
	if _, err := NewFile(bytes.NewReader(good[:100]), int64(len(good))); !errors.Is(err,
		io.ErrUnexpectedEOF) {
		t.Errorf("a file that is cut off: the error is %v", err)
	}
	says(t, "no file", errorOf(Open(t.TempDir())), "want a regular file")
}

// FuzzReadGGUF reads hostile files: an error, or tensors within the file that do not overlap, and
// that are decoded if their types are.
func FuzzReadGGUF(f *testing.F) {
	f.Add(small().Bytes())
	f.Add([]byte("GGUF"))
	for _, part := range small().Split(2) {
		f.Add(part.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := read(data)
		if err != nil {
			return
		}
		used := map[int64]string{}
		for _, x := range file.Tensors {
			if _, known := x.Type.traits(); !known {
				continue
			}
			bytes, err := x.Bytes()
			if err != nil || int64(len(bytes)) != x.Size {
				t.Errorf("tensor %+v has %d bytes (%v)", x, len(bytes), err)
			}
			for i := range x.Size {
				if other, ok := used[x.Offset+i]; ok {
					t.Fatalf("tensors %q and %q overlap", other, x.Name)
				}
				used[x.Offset+i] = x.Name
			}
			elements := 1
			for _, n := range x.Shape {
				elements *= n
			}
			if got, err := x.Float32s(); err == nil && len(got) != elements {
				t.Errorf("tensor %+v has %d elements, want %d", x, len(got), elements)
			}
		}
		var all map[string]any
		_ = file.Unmarshal("a", &all, nil) // which may be an error
		_ = file.CheckKeys(nil)
	})
}
