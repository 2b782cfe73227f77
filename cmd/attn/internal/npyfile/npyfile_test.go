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
		{"empty and huge", file(1, dict("<f4", "False", "(4611686018427387904, 4611686018427387904, 0)"),
			nil), []int{1 << 62, 1 << 62, 0}, nil},
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

func TestReadBool(t *testing.T) {
	for _, descr := range []string{"|b1", "|u1"} {
		a, err := ReadBool(save(t, file(1, dict(descr, "False", "(1, 3)"), []byte{1, 0, 0xff})))
		if err != nil || !slices.Equal(a.Shape, []int{1, 3}) ||
			!slices.Equal(a.Data, []bool{true, false, true}) {
			t.Errorf("%s: %v %v", descr, a, err)
		}
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
		`elements are "<i8", want float32 or float64`},
	{"half", file(1, dict("<f2", "False", "(1,)"), []int16{1}), `elements are "<f2"`},
	{"strings", file(1, dict("<U4", "False", "(1,)"), [16]byte{}), `elements are "<U4"`},
	{"objects", file(1, dict("|O", "False", "(1,)"), []byte("pickled")), `elements are "|O"`},
	{"record", file(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
		[]float32{1}), "elements are"},
	{"Fortran order", file(1, dict("<f4", "True", "(1, 2)"), []float32{1, 2}), "Fortran order"},
	{"fortran_order 7", file(1, dict("<f4", "7", "(1,)"), []float32{1}), "malformed header"},
	{"no dictionary", file(1, "nothing", []float32{1}), "malformed header"},
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
	{"shape beyond the file", file(1, dict("<f4", "False", "(1000000000000,)"), []float32{1}),
		"truncated"},
	{"beyond float32", file(1, dict("<f8", "False", "(2,)"), []float64{0, 1e39}),
		"element 1 is 1e+39, too large for float32"},
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
		if err := Write(&b, a); err != nil {
			t.Fatal(err)
		}
		if (b.Len()-4*n)%64 != 0 {
			t.Errorf("%v: elements start at %d, want a multiple of 64", shape, b.Len()-4*n)
		}
		got, err := Read(save(t, b.Bytes()))
		if err != nil || !slices.Equal(got.Shape, shape) || !slices.Equal(got.Data, a.Data) {
			t.Errorf("%v: read %v, %v", a, got, err)
		}
	}
}

// The header of a one-dimensional array is spelled as NumPy does it.
func TestHeaderText(t *testing.T) {
	for want, shape := range map[string][]int{
		"'shape': (3,), }":   {3},
		"'shape': (2, 3), }": {2, 3},
		"'shape': (), }":     {},
	} {
		if h := string((&header{descr: "<f4", shape: shape}).bytes()); !strings.Contains(h, want) ||
			!strings.HasSuffix(h, "\n") {
			t.Errorf("header of %v is %q, want %q in it", shape, h, want)
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
			_, err = decode(rest, int64(len(b)))
		} else {
			_, err = decodeBool(rest, int64(len(b)))
		}
		if err == nil {
			t.Errorf("%s: no error", descr)
		}
	}
	if _, err := decode(failing{}, 100); !errors.Is(err, os.ErrClosed) {
		t.Errorf("error is %v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error)          { return 0, os.ErrClosed }
func (failing) ReadAt([]byte, int64) (int, error) { return 0, os.ErrClosed }

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestWriteReportsErrors(t *testing.T) {
	if err := Write(failing{}, Array[float32]{Shape: []int{1 << 16},
		Data: make([]float32, 1<<16)}); err == nil {
		t.Error("no error")
	}
}

// FuzzRead: whatever the file, there is an array of the size its shape says, or an error.
func FuzzRead(f *testing.F) {
	f.Add(file(1, dict("<f4", "False", "(2, 2)"), []float32{1, 2, 3, 4}))
	f.Add(file(2, dict("<f8", "False", "(1,)"), []float64{1}))
	for _, c := range refused {
		f.Add(c.file)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		size := int64(len(b))
		if a, err := decode(bytes.NewReader(b), size); err == nil &&
			elements(a.Shape) != int64(len(a.Data)) {
			t.Errorf("shape %v with %d elements", a.Shape, len(a.Data))
		}
		if a, err := decodeBool(bytes.NewReader(b), size); err == nil &&
			elements(a.Shape) != int64(len(a.Data)) {
			t.Errorf("shape %v with %d booleans", a.Shape, len(a.Data))
		}
	})
}
