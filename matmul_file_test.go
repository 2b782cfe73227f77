package attn

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/blocks/blockstest"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/packed"
)

// matrixFileOf is what Save writes.
func matrixFileOf(t testing.TB, m *Matrix) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := m.Save(&b)
	must(t, err)
	if n != int64(b.Len()) || b.Len() != m.fileSize() || b.Len() >= m.MemoryUse()+200 {
		t.Fatalf("Save returns %d and wrote %d bytes, want %d", n, b.Len(), m.fileSize())
	}
	return b.Bytes()
}

// fileIn writes a file and returns its path.
func fileIn(t testing.TB, folder string, content []byte) string {
	t.Helper()
	path := filepath.Join(folder, "matrix")
	must(t, os.WriteFile(path, content, 0o600))
	return path
}

// matrixReaders read the file of a matrix in every way.
var matrixReaders = []struct {
	name string
	read func(t testing.TB, file []byte) (*Matrix, error)
}{
	{"LoadMatrix", func(_ testing.TB, file []byte) (*Matrix, error) {
		return LoadMatrix(bytes.NewReader(file))
	}},
	{"in small pieces", func(_ testing.TB, file []byte) (*Matrix, error) {
		return loadWhole(iotest.HalfReader(bytes.NewReader(file)))
	}},
	{"MapMatrix", func(t testing.TB, file []byte) (*Matrix, error) {
		m, err := MapMatrix(fileIn(t, t.TempDir(), file))
		return m, errors.Unwrap(err) // of what is said of the path
	}},
}

// A matrix that was written and read is the one that was packed, whatever CPU it is on, and its
// products have the same bits.
func TestMatrixFile(t *testing.T) {
	everyMatrix(t, func(t *testing.T, w Tensor, c MatrixConfig) {
		want, err := PackMatrix(w, c)
		must(t, err)
		file := matrixFileOf(t, want)
		for _, e := range matrixReaders {
			m, err := e.read(t, file)
			must(t, err)
			mustEqualMatrices(t, e.name, m, want)
			mustEqualFiles(t, "by "+e.name, matrixFileOf(t, m), file)
			if at := uintptr(unsafe.Pointer(&m.data[0])); at%64 != 0 {
				t.Errorf("%s: elements begin at %#x, want a multiple of 64", e.name, at)
			}
			for _, rows := range []int{1, narrow.MaxRows + 1} {
				mustMultiplyAlike(t, e.name, m, want, rows)
			}
			must(t, m.Close())
			mustFail(t, e.name, m.Close(), ErrClosed)
			_, err = m.Save(io.Discard)
			mustFail(t, e.name, err, ErrClosed)
		}
		must(t, want.Close())
	})
}

// mustMultiplyAlike compares products by two matrices.
func mustMultiplyAlike(t testing.TB, what string, m, want *Matrix, rows int) {
	t.Helper()
	a := tensor(random("rows"), normal, want.b, want.h, rows, want.inner)
	bias := tensor(random("bias"), normal, 1, 1, 1, want.cols).Data
	got, alone, pooled := zeros(a.B, a.H, rows, want.cols), zeros(a.B, a.H, rows, want.cols),
		zeros(a.B, a.H, rows, want.cols)
	must(t, m.MatMul(got, a, bias))
	must(t, want.MatMul(alone, a, bias))
	must(t, threeWorkers().MulMatrix(pooled, a, m, bias))
	mustEqualBits(t, what, got.Data, alone.Data)
	mustEqualBits(t, what+", pool", pooled.Data, alone.Data)
}

// Elements are read in several pieces, and none goes through the heap.
func TestLargeMatrixFile(t *testing.T) {
	w := tensor(random("large"), normal, 1, 1, 400, 700)
	for _, c := range matrixConfigs {
		want, err := PackMatrix(w, c)
		must(t, err)
		file := matrixFileOf(t, want)
		for _, e := range matrixReaders {
			before := heapAllocated()
			m, err := e.read(t, file)
			must(t, err)
			if got := heapAllocated() - before; got > uint64(len(file)/2) && e.name != "MapMatrix" {
				t.Errorf("%s of %d bytes allocates %d bytes of the heap", e.name, len(file), got)
			}
			mustEqualMatrices(t, e.name, m, want)
			mustMultiplyAlike(t, e.name, m, want, 1)
			must(t, m.Close())
		}
		must(t, want.Close())
	}
}

// heapAllocated is the bytes of the heap that were ever allocated.
func heapAllocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// The form is fixed: other versions and machines read it. Here it is written from its definition.
func TestMatrixFileForm(t *testing.T) {
	table := crc32.MakeTable(crc32.Castagnoli)
	w := tensor(random("form"), normal, 1, 2, productInner+6, 19)
	for _, c := range []MatrixConfig{{}, {Format: I8, Integers: true}} {
		m, err := PackMatrix(w, c)
		must(t, err)
		mark, group := uint32(0), 1
		if c.Integers {
			mark, group = 1, 4
		}
		want := formOfHeader("attnMat", c.Format, mark, 1, 2, productInner+6, 19, 0, 0)
		sum := crc32.Checksum(want[:60], table)
		var scales, elements []byte
		for h := range 2 {
			columns, its := make([][]float32, 32), make([]float32, 32)
			for c2 := range columns {
				columns[c2] = make([]float32, productInner+8)
				if c2 < 19 {
					column, scale := storedColumn(c.Format, &w, 0, h, c2)
					copy(columns[c2], column)
					its[c2] = scale
				}
			}
			for _, e := range its {
				scales = binary.LittleEndian.AppendUint32(scales, math.Float32bits(e))
			}
			for _, part := range [][2]int{{0, 256}, {256, (6 + group - 1) / group * group}} {
				for first := 0; first < 32; first += 16 {
					for k := 0; k < part[1]; k += group {
						for lane := range 16 {
							for x := range group {
								e := columns[first+lane][part[0]+k+x]
								if c.Integers {
									elements = append(elements, byte(int8(e)))
								} else {
									elements = binary.LittleEndian.AppendUint32(elements, math.Float32bits(e))
								}
							}
						}
					}
				}
			}
		}
		if c.Integers {
			scales = append(scales, make([]byte, 60)...)
			sum = crc32.Update(sum, table, scales)
			want = binary.LittleEndian.AppendUint32(append(want, scales...), sum)
		}
		if len(want)%64 != 0 {
			t.Errorf("elements begin at %d, want a multiple of 64", len(want))
		}
		sum = crc32.Update(sum, table, elements)
		want = binary.LittleEndian.AppendUint32(append(want, elements...), sum)
		mustEqualFiles(t, fmt.Sprint(c), matrixFileOf(t, m), want)
	}
}

// Every machine, little-endian or big, writes these bytes, and reads them: see TestMatrixFile.
func TestMatrixFileGolden(t *testing.T) {
	w := goldenTensor(goldenRandom("matrix file"), 4, 2, 1, productInner+10, 21)
	for i, want := range []string{"de7151b453e055ba", "0bccfca48a497d96",
		"d5d3c9886beee859", "f90d55fc7ad14873", "91fb012ed09738e3"} {
		m, err := PackMatrix(w, matrixConfigs[i])
		must(t, err)
		if hash := fmt.Sprintf("%x", sha256.Sum256(matrixFileOf(t, m)))[:16]; hash != want {
			t.Errorf("%v: %q, want %q", matrixConfigs[i], hash, want)
		}
	}
}

// smallMatrix has inputs and outputs that fill no group and no panel.
func smallMatrix(t testing.TB, c MatrixConfig) *Matrix {
	t.Helper()
	m, err := PackMatrix(tensor(random("small"), normal, 1, 2, 6, 5), c)
	must(t, err)
	return m
}

// mustNotBeMatrix makes sure that reading fails in every way.
func mustNotBeMatrix(t testing.TB, what string, file []byte, kind error, text ...string) {
	t.Helper()
	for _, e := range matrixReaders {
		m, err := e.read(t, file)
		mustFail(t, e.name+", "+what, err, kind, text...)
		if m != nil {
			t.Errorf("%s, %s: there is a matrix beside the error", e.name, what)
		}
	}
}

// Whichever byte is not what it was, and wherever the file ends, it is an error; but elements that
// are mapped are not looked at.
func TestMatrixFileCorrupted(t *testing.T) {
	for _, c := range matrixConfigs {
		m := smallMatrix(t, c)
		file := matrixFileOf(t, m)
		path := fileIn(t, t.TempDir(), file)
		elements := len(file) - m.size() - 4
		before := memory.Mapped()
		for at := 0; at < len(file); at++ {
			if few() && at > 100 && at < len(file)-50 {
				at += 6
			}
			end := io.ErrUnexpectedEOF
			if at == 0 {
				end = io.EOF
			}
			what := fmt.Sprintf("%v, first %d bytes", c, at)
			_, err := LoadMatrix(iotest.DataErrReader(bytes.NewReader(file[:at])))
			mustFail(t, what, err, end)
			mustFail(t, what, err, ErrFormat)
			spoiled := slices.Clone(file)
			spoiled[at] ^= 1 << (at % 8)
			_, err = LoadMatrix(bytes.NewReader(spoiled))
			mustFail(t, what, err, ErrFormat)
			if few() && at%7 > 0 {
				continue // files take long
			}
			must(t, os.WriteFile(path, spoiled, 0o600))
			if mapped, err := MapMatrix(path); at < elements || packed.BigEndian() {
				mustFail(t, what, err, ErrFormat)
			} else {
				must(t, err)
				must(t, mapped.Close())
			}
			must(t, os.WriteFile(path, file[:at], 0o600))
			_, err = MapMatrix(path)
			mustFail(t, what, err, ErrFormat)
		}
		for _, read := range matrixReaders[1:] {
			_, err := read.read(t, append(slices.Clip(file), 0))
			mustFail(t, read.name, err, ErrFormat)
		}
		if got := memory.Mapped(); got > before {
			t.Errorf("%d bytes are left after errors", got-before)
		}
	}
}

// What a checksum does not find is found.
func TestMatrixFileHostile(t *testing.T) {
	scale := func(e float32) []byte { return word(math.Float32bits(e)) }
	const (
		stray  = "elements: a byte of no input or output is 1, want 0"
		scales = headerSize
		after  = scales + 4*2*16 + 64 // elements of I8
	)
	for _, e := range []struct {
		kind Format
		at   int
		to   []byte
		want error
		text string
	}{
		{F32, 0, []byte("attnTok"), ErrFormat, `the file begins with "attnTok", want "attnMat"`},
		{F32, 7, []byte{5}, ErrFormat, "the file is version 5 of the form, want version 4"},
		{F32, 8, word(4), ErrFormat, "the file's Format is 4, want 0 to 3, or 33 to 50 of " +
			"blocks"},
		{F32, 12, word(1), ErrFormat, "the file's ValueFormat is F16, want F32 as Format"},
		{F32, 16, word(1), ErrFormat, "the file's Format is F32 with Integers, want I8"},
		{F32, 20, word(0), ErrFormat, "the file's number of batch entries is 0, want 1 to 268435456"},
		{F32, 24, word(0), ErrFormat, "the file's number of heads is 0, want 1 to 268435456"},
		{F32, 28, word(maxLength + 1), ErrFormat,
			"the file's number of inputs is 268435457, want 1 to 268435456"},
		{F32, 32, word(0), ErrFormat, "the file's number of outputs is 0, want 1 to 268435456"},
		{F32, 36, word(1), ErrFormat, "the file's first position is 1, want 0 to 0"},
		{F32, 40, word(1), ErrFormat, "the file's length is 1, want 0 to 0"},
		{F32, 59, []byte{1}, ErrFormat, "byte 59 of the header is 1, want 0"},
		{F32, 28, slices.Concat(word(maxLength), word(maxLength)), ErrShape, fmt.Sprintf(
			"the file's matrix is [1 2 268435456 268435456], want at most %d elements", maxElements)},
		{F32, headerSize + 4*(3*16+5), word(1), ErrFormat, stray},     // column 5 of input 3
		{BF16, headerSize + 2*(6*16+15), []byte{1}, ErrFormat, stray}, // of the second head
		{I8, after + 16*4 + 2, []byte{1}, ErrFormat, stray},           // input 6
		{I8, after + 4*7, []byte{1}, ErrFormat, stray},                // column 7
		{I8, after + 1, []byte{0x80}, ErrFormat, "elements: one is -128, want -127 to 127"},
		{I8, scales + 4*2, scale(nan32()), ErrFormat,
			"scales: the scale of output 2 is NaN, want 0 to 2.6793884e+36"},
		{I8, scales + 4*(16+4), scale(-1), ErrFormat,
			"scales: the scale of output 4 is -1, want 0 to 2.6793884e+36"},
		{I8, scales + 4*5, word(1 << 31), ErrFormat, "scales: one of no output is -0, want 0"},
		{I8, after - 5, []byte{9}, ErrFormat, "scales: byte 59 after them is 9, want 0"},
	} {
		m := smallMatrix(t, MatrixConfig{Format: e.kind})
		file := matrixFileOf(t, m)
		copy(file[e.at:], e.to)
		what := fmt.Sprintf("%v: %x at %d", e.kind, e.to, e.at)
		parts := []int{m.size()}
		if m.traits.Scaled {
			parts = []int{m.scaleSize() + scalePadding, m.size()}
		}
		repair(file, parts...)
		if elements := len(file) - m.size() - 4; e.at < elements {
			mustNotBeMatrix(t, what, file, e.want, e.text)
			continue
		}
		_, err := LoadMatrix(bytes.NewReader(file))
		mustFail(t, what, err, e.want, e.text)
	}
}

// A file that claims much takes memory as bytes come.
func TestMatrixFileTakesMemoryAsItComes(t *testing.T) {
	for _, kind := range matrixTypes {
		for _, dims := range [][2]uint32{{1 << 20, 1 << 20}, {1, maxLength}, {maxLength, 1}} {
			if math.MaxInt == math.MaxInt32 {
				dims[0], dims[1] = min(dims[0], 1<<13), min(dims[1], 1<<13)
			}
			for _, come := range []int{0, 100, 3 << 20} {
				content := io.MultiReader(
					bytes.NewReader(formOfHeader(matrixMagic, kind, 0, 1, 1, dims[0], dims[1], 0, 0)),
					io.LimitReader(zeroReader{}, int64(come)))
				before, heap := memory.Mapped(), heapAllocated()
				_, err := LoadMatrix(io.MultiReader(content, readerFunc(func([]byte) (int, error) {
					mapped, bound := memory.Mapped()-before, int64(4*come+4<<20+1<<16)
					if heap := heapAllocated() - heap; mapped > bound || heap > 1<<20 {
						t.Errorf("%v %v: %d bytes are mapped and %d of the heap for %d that came", kind, dims,
							mapped, heap, come)
					}
					return 0, io.EOF
				})))
				mustFail(t, "short", err, ErrFormat)
				if got := memory.Mapped(); got > before {
					t.Errorf("%d bytes are left", got-before)
				}
			}
		}
	}
}

// zeroReader reads zeros without end.
type zeroReader struct{}

func (zeroReader) Read(x []byte) (int, error) { clear(x); return len(x), nil }

// Errors of readers and writers come out as they are.
func TestMatrixFileBroken(t *testing.T) {
	m := smallMatrix(t, MatrixConfig{Format: I8})
	file := matrixFileOf(t, m)
	before := memory.Mapped()
	for n := range len(file) {
		for err, want := range map[error]error{errBroken: errBroken, nil: io.ErrShortWrite} {
			got, err := m.Save(&brokenWriter{n, err})
			mustFail(t, "broken writer", err, want)
			if got != int64(n) {
				t.Errorf("a writer that takes %d bytes: Save returns %d", n, got)
			}
		}
		_, err := LoadMatrix(io.MultiReader(bytes.NewReader(file[:n]), iotest.ErrReader(errBroken)))
		mustFail(t, "broken reader", err, errBroken)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the reader's panic is gone")
				}
			}()
			_, _ = LoadMatrix(io.MultiReader(bytes.NewReader(file[:n]), panicReader{}))
		}()
	}
	if got := memory.Mapped(); got > before {
		t.Errorf("%d bytes are left after errors", got-before)
	}
	_, err := MapMatrix(filepath.Join(t.TempDir(), "missing"))
	mustFail(t, "missing", err, fs.ErrNotExist)
	folder := t.TempDir()
	if _, err = MapMatrix(folder); err == nil {
		t.Error("a folder is mapped")
	}
	path := fileIn(t, folder, file[:100])
	_, err = MapMatrix(path)
	mustFail(t, "short", err, ErrFormat)
	if want := fmt.Sprintf("%v: the file has 100 bytes, want the %d of its matrix (mapping %s)",
		ErrFormat, len(file), path); !packed.BigEndian() && err.Error() != want {
		t.Errorf("the error is %q, want %q", err, want)
	}
	_, err = new(Matrix).Save(io.Discard)
	mustFail(t, "zero", err, ErrClosed)
}

// A stream holds several matrices; LoadMatrix leaves what is after its own.
func TestMatrixFileStream(t *testing.T) {
	var b bytes.Buffer
	var all []*Matrix
	for _, c := range matrixConfigs {
		m := smallMatrix(t, c)
		all = append(all, m)
		_, err := m.Save(&b)
		must(t, err)
	}
	for i, want := range all {
		m, err := LoadMatrix(&b)
		must(t, err)
		mustEqualMatrices(t, fmt.Sprint(i), m, want)
	}
	_, err := LoadMatrix(&b)
	mustFail(t, "end", err, io.EOF)
}

// A mapped file goes back when nobody refers to the matrix, and not while it multiplies.
func TestMappedMatrixIsCollected(t *testing.T) {
	w := tensor(random("collected"), normal, 1, 1, 300, 300)
	m, err := PackMatrix(w, MatrixConfig{Format: I8})
	must(t, err)
	path := fileIn(t, t.TempDir(), matrixFileOf(t, m))
	stop := collectAlways()
	defer stop()
	before := memory.Mapped()
	for range 50 {
		mapped, err := MapMatrix(path)
		must(t, err)
		dst := zeros(1, 1, 3, 300)
		must(t, mapped.MatMul(dst, zeros(1, 1, 3, 300), nil))
	}
	for deadline := time.Now().Add(20 * time.Second); memory.Mapped() > before; {
		if runtime.GC(); time.Now().After(deadline) {
			t.Fatalf("%d bytes stay mapped", memory.Mapped()-before)
		}
	}
	runtime.KeepAlive(m)
}

// FuzzReadMatrix: what is read can be used, and is written again as it was; what is mapped can be
// used, too. The first byte says whether checksums are made right first, and for which format.
const ofBlocks = 1 << 4 // a mark of inputs, beside repaired

func FuzzReadMatrix(f *testing.F) {
	for i, c := range matrixConfigs {
		file := matrixFileOf(f, smallMatrix(f, c))
		f.Add(append([]byte{byte(i)}, file...))
		f.Add(append([]byte{byte(i) | repaired}, file...))
		f.Add(append([]byte{byte(i) | repaired}, file[:headerSize]...))
	}
	for i, typ := range integerBlockTypes {
		m, err := PackBlocks(fileOfBlocks(random("fuzz"), typ, 5, 256), typ, 5, 256,
			MatrixConfig{Integers: i%2 == 0})
		must(f, err)
		f.Add(append([]byte{byte(i) | ofBlocks | repaired}, matrixFileOf(f, m)...))
	}
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		file := slices.Clone(data[1:])
		if data[0]&repaired != 0 {
			m, _ := newMatrix(Format(data[0]&3), 1, 2, 6, 5)
			if data[0]&ofBlocks != 0 {
				m, _ = newBlockMatrix(blockstest.Types[int(data[0]&7)%len(blockstest.Types)], 5, 256)
			}
			parts := []int{m.size()}
			if m.traits.Scaled {
				parts = []int{m.scaleSize() + scalePadding, m.size()}
			}
			repair(file, parts...)
		}
		m, err := LoadMatrix(bytes.NewReader(file))
		if err != nil {
			mustBeOneOf(t, err, ErrFormat, ErrShape)
		} else {
			mustEqualFiles(t, "that was read", matrixFileOf(t, m), file[:m.fileSize()])
			mustBeUseful(t, m)
		}
		mapped, err := MapMatrix(fileIn(t, folder, file))
		if err != nil {
			mustBeOneOf(t, err, ErrFormat, ErrShape)
			return
		}
		mustBeUseful(t, mapped)
	})
}

// mustBeUseful multiplies by a matrix and closes it.
func mustBeUseful(t *testing.T, m *Matrix) {
	t.Helper()
	if batch, heads, inputs, outputs := m.Dims(); batch*heads*(inputs+outputs) < 1<<16 {
		must(t, m.MatMul(zeros(batch, heads, 1, outputs), zeros(batch, heads, 1, inputs), nil))
	}
	must(t, m.Close())
}

// Integers that no column becomes with its scale are refused by who reads them, and those of the
// smallest columns are not.
func TestMatrixFilesOfIntegersThatNoColumnBecomes(t *testing.T) {
	const inputs, outputs = productInner + 3, 21
	w := tensor(random(t.Name()), normal, 2, 1, inputs, outputs)
	for x := range inputs { // in the order of 0 to their number, subnormal
		w.Row(1, 0, x)[4] = math.Float32frombits(uint32(x) % 70)
		w.Row(1, 0, x)[17] = 0
	}
	for _, c := range []struct {
		output, scaleTo, elementsTo int
		text                        string
	}{
		{-1, -1, -1, ""},
		{2, 0, -1, "elements: the scale of output 2 is 0, want elements as zeros have them"},
		{20, -1, 0, "elements: the largest element of output 20 is 0 with a scale of "},
		{20, -1, 126, "elements: the largest element of output 20 is 126 with a scale of "},
		{20, -1, -127, ""},
		{20, 0, 0, ""},
		{17, -1, 1, "elements: the scale of output 17 is 0, want elements as zeros have them"},
	} {
		m, err := PackMatrix(w, MatrixConfig{Format: I8})
		must(t, err)
		if c.scaleTo == 0 {
			m.scalesOf(1, 0, 0, outputs)[c.output] = 0
		}
		for k := 0; k < inputs && c.elementsTo != -1; k += productInner {
			steps := min(productInner, inputs-k)
			layout := kernel.ScoreLayout(kernel.I8, steps, roundUp(outputs, panel))
			for i := range steps {
				at := kernel.PlaceOf(kernel.I8, &layout, i, c.output)
				setInteger(I8, m.panels(1, 0, k, 0, outputs), at, c.elementsTo)
			}
		}
		_, err = LoadMatrix(bytes.NewReader(matrixFileOf(t, m)))
		if c.text == "" {
			must(t, err)
			continue
		}
		mustFail(t, fmt.Sprintf("%+v", c), err, ErrFormat)
		if err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: error is %v", c, err)
		}
	}
}
