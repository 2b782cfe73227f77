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

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/blocks/blockstest"
	"github.com/seed-1415985d/attn/internal/file"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/matmul"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/packed"
)

const headerSize = file.HeaderSize

// fileSizeOf is how long a matrix's file is to be.
func fileSizeOf(m *Matrix) int {
	form := file.Matrix{Matrix: layoutOf(m)}
	return form.FileSize()
}

// matrixFileOf is what Save writes.
func matrixFileOf(t testing.TB, m *Matrix) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := m.Save(&b)
	must(t, err)
	if n != int64(b.Len()) || b.Len() != fileSizeOf(m) || b.Len() >= m.MemoryUse()+200 {
		t.Fatalf("Save returns %d and wrote %d bytes, want %d", n, b.Len(), fileSizeOf(m))
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
		return LoadMatrix(iotest.HalfReader(bytes.NewReader(file)))
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
			if at := uintptr(unsafe.Pointer(&m.body.Elements()[0])); at%64 != 0 {
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
	batch, heads, inputs, outputs := want.Dims()
	a := tensor(random("rows"), normal, batch, heads, rows, inputs)
	bias := tensor(random("bias"), normal, 1, 1, 1, outputs).Data
	got, alone, pooled := zeros(batch, heads, rows, outputs), zeros(batch, heads, rows, outputs),
		zeros(batch, heads, rows, outputs)
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
	w := tensor(random("form"), normal, 1, 2, matmul.Inner+6, 19)
	for _, c := range []MatrixConfig{{}, {Format: I8, Integers: true}} {
		m, err := PackMatrix(w, c)
		must(t, err)
		mark, group := uint32(0), 1
		if c.Integers {
			mark, group = 1, 4
		}
		want := formOfHeader("attnMat", c.Format, mark, 1, 2, matmul.Inner+6, 19, 0, 0)
		sum := crc32.Checksum(want[:60], table)
		var scales, elements []byte
		for h := range 2 {
			columns, its := make([][]float32, 32), make([]float32, 32)
			for c2 := range columns {
				columns[c2] = make([]float32, matmul.Inner+8)
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
	w := goldenTensor(goldenRandom("matrix file"), 4, 2, 1, matmul.Inner+10, 21)
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
		elements := len(file) - sizeOf(m) - 4
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
		_, err := MapMatrix(fileIn(t, t.TempDir(), append(slices.Clip(file), 0)))
		mustFail(t, "a byte too many", err, ErrFormat)
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
		{F32, 0, []byte("attnTok"), ErrFormat,
			`the file begins with "attnTok", want "attnMat", which Matrix.Save writes`},
		{F32, 7, []byte{5}, ErrFormat, "the file is version 5 of the form, want version 4"},
		{F32, 8, word(4), ErrFormat, fmt.Sprintf("the file's Format is 4, want 0 to 3, 5, or 33 to %d "+
			"or 97 to %d of blocks", 32+int(blocks.Last), 96+int(blocks.Last))},
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
		repair(file, partsOfFile(layoutOf(m))...)
		if elements := len(file) - sizeOf(m) - 4; e.at < elements {
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
					bytes.NewReader(formOfHeader("attnMat", kind, 0, 1, 1, dims[0], dims[1], 0, 0)),
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
const (
	ofBlocks  = 1 << 4 // a mark of inputs, beside repaired
	moreTypes = 5      // of blocks: the bit that is eight types
)

// blockMark is a first byte for a type of blocks with a number, and blockOfMark that number.
func blockMark(i int) byte      { return byte(i&7|i>>3<<moreTypes) | ofBlocks | repaired }
func blockOfMark(mark byte) int { return int(mark&7 | mark>>moreTypes<<3) }

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
		f.Add(append([]byte{blockMark(i)}, matrixFileOf(f, m)...))
	}
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		file := slices.Clone(data[1:])
		if data[0]&repaired != 0 {
			l := packed.Matrix{Format: kernel.Format(data[0] & 3), Batch: 1, Heads: 2, Inputs: 6, Outputs: 5}
			if data[0]&ofBlocks != 0 {
				typ := blockstest.Types[blockOfMark(data[0])%len(blockstest.Types)]
				l = packed.Matrix{Blocks: typ, Batch: 1, Heads: 1, Inputs: 256, Outputs: 5}
			}
			repair(file, partsOfFile(l)...)
		}
		m, err := LoadMatrix(bytes.NewReader(file))
		if err != nil {
			mustBeOneOf(t, err, ErrFormat, ErrShape)
		} else {
			mustEqualFiles(t, "that was read", matrixFileOf(t, m), file[:fileSizeOf(m)])
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

// Integers that no column becomes with its scale are refused by the reader, and integers of the
// smallest columns are not.
func TestMatrixFilesOfIntegersThatNoColumnBecomes(t *testing.T) {
	const inputs, outputs, steps4, columns = matmul.Inner + 3, 21, matmul.Inner + 4, 32 // as packed
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
			m.body.Scales()[columns+c.output] = 0
		}
		for k := 0; k < inputs && c.elementsTo != -1; k += matmul.Inner {
			steps := min(matmul.Inner, inputs-k)
			layout := kernel.ScoreLayout(kernel.I8, steps, kernel.RoundUp(outputs, panel))
			for i := range steps {
				at := kernel.PlaceOf(kernel.I8, &layout, i, c.output)
				panels := m.body.Elements()[(steps4+k)*columns:] // of the second batch entry
				setInteger(I8, panels, at, c.elementsTo)
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

// Several matrices in one file.

// someMatrices are matrices of each format and of some block types, under names. The first has two.
func someMatrices(t testing.TB) (names []string, ms []*Matrix) {
	t.Helper()
	for i, c := range matrixConfigs {
		names, ms = append(names, fmt.Sprintf("blk.%d.weight", i)), append(ms, smallMatrix(t, c))
	}
	for _, b := range []BlockType{Q8_0, Q4_K} {
		size := 21 * 512 / traitsOf(b).Inputs * traitsOf(b).Bytes
		m, err := PackBlocks(make([]byte, size), b, 21, 512, MatrixConfig{})
		must(t, err)
		names, ms = append(names, b.String()), append(ms, m)
	}
	return append(names, "output ä"), append(ms, ms[0])
}

// matricesFileOf is what SaveMatrices writes.
func matricesFileOf(t testing.TB, names []string, ms []*Matrix) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := SaveMatrices(&b, names, ms)
	must(t, err)
	if n != int64(b.Len()) {
		t.Fatalf("SaveMatrices returns %d and wrote %d bytes", n, b.Len())
	}
	return b.Bytes()
}

// Matrices that were written and mapped are those that were packed, each under its name, and one
// with two names is one.
func TestMatricesFile(t *testing.T) {
	names, ms := someMatrices(t)
	file := matricesFileOf(t, names, ms)
	path := fileIn(t, t.TempDir(), file)
	before := memory.Mapped()
	a, err := MapMatrices(path)
	must(t, err)
	if got := a.Names(); !slices.Equal(got, names) {
		t.Errorf("names are %q, want %q", got, names)
	}
	a.Names()[0] = "changed by the caller"
	var got []*Matrix
	for i, name := range names {
		m := a.Matrix(name)
		got = append(got, m)
		mustEqualMatrices(t, name, m, ms[i])
		mustMultiplyAlike(t, name, m, ms[i], 3)
	}
	if a.Matrix("none") != nil || got[0] != got[len(got)-1] || a.Matrix(names[0]) != got[0] {
		t.Error("a name has another matrix")
	}
	mustEqualFiles(t, "saved again", matricesFileOf(t, a.Names(), got), file)
	must(t, got[1].Close())
	mustMultiplyAlike(t, "beside a closed one", got[2], ms[2], 1)
	must(t, a.Close())
	for _, m := range got {
		mustFail(t, "closed with all", m.MatMul(Tensor{}, Tensor{}, nil), ErrClosed)
	}
	if a.Matrix(names[0]) != nil || len(a.Names()) != 0 {
		t.Error("there are matrices after Close")
	}
	mustFail(t, "closed twice", a.Close(), ErrClosed)
	mustFail(t, "zero", new(Matrices).Close(), ErrClosed)
	must(t, (*Matrices)(nil).Close())
	if got := memory.Mapped(); got != before {
		t.Errorf("%d bytes are mapped, want %d as before", got, before)
	}
}

// A matrix keeps the file mapped, also if nobody holds the others.
func TestMatricesAreKeptByEach(t *testing.T) {
	names, ms := someMatrices(t)
	a, err := MapMatrices(fileIn(t, t.TempDir(), matricesFileOf(t, names, ms)))
	must(t, err)
	m := a.Matrix(names[2])
	a = nil
	for range 3 {
		runtime.GC()
	}
	mustMultiplyAlike(t, names[2], m, ms[2], 1)
}

// No names are a file, too.
func TestMatricesFileOfNone(t *testing.T) {
	file := matricesFileOf(t, nil, nil)
	if len(file) != headerSize+4 {
		t.Errorf("a file of nothing has %d bytes", len(file))
	}
	a, err := MapMatrices(fileIn(t, t.TempDir(), file))
	must(t, err)
	if a.Matrix("") != nil || len(a.Names()) != 0 {
		t.Error("a file of nothing has a matrix")
	}
	must(t, a.Close())
}

// The form is fixed. Here it is written from its definition.
func TestMatricesFileForm(t *testing.T) {
	one, two := smallMatrix(t, MatrixConfig{}), smallMatrix(t, MatrixConfig{Format: I8})
	first, second := matrixFileOf(t, one), matrixFileOf(t, two)
	u32 := binary.LittleEndian.AppendUint32
	index := u32(u32(nil, 0), 1)
	index = append(u32(u32(append(index, 'a'), 1), 2), "bb"...)
	index = append(u32(u32(index, 0), 1), 'c')
	index = binary.LittleEndian.AppendUint64(index, uint64(len(first)))
	index = binary.LittleEndian.AppendUint64(index, uint64(len(second)))
	want := u32(u32(u32([]byte("attnSet\x04"), 3), 2), uint32(len(index)))
	want = append(append(want, make([]byte, headerSize-len(want))...), index...)
	want = append(want, 0, 0, 0, 0) // checksums, as that in the header
	repairSet(want, len(index))
	for _, file := range [][]byte{first, second} {
		want = append(append(want, make([]byte, -len(want)&4095)...), file...)
	}
	mustEqualFiles(t, "three names", matricesFileOf(t, []string{"a", "bb", "c"},
		[]*Matrix{one, two, one}), want)
}

// repairSet writes the checksums of a header and an index.
func repairSet(file []byte, index int) { repair(file[:headerSize+index+4], index) }

// Whichever byte is not what it was, and wherever the file ends, it is an error; but elements that
// are mapped are not looked at.
func TestMatricesFileCorrupted(t *testing.T) {
	names, ms := someMatrices(t)
	ends := []int{0}
	for i := range ms[:len(ms)-1] {
		ends = append(ends, len(matricesFileOf(t, names[:i+1], ms[:i+1])))
	}
	file := matricesFileOf(t, names, ms)
	folder := t.TempDir()
	before := memory.Mapped()
	step := 1
	if few() {
		step = 97
	}
	for at := 0; at < len(file); at += step {
		_, err := MapMatrices(fileIn(t, folder, file[:at]))
		mustFail(t, fmt.Sprintf("first %d bytes", at), err, ErrFormat)
		m, _ := slices.BinarySearch(ends[1:], at+1)
		if elements := ends[m+1] - sizeOf(ms[m]) - 4; at >= elements && !packed.BigEndian() {
			continue
		}
		spoiled := slices.Clone(file)
		spoiled[at] ^= 1 << (at % 8)
		_, err = MapMatrices(fileIn(t, folder, spoiled))
		mustFail(t, fmt.Sprintf("byte %d", at), err, ErrFormat)
	}
	_, err := MapMatrices(fileIn(t, folder, append(slices.Clip(file), 0)))
	mustFail(t, "more", err, ErrFormat)
	if got := memory.Mapped(); got > before {
		t.Errorf("%d bytes are left after errors", got-before)
	}
}

// What a checksum does not find is found.
func TestMatricesFileHostile(t *testing.T) {
	one, two := smallMatrix(t, MatrixConfig{}), smallMatrix(t, MatrixConfig{Format: I8})
	whole := matricesFileOf(t, []string{"a", "bb", "c"}, []*Matrix{one, two, one})
	const index = 9 + 10 + 9 + 16
	for _, e := range []struct {
		at   int
		to   []byte
		text string
	}{
		{0, []byte("attnMat"), `the file begins with "attnMat", want "attnSet"`},
		{7, []byte{3}, "the file is version 3 of the form, want version 4"},
		{8, word(4), "names[3] is empty, want a name"},
		{8, word(2), "names: they are of 2 matrices, and 25 bytes of sizes follow, want 2 and 16"},
		{8, word(math.MaxUint32), "names[3] is empty, want a name"},
		{12, word(3), "names: they are of 2 matrices, and 16 bytes of sizes follow, want 3 and 24"},
		{20, []byte{1}, "byte 20 of the file is 1, want 0"},
		{headerSize, word(1), `names: "a" is of matrix 1, want at most 0`},
		{headerSize + 4, word(1 << 31), "names: they end after 0, want 3"},
		{headerSize + 4, word(0), "names[0] is empty, want a name"},
		{headerSize + 9 + 10 + 8, []byte("a"), `names[2] is "a", want another one than names[0]`},
		{headerSize + index - 16, word(0), "sizes: matrix 0 has 0 bytes, want 64 to "},
		{headerSize + index - 1, []byte{0x80}, "sizes: matrix 1 has -"},
		{headerSize + index - 8, word(100), "the file has "},
		{4095, []byte{7}, "byte 4095 of the file is 7, want 0 (matrix \"a\")"},
		{4096, []byte("attnTok"), `the file begins with "attnTok", want "attnMat", which ` +
			`Matrix.Save writes (matrix "a")`},
	} {
		file := slices.Clone(whole)
		copy(file[e.at:], e.to)
		repairSet(file, index)
		_, err := MapMatrices(fileIn(t, t.TempDir(), file))
		mustFailWith(t, fmt.Sprintf("%x at %d", e.to, e.at), err, ErrFormat, e.text)
	}
	for _, size := range []uint32{math.MaxUint32, file.MaxNames + 1, uint32(len(whole))} {
		file := slices.Clone(whole)
		copy(file[16:], word(size))
		repairSet(file, index)
		_, err := MapMatrices(fileIn(t, t.TempDir(), file))
		mustFailWith(t, fmt.Sprint(size), err, ErrFormat, fmt.Sprintf(
			"the file's names and sizes are %d bytes, want at most %d", size, len(whole)-64))
	}
}

// mustFailWith makes sure that an error is of a kind and says something.
func mustFailWith(t testing.TB, what string, err, kind error, text string) {
	t.Helper()
	mustFail(t, what, err, kind)
	if err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("%s: error says %q, want %q in it", what, err, text)
	}
}

// A file of another kind has no checksum that could be wrong, however long it is.
func TestFilesOfOtherPrograms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 1, ValueDim: 1, Capacity: 1})
	must(t, err)
	for _, text := range []string{"# A", "# A text\n", "# A text\n" +
		strings.Repeat("with lines\n", 500)} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		_, ofMatrices := MapMatrices(path)
		_, ofMatrix := MapMatrix(path)
		_, loaded := LoadMatrix(strings.NewReader(text))
		_, ofTokens := c.Load(strings.NewReader(text))
		for want, err := range map[string]error{`"attnSet", which SaveMatrices writes (mapp`: ofMatrices,
			`"attnMat", which Matrix.Save writes (mapping`: ofMatrix,
			`"attnMat", which Matrix.Save writes`:          loaded,
			`"attnTok", which Save of a Cache or a`:        ofTokens} {
			want = fmt.Sprintf("the file begins with %q, want %s", text[:min(len(text), 7)], want)
			if len(text) < 8 {
				want = strings.Replace(want, " writes", " writes: unexpected EOF", 1)
			}
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) ||
				errors.Is(err, io.ErrUnexpectedEOF) != (len(text) < 8) {
				t.Errorf("%d bytes of text: error %v, want %s", len(text), err, want)
			}
		}
	}
}

// What cannot be saved is an error that names it, and nothing is written.
func TestSaveMatricesRefuses(t *testing.T) {
	m, closed := smallMatrix(t, MatrixConfig{}), smallMatrix(t, MatrixConfig{})
	must(t, closed.Close())
	for _, e := range []struct {
		names []string
		ms    []*Matrix
		kind  error
		text  string
	}{
		{[]string{"a"}, nil, ErrLength, "there are 0 matrices, want 1 as names"},
		{[]string{"a", "b"}, []*Matrix{m, nil}, ErrOption, "ms[1] is nil, want a matrix"},
		{[]string{"a", "b"}, []*Matrix{m, closed}, ErrClosed, "(ms[1])"},
		{[]string{"a", ""}, []*Matrix{m, m}, ErrOption, "names[1] is empty, want a name"},
		{[]string{"a", "b", "a"}, []*Matrix{m, m, m}, ErrOption,
			`names[2] is "a", want another one than names[0]`},
		{[]string{string(make([]byte, file.MaxNames))}, []*Matrix{m}, ErrLength,
			"names and sizes are 268435472 bytes, want at most 268435456"},
	} {
		n, err := SaveMatrices(panicWriter{}, e.names, e.ms)
		mustFailWith(t, fmt.Sprintf("%.20q", e.names), err, e.kind, e.text)
		if n != 0 {
			t.Errorf("%d bytes were written", n)
		}
	}
}

type panicWriter struct{}

func (panicWriter) Write([]byte) (int, error) { panic("something is written") }

// Errors of writers and of the system come out as they are.
func TestMatricesFileBroken(t *testing.T) {
	names, ms := someMatrices(t)
	file := matricesFileOf(t, names, ms)
	for n := 0; n < len(file); n += 61 {
		for err, want := range map[error]error{errBroken: errBroken, nil: io.ErrShortWrite} {
			got, err := SaveMatrices(&brokenWriter{n, err}, names, ms)
			mustFail(t, "broken writer", err, want)
			if got != int64(n) {
				t.Errorf("a writer that takes %d bytes: SaveMatrices returns %d", n, got)
			}
		}
	}
	folder := t.TempDir()
	_, err := MapMatrices(filepath.Join(folder, "missing"))
	mustFail(t, "missing", err, fs.ErrNotExist)
	if _, err = MapMatrices(folder); err == nil {
		t.Error("a folder is mapped")
	}
	must(t, os.WriteFile(filepath.Join(folder, "empty"), nil, 0o600))
	_, err = MapMatrices(filepath.Join(folder, "empty"))
	mustFail(t, "empty", err, ErrFormat)
	if !errors.Is(err, io.EOF) {
		t.Errorf("an empty file is %v, want io.EOF too", err)
	}
}

func FuzzMatricesFile(f *testing.F) {
	names, ms := someMatrices(f)
	f.Add(matricesFileOf(f, names[:3], ms[:3]))
	f.Add(matricesFileOf(f, nil, nil))
	path := filepath.Join(f.TempDir(), "matrices")
	f.Fuzz(func(t *testing.T, file []byte) {
		must(t, os.WriteFile(path, file, 0o600))
		a, err := MapMatrices(path)
		if err != nil {
			return
		}
		for _, name := range a.Names() {
			_, err := a.Matrix(name).Save(io.Discard)
			must(t, err)
		}
		must(t, a.Close())
	})
}
