package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
)

// file is a file of a header and some bytes.
func file(header string, data ...byte) []byte {
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return slices.Concat(length, []byte(header), data)
}

// two is a header of two tensors, of 12 and of 4 bytes.
const two = `{"__metadata__": {"format": "pt"}, "b": {"dtype": "F16", "shape": [2, 3],
	"data_offsets": [0, 12]}, "a.weight": {"dtype": "F32", "shape": [], "data_offsets": [12, 16]}}`

var twoData = []byte("\x00\x3c\x00\xc0\x00\x00\x00\x7c\x01\x00\x00\x3e" + "\x00\x00\x40\x40")

func read(data []byte) (*File, error) {
	return NewFile(bytes.NewReader(data), int64(len(data)))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, data []byte, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	must(t, os.WriteFile(name, data, 0o666))
	return name
}

// TestFile reads a file from a reader, by its name, and as a folder.
func TestFile(t *testing.T) {
	folder := t.TempDir()
	data := file(two, twoData...)
	path := write(t, data, folder, "model.safetensors")
	ofReader, err := read(data)
	must(t, err)
	ofFile, err := Open(path)
	must(t, err)
	ofFolder, err := Open(folder)
	must(t, err)
	for name, f := range map[string]*File{"": ofReader, path: ofFile, folder: ofFolder} {
		if f.Path != name || f.Metadata["format"] != "pt" || len(f.Tensors) != 2 ||
			f.Tensor("b") != f.Tensors[0] || f.Tensor("a.weight") != f.Tensors[1] || f.Tensor("c") != nil {
			t.Errorf("%s is %+v", name, f)
		}
		b := f.Tensors[0]
		if b.Name != "b" || b.DType != F16 || !slices.Equal(b.Shape, []int{2, 3}) || b.Size != 12 ||
			b.Offset != int64(len(data)-16) {
			t.Errorf("%s: tensor b is %+v", name, b)
		}
		if got, err := b.Bytes(); err != nil || !bytes.Equal(got, twoData[:12]) || cap(got) != 12 {
			t.Errorf("%s: the bytes are %x (%v)", name, got, err)
		}
		if got, err := b.Float32s(); err != nil || fmt.Sprint(got) != "[1 -2 0 +Inf 5.9604645e-08 1.5]" {
			t.Errorf("%s: the elements are %v (%v)", name, got, err)
		}
		b.Release()
		if got, err := f.Tensor("a.weight").Float32s(); err != nil || !slices.Equal(got, []float32{3}) {
			t.Errorf("%s: the scalar is %v (%v)", name, got, err)
		}
		must(t, f.Close())
		must(t, f.Close())
		if _, err := b.Float32s(); !errors.Is(err, fs.ErrClosed) ||
			!strings.Contains(err.Error(), b.Path()) {
			t.Errorf("%s: after Close the error is %v", name, err)
		}
	}
}

// TestFolder reads a model in two files.
func TestFolder(t *testing.T) {
	folder := t.TempDir()
	one := `{"x": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}`
	write(t, file(two, twoData...), folder, "b.safetensors")
	write(t, file(one, 0xc0, 0x3f), folder, "a.safetensors")
	list := func(text string) {
		write(t, []byte(`{"metadata": {"total_size": 18}, "weight_map": `+text+`}`), folder, index)
	}
	list(`{"b": "b.safetensors", "x": "a.safetensors", "a.weight": "b.safetensors"}`)
	f, err := Open(folder)
	must(t, err)
	defer f.Close()
	if got, err := f.Tensor("x").Float32s(); err != nil || got[0] != 1.5 || len(f.Tensors) != 3 ||
		f.Tensors[0].Path() != filepath.Join(folder, "a.safetensors") {
		t.Errorf("x is %v (%v) of %+v", got, err, f)
	}
	for text, want := range map[string]string{
		`{"b": "../b.safetensors"}`:     index + `: weight_map names "../b.safetensors", want files in`,
		`{"b": "c.safetensors"}`:        "c.safetensors: no such file",
		`{"y": "a.safetensors"}`:        index + `: weight_map has tensor "y" in a.safetensors, which`,
		`{"b": "a.safetensors"}`:        `tensor "b" in a.safetensors, which has no such tensor`,
		`{}, "more": 1`:                 index + `: key "more" is 1, want only keys`,
		`{}`:                            index + `: weight_map is empty, want tensors and the files`,
		`null`:                          index + `: weight_map is empty`,
		"{\"\xff\": \"b.safetensors\"}": `published models have it: it is not UTF-8`,
		`{"x": "a.safetensors"}}`:       index + ": want JSON",
		`{"b": "d.safetensors"}`:        `d.safetensors: its header is to have 100 bytes`,
		`{"b": "b.safetensors", "x": "e.safetensors"}`: `e.safetensors: tensor "b" is in`,
	} {
		list(text)
		write(t, []byte("\x64\x00\x00\x00\x00\x00\x00\x00{}"), folder, "d.safetensors")
		write(t, file(two, twoData...), folder, "e.safetensors")
		if _, err := Open(folder); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), folder) && !strings.HasPrefix(err.Error(), "open "+folder) {
			t.Errorf("%s: the error is %v, want it to say %q", text, err, want)
		}
	}
	must(t, os.Remove(filepath.Join(folder, index)))
	if _, err := Open(folder); err == nil ||
		!strings.Contains(err.Error(), "want model.safetensors or, for a model in several files, mo") {
		t.Errorf("without files the error is %v", err)
	}
	if _, err := Open(filepath.Join(folder, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a folder the error is %v", err)
	}
}

// TestDamage makes sure that errors say what is wrong.
func TestDamage(t *testing.T) {
	tensor := func(what string) []byte { return file(`{"a": `+what+`}`, twoData...) }
	for _, c := range []struct {
		data []byte
		want string
	}{
		{nil, "safetensors: want a safetensors file: it is empty"},
		{[]byte("{}"), "safetensors: 2 bytes, want a safetensors file, which begins with the length of"},
		{[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"),
			"want a safetensors file: it is a Git LFS pointer, want the file that it stands for"},
		{file("{\"\xff\": 1}"), "want a header of safetensors: want an object in JSON: it is not UTF-8"},
		{file(`{"a\udc00": 1}`), `\udc00 is half of a surrogate pair`},
		{[]byte("\xff\xff\xff\xff\xff\xff\xff\xff{}"), "header is to have 18446744073709551615 bytes"},
		{file("[]"), "want a header of safetensors: want an object in JSON, not []"},
		{file(`{"a": 1}`), `want a header of safetensors: tensor "a": want JSON`},
		{file(`{"__metadata__": {"a": 1}}`), "__metadata__: want texts: json"},
		{file("{}", 1), "the tensors have 0 bytes, want 1 as the file has after its header"},
		{tensor(`{}`), `tensor "a": want dtype, shape and data_offsets, two numbers`},
		{tensor(`{"dtype": "F32", "data_offsets": [0, 16]}`), "want dtype, shape"},
		{tensor(`{"dtype": "F32", "shape": [4], "data_offsets": [0]}`), "data_offsets, two numbers"},
		{tensor(`{"dtype": "F32", "shape": [4], "data_offsets": [0, 16], "scale": 2}`),
			`tensor "a": key "scale" is 2, want only`},
		{tensor(`{"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]}`), "shape is [-4], want dim"},
		{tensor(`{"dtype": "F32", "shape": [4], "data_offsets": [-16, 0]}`), "number -16"},
		{tensor(`{"dtype": "F32", "shape": [4], "data_offsets": [16, 0]}`),
			`tensor "a" is to be bytes 16 to 0, want them within the file, which has 16 after its header`},
		{tensor(`{"dtype": "F32", "shape": [4], "data_offsets": [0, 17]}`), "bytes 0 to 17, want"},
		{tensor(`{"dtype": "F32", "shape": [3], "data_offsets": [4, 16]}`),
			`tensor "a" begins at byte 4, want 0, where the header ends`},
		{tensor(`{"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}`), "have 12 bytes, want 16"},
		{tensor(`{"dtype": "F32", "shape": [3], "data_offsets": [0, 16]}`),
			`tensor "a" has 16 bytes, want 12 for shape [3] of F32`},
		{tensor(`{"dtype": "F4", "shape": [31], "data_offsets": [0, 16]}`),
			`tensor "a" has shape [31] of F4, which is 124 bits, want whole bytes`},
		{tensor(`{"dtype": "F64", "shape": [1073741824, 1073741824, 1073741824],
			"data_offsets": [0, 16]}`), `tensor "a" has shape [1073741824 1073741824 1073741824] of ` +
			"F64, want no more than its 16 bytes"},
		{tensor(`{"dtype": "U8", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}`),
			"[4294967296 4294967296] of U8, want no more than its 0 bytes"},
		{file(`{"a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}, "b": {"dtype": "U8", "shape":
			[12], "data_offsets": [4, 16]}}`, twoData...),
			`tensor "b" begins at byte 4, want 8, where "a" ends: tensors neither overlap nor leave room`},
		{file(strings.Replace(two, `"b"`, `"a.weight"`, 1), twoData...),
			`key "a.weight" is there twice, want it once`},
	} {
		if _, err := read(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: the error is %v, want it to say %q", c.data, err, c.want)
		}
	}
	if _, err := NewFile(bytes.NewReader(file(two)[:50]), 500); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a header that is cut off: the error is %v", err)
	}
}

// TestTypes has other types than are decoded: those that are known, and any others.
func TestTypes(t *testing.T) {
	for _, c := range []struct {
		header string
		data   int
	}{
		{`{"a": {"dtype": "F8_E4M3", "shape": [2, 2], "data_offsets": [0, 4]}}`, 4},
		{`{"a": {"dtype": "F4", "shape": [4, 2], "data_offsets": [0, 4]}}`, 4},
		{`{"a": {"dtype": "I64", "shape": [0, 2147483647], "data_offsets": [0, 0]}}`, 0},
		{`{"a": {"dtype": "of tomorrow", "shape": [7], "data_offsets": [0, 3]}}`, 3},
	} {
		f, err := read(file(c.header, make([]byte, c.data)...))
		must(t, err)
		x := f.Tensor("a")
		if data, err := x.Bytes(); err != nil || len(data) != c.data {
			t.Errorf("%s has %d bytes (%v)", c.header, len(data), err)
		}
		if _, err := x.Float32s(); !errors.Is(err, attn.ErrUnsupported) || !strings.Contains(err.Error(),
			fmt.Sprintf("tensor \"a\" has dtype %s, want F32, F16 or BF16", x.DType)) {
			t.Errorf("%s: the error is %v", c.header, err)
		}
		if err := x.DType.Decode(make([]float32, 1), make([]byte, 4)); !errors.Is(err,
			attn.ErrUnsupported) {
			t.Errorf("%s: the error is %v", c.header, err)
		}
		if _, err := BlockTypeOf(x.DType); !errors.Is(err, attn.ErrUnsupported) {
			t.Errorf("%s: the error is %v", c.header, err)
		}
	}
	for dtype, want := range map[DType]attn.BlockType{F16: attn.BlockF16, BF16: attn.BlockBF16} {
		if got, err := BlockTypeOf(dtype); got != want || err != nil {
			t.Errorf("%s is %v (%v)", dtype, got, err)
		}
	}
	dst := []float32{7, 7}
	if err := BF16.Decode(dst, make([]byte, 3)); !errors.Is(err, attn.ErrLength) || dst[0] != 7 {
		t.Errorf("the error is %v, and dst %v", err, dst)
	}
}

// FuzzReadTensors reads hostile files: an error, or tensors of the bytes that their shapes need,
// that follow each other to the end of the file.
func FuzzReadTensors(f *testing.F) {
	f.Add(file(two, twoData...))
	f.Add(file(`{"a":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]}}`, make([]byte, 12)...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := read(data)
		if err != nil {
			return
		}
		for i, x := range file.Tensors {
			bytes, err := x.Bytes()
			if err != nil || int64(len(bytes)) != x.Size {
				t.Errorf("tensor %+v has %d bytes (%v)", x, len(bytes), err)
			}
			end := int64(len(data))
			if i+1 < len(file.Tensors) {
				end = file.Tensors[i+1].Offset
			}
			if x.Offset < 8 || x.Offset+x.Size != end {
				t.Errorf("tensor %+v ends at %d, want %d", x, x.Offset+x.Size, end)
			}
			elements := 1
			for _, n := range x.Shape {
				elements *= n
			}
			if numbers, err := x.Float32s(); err == nil && len(numbers) != elements {
				t.Errorf("tensor %+v has %d elements", x, len(numbers))
			}
		}
	})
}
