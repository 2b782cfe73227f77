package gguf

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/dev/gguftest"
)

// small is a file with a value of each type.
func small() *gguftest.File {
	return &gguftest.File{
		Keys: []gguftest.Key{{Name: "a.u8", Value: uint8(200)}, {Name: "a.i8", Value: int8(-3)},
			{Name: "a.u16", Value: uint16(60000)}, {Name: "a.i16", Value: int16(-300)},
			{Name: "a.u32", Value: uint32(4e9)}, {Name: "a.i32", Value: int32(-70000)},
			{Name: "a.f32", Value: float32(0.1)}, {Name: "a.bool", Value: true},
			{Name: "a.text", Value: " spaces \n"}, {Name: "a.u64", Value: uint64(1) << 63},
			{Name: "a.i64", Value: int64(-1) << 60}, {Name: "a.f64", Value: 0.25},
			{Name: "a.texts", Value: []string{"", "\n", " ", "x"}},
			{Name: "a.numbers", Value: []float32{1, -2}}, {Name: "a.bytes", Value: []uint8{0, 255}},
			{Name: "a.wide", Value: []int64{-1 << 62}}, {Name: "a.exact", Value: []float64{0.1}},
			{Name: "a.bools", Value: []bool{true, false}}, {Name: "a.none", Value: []uint32{}}},
		Tensors: []gguftest.Tensor{{Name: "t", Shape: []int{3, 2}, Data: make([]byte, 24)},
			{Name: "u", Shape: []int{2, 64}, Type: gguftest.Types["Q8_0"], Data: make([]byte, 136)},
			{Name: "v", Shape: []int{5}, Type: 99, Data: make([]byte, 5)}}}
}

func read(data []byte) (*File, error) {
	return NewFile(bytes.NewReader(data), int64(len(data)))
}

// TestRead compares what is read with what was written.
func TestRead(t *testing.T) {
	for _, align := range []int{0, 8, 256} {
		f := small()
		f.Align = align
		h, err := read(f.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range f.Keys {
			if got := h.Get(k.Name); !reflect.DeepEqual(got, k.Value) {
				t.Errorf("%s is %T %v, want %T %v", k.Name, got, got, k.Value, k.Value)
			}
		}
		if h.Get("b") != nil || h.Tensor("b") != nil {
			t.Error("there is a key, or a tensor, that nobody wrote")
		}
		at := int64(max(align, 32))
		if align == 8 {
			at = 24 // bytes of the first tensor
		}
		start := h.Tensors[0].Offset
		for i, want := range []Tensor{{Name: "t", Shape: []int{3, 2}, Type: F32, Offset: start, Size: 24},
			{Name: "u", Shape: []int{2, 64}, Type: Q8_0, Offset: start + at, Size: 136},
			{Name: "v", Shape: []int{5}, Type: 99, Offset: h.Tensors[2].Offset}} {
			got := *h.Tensors[i]
			if h.Tensor(want.Name) != h.Tensors[i] {
				t.Errorf("%s is not found by its name", want.Name)
			}
			if got.file = nil; !reflect.DeepEqual(got, want) {
				t.Errorf("tensor %d is %+v, want %+v", i, got, want)
			}
			if got.Offset%int64(max(align, 1)) != 0 {
				t.Errorf("tensor %d begins at %d, want a multiple of %d", i, got.Offset, align)
			}
		}
	}
}

func TestTypes(t *testing.T) {
	for kind, want := range map[Type]string{Q4_K: "Q4_K", MXFP4: "MXFP4", 10: "Q2_K", 99: "type 99"} {
		if kind.String() != want {
			t.Errorf("type %d is %v, want %s", uint32(kind), kind, want)
		}
	}
	if elements, bytes := Q6_K.Block(); elements != 256 || bytes != 210 {
		t.Errorf("a block of Q6_K has %d elements in %d bytes, want 256 in 210", elements, bytes)
	}
}

// TestHarmless reads what is odd and changes nothing: tensors of no elements, wherever they lie,
// and texts that are no UTF-8, as they are.
func TestHarmless(t *testing.T) {
	f := small()
	f.Set("a.text", "\xff")
	f.Tensors = slices.Insert(f.Tensors, 1, gguftest.Tensor{Name: "none", Shape: []int{2, 0}},
		gguftest.Tensor{Name: "neither", Shape: []int{0, 32}, Type: gguftest.Types["Q8_0"]},
		gguftest.Tensor{Name: "empty rows", Shape: []int{1 << 30, 0}, Type: gguftest.Types["Q8_0"]})
	h, err := read(f.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if got := h.Get("a.text"); got != "\xff" {
		t.Errorf("the text is %q", got)
	}
	for i, want := range []int64{24, 0, 0, 0, 136} {
		if got := h.Tensors[i].Size; got != want {
			t.Errorf("tensor %d has %d bytes, want %d", i, got, want)
		}
	}
}

// put replaces a number that stands some bytes behind a text.
func put(data []byte, after string, skip int, value any) []byte {
	data = slices.Clone(data)
	at := len(after) + skip
	if after != "" {
		at += bytes.Index(data, []byte(after))
	}
	_, _ = binary.Encode(data[at:], binary.LittleEndian, value) // which has room
	return data
}

// TestDamage makes sure that errors say what is wrong.
func TestDamage(t *testing.T) {
	good := small().Bytes()
	with := func(change func(f *gguftest.File)) []byte {
		f := small()
		change(f)
		return f.Bytes()
	}
	shape := func(n ...int) []byte {
		return with(func(f *gguftest.File) { f.Tensors[0].Shape = n })
	}
	nested := with(func(f *gguftest.File) { f.Set("a.n", []uint32{7, 7, 7}) })
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "gguf: want a GGUF file: it is empty"},
		{"a pointer", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n"),
			"want a GGUF file: it is a Git LFS pointer, want the file that it stands for"},
		{"a byte", []byte("G"), "needs 4 bytes at byte 0"},
		{"another file", []byte("PK\x03\x04 and more"), `begins with "PK\x03\x04", want GGUF`},
		{"older", put(good, "GGUF", 0, uint32(1)), "of version 1, want 2 or 3"},
		{"big-endian", put(good, "GGUF", 0, uint32(3<<24)), "want 2 or 3, little-endian"},
		{"many tensors", put(good, "GGUF", 4, uint64(1)<<60), "1152921504606846976 tensors, want no"},
		{"many keys", put(good, "GGUF", 12, uint64(math.MaxUint64)), "18446744073709551615 keys"},
		{"long key", put(good, "GGUF", 20, uint64(1)<<40), "a key is to have 1099511627776 bytes"},
		{"long text", put(good, "a.text", 4, uint64(math.MaxUint64)), `key "a.text": a.text is to have`},
		{"no UTF-8", with(func(f *gguftest.File) { f.Set("a.\xff", "x") }),
			`a key is "a.\xff", want UTF-8`},
		{"a name that is no UTF-8", with(func(f *gguftest.File) { f.Tensors[1].Name = "\xfe" }),
			`the name of a tensor is "\xfe", want UTF-8`},
		{"long array", put(good, "a.numbers", 8, uint64(1)<<62), `key "a.numbers": it is to have`},
		{"arrays in arrays", put(nested, "a.n\x09\x00\x00", 1, uint32(9)),
			`key "a.n": it has arrays in an array`},
		{"unknown value", put(good, "a.u8", 0, uint32(13)), `key "a.u8": a value is of type 13`},
		{"unknown values", put(good, "a.numbers", 4, uint32(77)), `key "a.numbers": a value is of type 77`},
		{"NaN", with(func(f *gguftest.File) { f.Set("a.f32", float32(math.NaN())) }),
			`key "a.f32": it is NaN, want finite`},
		{"infinite", with(func(f *gguftest.File) { f.Set("a.f64", math.Inf(-1)) }),
			`key "a.f64": it is -Inf, want finite`},
		{"NaN among others", with(func(f *gguftest.File) {
			f.Set("a.numbers", []float32{1, float32(math.NaN())})
		}), `key "a.numbers": it is NaN, want finite`},
		{"a bool of two", put(good, "a.bool", 4, byte(2)), `key "a.bool": it is a bool of 2, want 0 or 1`},
		{"a key twice", with(func(f *gguftest.File) { f.Keys = append(f.Keys, f.Keys[0]) }),
			`key "a.u8" is there twice`},
		{"no alignment", with(func(f *gguftest.File) { f.Set("general.alignment", uint32(0)) }),
			"general.alignment is 0, want a power of 2"},
		{"odd alignment", with(func(f *gguftest.File) { f.Set("general.alignment", uint32(24)) }),
			"general.alignment is 24, want"},
		{"alignment in words", with(func(f *gguftest.File) { f.Set("general.alignment", "32") }),
			"general.alignment is 32, want a power of 2 as uint32"},
		{"no dimensions", shape(), `tensor "t" has 0 dimensions`},
		{"a long dimension", put(good, "\x02\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00", -8,
			uint64(1)<<63), `tensor "t" has a dimension of 9223372036854775808, want at most`},
		{"many dimensions", shape(1, 2, 1, 3, 1), `tensor "t" has 5 dimensions`},
		{"overflow", shape(1<<30, 1<<30, 1<<30), `tensor "t" has shape [1073741824 1073741824 1073741824]`},
		{"part of a block", with(func(f *gguftest.File) { f.Tensors[1].Shape = []int{2, 68} }),
			`tensor "u" has rows of 68 elements, want a multiple of 32, of type Q8_0`},
		{"the same name", with(func(f *gguftest.File) { f.Tensors[1].Name = "t" }),
			`tensor "t" is there twice`},
		{"cut off", good[:len(good)-200], "within the file, which has"},
		{"blocks of a fork", with(func(f *gguftest.File) { // 128 weights in 34 bytes
			f.Tensors[1].Type, f.Tensors[1].Shape = 42, []int{8, 256}
			f.Tensors[1].Data = make([]byte, 16*34)
		}), `tensor "u" has 576 bytes as Q2_0, but room for 544`},
		{"cut off in the header", good[:300], "which has 300"},
		{"cut off in the tensors", good[:bytes.Index(good, []byte("\x02\x00\x00\x00\x40"))+3],
			"needs 4 bytes at byte"},
	} {
		if _, err := read(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want it to say %q", c.name, err, c.want)
		}
	}
}

// TestOffsets gives a tensor other places.
func TestOffsets(t *testing.T) {
	good := small().Bytes()
	// behind the name of u: dimensions, two sizes, and the type
	at := bytes.Index(good, []byte("\x01\x00\x00\x00\x00\x00\x00\x00u")) + 9 + 4 + 16 + 4
	for offset, want := range map[uint64]string{
		0:              `tensor "t" has 24 bytes as F32, but room for 0: it is to be bytes`,
		7:              `tensor "u" begins at byte 7 of the data, want a multiple of 32`,
		1 << 20:        `tensor "u" is to begin at byte 1048576 of the data, want it within the file`,
		math.MaxUint64: `tensor "u" is to begin at byte 18446744073709551615`,
		64:             `tensor "u" has 136 bytes as Q8_0, but room for 128: it is to be bytes`,
	} {
		data := slices.Clone(good)
		binary.LittleEndian.PutUint64(data[at:], offset)
		if _, err := read(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("offset %d: the error is %v, want it to say %q", offset, err, want)
		}
	}
}
