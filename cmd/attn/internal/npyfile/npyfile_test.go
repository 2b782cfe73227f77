package npyfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/npy"
)

// file is a .npy file of any header and content.
func file(version byte, dict string, content any) []byte {
	b := append([]byte("\x93NUMPY"), version, 0)
	if version == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(dict)+1))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(dict)+1))
	}
	b = append(b, dict+"\n"...)
	if content == nil {
		return b
	}
	b, err := binary.Append(b, binary.LittleEndian, content)
	if err != nil {
		panic(err)
	}
	return b
}

func dict(descr, fortran, shape string) string {
	return fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, fortran, shape)
}

func save(t testing.TB, b []byte) string {
	path := filepath.Join(t.TempDir(), "a.npy")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	bigEndian, _ := binary.Append(nil, binary.BigEndian, []float32{1, -2.5})
	for _, c := range []struct {
		name  string
		file  []byte
		shape []int
		data  []float32
	}{
		{"float32", file(1, dict("<f4", "False", "(2, 2)"), []float32{1, 2, 3, float32(math.Inf(-1))}),
			[]int{2, 2}, []float32{1, 2, 3, float32(math.Inf(-1))}},
		{"float64", file(1, dict("<f8", "False", "(3,)"), []float64{1, 1 + 1e-9, 1e-300}), []int{3},
			[]float32{1, 1, 0}},
		{"version 2", file(2, dict("<f4", "False", "(1, 2, 1)"), []float32{5, 6}), []int{1, 2, 1},
			[]float32{5, 6}},
		{"big endian", file(1, dict(">f4", "False", "(2,)"), bigEndian), []int{2}, []float32{1, -2.5}},
		{"empty", file(1, dict("<f4", "False", "(0, 7)"), nil), []int{0, 7}, nil},
		{"empty and huge", file(1, dict("<f4", "False", "(2147483647, 2147483647, 0)"), nil),
			[]int{math.MaxInt32, math.MaxInt32, 0}, nil},
		{"version 3", file(3, dict("<f4", "False", "(1,)"), []float32{5}), []int{1},
			[]float32{5}},
		{"float16", file(1, dict("<f2", "False", "(5,)"), []uint16{0x3c00, 0xc100, 0x0001, 0x7bff,
			0xfc00}), []int{5}, []float32{1, -2.5, 0x1p-24, 65504, float32(math.Inf(-1))}},
		{"big-endian float16", file(1, dict(">f2", "False", "(2,)"), []byte{0x3c, 0, 0xc1, 0}), []int{2},
			[]float32{1, -2.5}},
		{"bfloat16", file(1, dict("|V2", "False", "(3,)"), []uint16{0x3f80, 0xc020, 0x7f7f}), []int{3},
			[]float32{1, -2.5, 0x1.fep127}},
		{"bfloat16 of ml_dtypes", file(1, dict("<V2", "False", "(1,)"), []uint16{0x3f80}), []int{1},
			[]float32{1}},
		{"Fortran order", file(1, dict("<f4", "True", "(2, 3)"), []float32{1, 4, 2, 5, 3, 6}),
			[]int{2, 3}, []float32{1, 2, 3, 4, 5, 6}},
		{"Fortran order, three dimensions", file(1, dict("<f8", "True", "(2, 1, 2)"),
			[]float64{1, 3, 2, 4}), []int{2, 1, 2}, []float32{1, 2, 3, 4}},
		{"Fortran order of nothing", file(1, dict("<f4", "True", "(0, 3)"), nil), []int{0, 3}, nil},
		{"Fortran order, no dimension", file(1, dict("<f4", "True", "()"), []float32{7}), nil,
			[]float32{7}},
	} {
		a, err := Read(save(t, c.file))
		if err != nil || !slices.Equal(a.Shape, c.shape) || !slices.Equal(a.Data, c.data) {
			t.Errorf("%s: %v %v %v, want %v %v", c.name, a.Shape, a.Data, err, c.shape, c.data)
		}
	}
}

// Other programs spell the dictionary in other ways, which Python understands.
func TestHeaderSpellings(t *testing.T) {
	data := []float32{1, 2, 3, 4, 5, 6}
	for _, dict := range []string{
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 1)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 1),}",
		"{'descr':'<f4','fortran_order':False,'shape':(2,3,1)}",
		"{\"shape\": (2, 3, 1), \"fortran_order\": False, \"descr\": \"<f4\"}   ",
		" { 'descr' : '<f4' ,\n 'shape' : ( 2L , 3L , 1L , ) , 'fortran_order' : False , }",
	} {
		a, err := Read(save(t, file(1, dict, data)))
		if err != nil || !slices.Equal(a.Shape, []int{2, 3, 1}) || !slices.Equal(a.Data, data) {
			t.Errorf("%s: %v, %v", dict, a, err)
		}
	}
	native, _ := binary.Append(nil, binary.NativeEndian, data)
	for _, descr := range []string{"=f4", "f4"} {
		a, err := Read(save(t, file(1, dict(descr, "False", "(6,)"), native)))
		if err != nil || !slices.Equal(a.Data, data) {
			t.Errorf("%s: %v, %v", descr, a, err)
		}
	}
}

// Masks are of bool, or of integers that are 0 and 1. In NumPy any byte of a bool except 0 is true.
func TestReadBool(t *testing.T) {
	bigEndian := []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1}
	for descr, content := range map[string]any{
		"|b1": []byte{1, 0, 0xff}, "|u1": []uint8{1, 0, 1}, "|i1": []int8{1, 0, 1},
		"<u2": []uint16{1, 0, 1}, "<i2": []int16{1, 0, 1}, "<i4": []int32{1, 0, 1},
		"<u4": []uint32{1, 0, 1}, "<i8": []int64{1, 0, 1}, "<u8": []uint64{1, 0, 1}, ">i4": bigEndian,
	} {
		a, err := ReadBool(save(t, file(1, dict(descr, "False", "(1, 3)"), content)))
		if err != nil || !slices.Equal(a.Shape, []int{1, 3}) ||
			!slices.Equal(a.Data, []bool{true, false, true}) {
			t.Errorf("%s: %v %v", descr, a, err)
		}
	}
	const negative, most = math.MinInt64, math.MaxInt64
	for want, b := range map[string][]byte{
		`elements are "<f4", want bool, or integers of which each is 0 or 1`: file(1,
			dict("<f4", "False", "(1,)"), []float32{1}),
		"element (1,) is 255, want 0 or 1": file(1, dict("|u1", "False", "(2,)"), []uint8{1, 255}),
		"element (0,) is -1, want 0 or 1":  file(1, dict("|i1", "False", "(1,)"), []int8{-1}),
		"element (1, 0) is 2, want": file(1, dict("<i8", "False", "(2, 2)"),
			[]int64{0, 1, 2, 3}),
		"element (0, 1) is 2, want": file(1, dict("<i8", "True", "(2, 2)"), []int64{0, 1, 2, 3}),
		"element () is -9.223372036854776e+18, want": file(1, dict("<i8", "False", "()"),
			[]int64{negative}),
		"element () is 9.223372036854776e+18, want": file(1, dict("<u8", "False", "()"), []uint64{most}),
	} {
		if _, err := ReadBool(save(t, b)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// What is added to scores never becomes infinite: masks in float64 hold its lowest number.
func TestReadLogits(t *testing.T) {
	a, err := ReadLogits(save(t, file(1, dict("<f8", "False", "(5,)"), []float64{-math.MaxFloat64,
		1e39, math.Inf(-1), math.Inf(1), -1e9})))
	inf := float32(math.Inf(1))
	if want := []float32{-math.MaxFloat32, math.MaxFloat32, -inf, inf, -1e9}; err != nil ||
		!slices.Equal(a.Data, want) {
		t.Errorf("%v %v, want %v", a.Data, err, want)
	}
}

func TestReadFloat64(t *testing.T) {
	want := []float64{1 + 1e-15, -1e300, 0}
	a, err := ReadFloat64(save(t, file(1, dict("<f8", "False", "(3,)"), want)))
	if err != nil || !slices.Equal(a.Data, want) {
		t.Errorf("%v %v, want %v", a.Data, err, want)
	}
}

// refused are files that must not be read as numbers, and what the error says.
var refused = []struct {
	name string
	file []byte
	want string
}{
	{"empty file", nil, "not a .npy file"},
	{"bad magic", []byte("PK\x03\x04 an archive"), "not a .npy file"},
	{"only the magic", []byte("\x93NUMPY"), "truncated"},
	{"version 9", file(9, dict("<f4", "False", "(1,)"), []float32{1}), "version 9"},
	{"header cut", file(1, dict("<f4", "False", "(2,)"), nil)[:30], "truncated: the header"},
	{"huge header", append([]byte("\x93NUMPY\x02\x00"), 0xff, 0xff, 0xff, 0xff),
		"truncated: the header"},
	{"data cut", file(1, dict("<f4", "False", "(2,)"), []byte{0, 0, 0, 0, 0, 0, 0}),
		"truncated: shape [2] needs 8 bytes, the file has 7"},
	{"no data", file(1, dict("<f4", "False", "(2,)"), nil), "truncated"},
	{"too much data", file(1, dict("<f4", "False", "(2,)"), []float32{1, 2, 3}), "after the array"},
	{"int64", file(1, dict("<i8", "False", "(1,)"), []int64{1}),
		`elements are "<i8", want float16, bfloat16 (V2), float32 or float64`},
	{"long double", file(1, dict("<f16", "False", "(1,)"), [16]byte{}), `elements are "<f16"`},
	{"void", file(1, dict("|V4", "False", "(1,)"), [4]byte{}), `elements are "|V4"`},
	{"no type", file(1, dict("", "False", "(1,)"), [4]byte{}), `elements are ""`},
	{"strings", file(1, dict("<U4", "False", "(1,)"), [16]byte{}), `elements are "<U4"`},
	{"objects", file(1, dict("|O", "False", "(1,)"), []byte("pickled")), `elements are "|O"`},
	{"record", file(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
		[]float32{1}), "elements are"},
	{"fortran_order 7", file(1, dict("<f4", "7", "(1,)"), []float32{1}), "malformed header"},
	{"no dictionary", file(1, "nothing", []float32{1}), "malformed header"},
	{"a long header", file(2, strings.Repeat(" ", 1<<20), nil), "malformed: a header of "},
	{"keys only", file(1, "'shape': 'fortran_order': 'descr': ", nil), "malformed header"},
	{"no line break", append([]byte("\x93NUMPY\x01\x00\x04\x00"), "{ } "...), "malformed header"},
	{"words in shape", file(1, dict("<f4", "False", "(two,)"), []float32{1}), "malformed header"},
	{"an item twice", file(1, "{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}", []float32{1}),
		"malformed header"},
	{"an item more", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}",
		[]float32{1}), "malformed header"},
	{"two quotes", file(1, "{'descr': \"'<f4'\", 'fortran_order': False, 'shape': (1,)}",
		[]float32{1}), "elements are"},
	{"no tuple", file(1, dict("<f4", "False", "(1)"), []float32{1}), "malformed header"},
	{"only a comma", file(1, dict("<f4", "False", "(,)"), []float32{1}), "malformed header"},
	{"65 dimensions", file(1, dict("<f4", "False", "("+strings.Repeat("1, ", 65)+")"), []float32{1}),
		"malformed header"},
	{"negative shape", file(1, dict("<f4", "False", "(-1,)"), []float32{1}),
		"malformed header: shape [-1]"},
	{"two negatives", file(1, dict("<f4", "False", "(-1, -1)"), []float32{1}),
		"malformed header: shape"},
	{"overflowing shape", file(1, dict("<f4", "False", "(4294967296, 4294967296, 4)"), []float32{1}),
		"too large"},
	{"shape beyond an int", file(1, dict("<f4", "False", "(10000000000000000000, 0)"), nil),
		"shape (10000000000000000000, 0) is too large"},
	{"shape beyond the file", file(1, dict("<f4", "False", "(100000000,)"), []float32{1}),
		"truncated"},
	{"beyond float32", file(1, dict("<f8", "False", "(2,)"), []float64{0, 1e39}),
		"element (1,) is 1e+39, too large for float32"},
	{"beyond float32 in Fortran order", file(1, dict("<f8", "True", "(2, 2)"), []float64{0, 0, -1e39,
		0}), "element (0, 1) is -1e+39, too large for float32"},
}

func TestReadRefuses(t *testing.T) {
	for _, c := range refused {
		path := save(t, c.file)
		_, err := Read(path)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %q, want one with the path and %q", c.name, err, c.want)
		}
	}
}

func TestReadRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "none.npy")} {
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A few bytes must not make the reader allocate what they claim to hold.
func TestRefusalAllocatesLittle(t *testing.T) {
	for _, c := range refused {
		path := save(t, c.file)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		Read(path)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%s: allocated %d bytes", c.name, n)
		}
	}
}

func TestWriteThenRead(t *testing.T) {
	for _, shape := range [][]int{{}, {5}, {2, 3}, {3, 1, 2}, {1, 2, 3, 4}, {0, 4}} {
		n := 1
		for _, d := range shape {
			n *= d
		}
		a := Array[float32]{Shape: shape, Data: make([]float32, n)}
		for i := range a.Data {
			a.Data[i] = float32(i) - 1.5
		}
		var b bytes.Buffer
		if err := npy.Write(&b, a.Shape, a.Data); err != nil {
			t.Fatal(err)
		}
		got, err := Read(save(t, b.Bytes()))
		if err != nil || !slices.Equal(got.Shape, shape) || !slices.Equal(got.Data, a.Data) {
			t.Errorf("%v: read %v, %v", a, got, err)
		}
	}
}

// A file may become shorter, or unreadable, after its size was taken.
func TestReadOfVanishingData(t *testing.T) {
	for _, descr := range []string{"<f4", "<f8", "|b1", "|u1"} {
		b := file(1, dict(descr, "False", "(2,)"), make([]byte, 2*int(descr[2]-'0')))
		rest := bytes.NewReader(b[:len(b)-1])
		var err error
		if descr[1] == 'f' {
			_, err = numbers.decode(rest, int64(len(b)))
		} else {
			_, err = masks.decode(rest, int64(len(b)))
		}
		if err == nil {
			t.Errorf("%s: no error", descr)
		}
	}
	if _, err := numbers.decode(failing{}, 100); !errors.Is(err, os.ErrClosed) {
		t.Errorf("error is %v", err)
	}
}

type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, os.ErrClosed }

// FuzzRead: whatever the file, there is an array of the size its shape says, or an error.
func FuzzRead(f *testing.F) {
	f.Add(file(1, dict("<f4", "False", "(2, 2)"), []float32{1, 2, 3, 4}))
	f.Add(file(2, dict("<f8", "False", "(1,)"), []float64{1}))
	f.Add(file(3, dict(">f2", "True", "(2, 3)"), make([]uint16, 6)))
	f.Add(file(1, dict("<i8", "True", "(1, 2)"), []int64{0, 1}))
	for _, c := range refused {
		f.Add(c.file)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		size := int64(len(b))
		if a, err := logits.decode(bytes.NewReader(b), size); err == nil &&
			elements(a.Shape) != int64(len(a.Data)) {
			t.Errorf("shape %v with %d elements", a.Shape, len(a.Data))
		}
		if a, err := masks.decode(bytes.NewReader(b), size); err == nil &&
			elements(a.Shape) != int64(len(a.Data)) {
			t.Errorf("shape %v with %d booleans", a.Shape, len(a.Data))
		}
	})
}
