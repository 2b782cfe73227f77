package attn

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/packed"
)

// newSequenceIn returns a sequence of n tokens, always the same, in a new store in which other
// tokens have been; the first ones are dropped.
func newSequenceIn(t testing.TB, g StoreConfig, first, n int) *Sequence {
	store, err := NewStore(g)
	must(t, err)
	fillWith(elements[float32](store.packed.Data), nan32())
	s := store.NewSequence()
	r := goldenRandom("sequence file")
	k, v := goldenTensor(r, 4, 1, g.KVHeads, n, g.HeadDim), goldenTensor(r, 2, 1, g.KVHeads, n,
		g.ValueDim)
	must(t, s.Append(k, g.kept(v)))
	must(t, s.DropBefore(first))
	return s
}

// kept returns values in the form of Append and Read.
func (g StoreConfig) kept(v Tensor) Tensor {
	if g.ValuesInKeys {
		return Tensor{}
	}
	return v
}

// fileOf is what Save writes.
func fileOf(t testing.TB, s *Sequence) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := s.Save(&b)
	must(t, err)
	if n != int64(b.Len()) {
		t.Fatalf("Save returns %d, want the %d bytes that it wrote", n, b.Len())
	}
	return b.Bytes()
}

// shuffled returns a sequence with a few tokens of another store, whose next pages do not follow
// each other, and one whose pages are the first one's, too.
func shuffled(t testing.TB, g StoreConfig) (s, fork *Sequence) {
	s = newSequenceIn(t, g, 3, Block+5)
	var holders []*Sequence
	for s.store.FreePages() > 0 {
		h := s.store.NewSequence()
		must(t, h.Append(zeros(1, g.KVHeads, 1, g.HeadDim), g.kept(zeros(1, g.KVHeads, 1, g.ValueDim))))
		holders = append(holders, h)
	}
	for i := 0; i+1 < len(holders); i += 2 {
		holders[i], holders[i+1] = holders[i+1], holders[i]
	}
	for _, h := range holders {
		h.Release()
	}
	return s, s.Fork()
}

// everySequence calls f for stores of every type, rotated and not, and sequences of ragged lengths.
func everySequence(t *testing.T, f func(t *testing.T, g StoreConfig, first, n int)) {
	for _, kind := range allFormats {
		for _, d := range [][2]int{{6, 5}, {16, 32}, {22, 19}} {
			g := StoreConfig{KVHeads: 2, HeadDim: d[0], ValueDim: d[1], Pages: 7, Format: kind,
				ValuesInKeys: d[0] > 16}
			for _, n := range [][2]int{{0, 0}, {0, 1}, {0, 63}, {0, 64}, {0, 65}, {1, 64}, {17, 150},
				{63, 64}, {64, 64}, {70, 70}, {70, 128}, {130, 200}, {190, 192}} {
				t.Run(fmt.Sprint(kind, d, n), func(t *testing.T) { f(t, g, n[0], n[1]) })
			}
		}
	}
}

// A sequence that was written and read gives the same bits, wherever its pages are, and the same
// file.
func TestSequenceFile(t *testing.T) {
	everySequence(t, func(t *testing.T, g StoreConfig, first, n int) {
		s := newSequenceIn(t, g, first, n)
		file := fileOf(t, s)
		to, fork := shuffled(t, g)
		forked := fileOf(t, fork)
		read, err := to.Load(iotest.OneByteReader(bytes.NewReader(append(slices.Clip(file), "more"...))))
		must(t, err)
		if read != int64(len(file)) {
			t.Errorf("%d bytes were read, want the %d of the file", read, len(file))
		}
		mustEqualSequences(t, to, s)
		mustEqualFiles(t, "that was read", fileOf(t, to), file)
		again := to.Fork()
		mustEqualFiles(t, "of a fork", fileOf(t, again), file)
		again.Release()
		mustEqualFiles(t, "of a fork of the tokens before", fileOf(t, fork), forked)

		// Both go on alike.
		k, v := tensor(random("more"), normal, 1, g.KVHeads, 70, g.HeadDim), tensor(random("more"),
			normal, 1, g.KVHeads, 70, g.ValueDim)
		fork.Release()
		must(t, s.Append(k, g.kept(v)))
		must(t, to.Append(k, g.kept(v)))
		must(t, s.Truncate(n+67))
		must(t, to.Truncate(n+67))
		mustEqualSequences(t, to, s)
		mustEqualFiles(t, "after more tokens", fileOf(t, to), fileOf(t, s))
		must(t, to.Truncate(to.First()))
		must(t, to.DropBefore(to.First()))
		to.Release()
		if free := to.store.FreePages(); free != g.Pages {
			t.Errorf("%d pages are free in the end, want %d", free, g.Pages)
		}
	})
}

func mustEqualFiles(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Fatalf("the file %s has %d bytes %x…, want %d bytes %x…", what, len(got), got[:44], len(want),
			want[:44])
	}
}

// mustEqualSequences compares what two sequences hold and what attending over them gives.
func mustEqualSequences(t testing.TB, a, b *Sequence) {
	t.Helper()
	if a.First() != b.First() || a.Len() != b.Len() {
		t.Fatalf("positions are %d to %d, want %d to %d", a.First(), a.Len(), b.First(), b.Len())
	}
	g, n := &a.store.config, a.Len()-a.First()
	q := tensor(random("queries"), normal, 1, 2*g.KVHeads, 3, g.HeadDim)
	var out, lse, keys, values [2][]float32
	for i, s := range []*Sequence{a, b} {
		k, v, dst := zeros(1, g.KVHeads, n, g.HeadDim), zeros(1, g.KVHeads, n, g.ValueDim), zeros(1, q.H,
			q.L, g.ValueDim)
		must(t, s.Read(k, g.kept(v), s.First()))
		lse[i] = nans(q.H * q.L)
		must(t, AttendSequences(dst, q, []*Sequence{s},
			&Options{Causal: BottomRight, QueryLens: []int{q.L}, LSE: lse[i]}))
		keys[i], values[i], out[i] = k.Data, v.Data, dst.Data
	}
	mustEqualBits(t, "keys", keys[0], keys[1])
	mustEqualBits(t, "values", values[0], values[1])
	mustEqualBits(t, "attention", out[0], out[1])
	mustEqualBits(t, "LSE", lse[0], lse[1])
}

// The form is fixed: other versions and machines read it. Here it is written from its definition.
func TestSequenceFileForm(t *testing.T) {
	for _, kind := range []Format{F32, I8} {
		g := StoreConfig{KVHeads: 2, HeadDim: 6, ValueDim: 3, Pages: 3, Format: kind}
		s := newSequenceIn(t, g, 70, 131)
		k, v := zeros(1, 2, 61, 6), zeros(1, 2, 61, 3)
		must(t, s.Read(k, v, 70))
		keys := k
		if kind == I8 {
			keys = rotatedRows(goldenTokens(g, 131, 70))
		}

		want := formOfHeader("attnTok", kind, 0, 1, 2, 6, 3, 70, 131)
		table := crc32.MakeTable(crc32.Castagnoli)
		sum := crc32.Checksum(want[:60], table)
		for page := 1; page < 3; page++ {
			var body []byte
			for h := range 2 {
				body = append(body, formOfBlock(keys, v, h, 70-Block*page, kind)...)
			}
			sum = crc32.Update(sum, table, body)
			want = binary.LittleEndian.AppendUint32(append(want, body...), sum)
		}
		mustEqualFiles(t, kind.String(), fileOf(t, s), want)
	}
}

// formOfHeader is the header of a file, after its format written twice, with its checksum.
func formOfHeader(magic string, kind Format, fields ...uint32) []byte {
	x := append([]byte(magic), 4)
	for _, n := range append([]uint32{uint32(kind), uint32(kind)}, fields...) {
		x = binary.LittleEndian.AppendUint32(x, n)
	}
	x = append(x, make([]byte, 60-len(x))...)
	return binary.LittleEndian.AppendUint32(x, crc32.Checksum(x, crc32.MakeTable(crc32.Castagnoli)))
}

// goldenTokens are the keys of newSequenceIn from token first on.
func goldenTokens(g StoreConfig, n, first int) Tensor {
	r := goldenRandom("sequence file")
	return rowsOf(goldenTensor(r, 4, 1, g.KVHeads, n, g.HeadDim), first, n-first)
}

// formOfBlock is the block of a head, in which token 0 of k and v is at position first.
func formOfBlock(k, v Tensor, h, first int, kind Format) []byte {
	if kind == F32 {
		keys, values := make([]byte, 4*Block*6), make([]byte, 4*Block*16)
		for j := max(0, first); j < min(Block, first+k.L); j++ {
			for x, e := range k.row(0, h, j-first) {
				binary.LittleEndian.PutUint32(keys[4*((j/16*6+x)*16+j%16):], math.Float32bits(e))
			}
			for c, e := range v.row(0, h, j-first) {
				binary.LittleEndian.PutUint32(values[4*(j*16+c):], math.Float32bits(e))
			}
		}
		return append(keys, values...)
	}
	keys, values := make([]byte, Block*8+4*Block), make([]byte, Block*16+4*Block)
	for j := max(0, first); j < min(Block, first+k.L); j++ {
		integers, scale := integersOf(k.row(0, h, j-first))
		for x, e := range integers {
			keys[((j/16*2+x/4)*16+j%16)*4+x%4] = byte(int8(e))
		}
		binary.LittleEndian.PutUint32(keys[Block*8+4*j:], math.Float32bits(scale))
		integers, scale = integersOf(v.row(0, h, j-first))
		for c, e := range integers {
			values[(j/4*16+c)*4+j%4] = byte(int8(e))
		}
		binary.LittleEndian.PutUint32(values[Block*16+4*j:], math.Float32bits(scale))
	}
	return append(keys, values...)
}

// Every machine, little-endian or big, writes these bytes, and reads them: see TestSequenceFile.
func TestSequenceFileGolden(t *testing.T) {
	golden := map[Format][2]string{ // with values, and with values in keys
		F32: {"38ef5bd29fe74643", "ead67bf6e3fcd8dd"}, F16: {"202cb0db8adc3a76", "a55df7c5c3b85200"},
		BF16: {"35fee047b92a65df", "8eff6fd5df852ffb"}, I8: {"ff2b6b770d3d5af8", "cb277516bf69660b"},
		I4: {"5e64b3197f089bbd", "51d5179eed3ab4e0"}}
	for _, kind := range allFormats {
		for i, want := range golden[kind] {
			g := StoreConfig{KVHeads: 2, HeadDim: 6 + 20*i, ValueDim: 19, Pages: 3, Format: kind,
				ValuesInKeys: i == 1}
			file := fileOf(t, newSequenceIn(t, g, 5, 150))
			if hash := fmt.Sprintf("%x", sha256.Sum256(file))[:16]; hash != want {
				t.Errorf("%v: %q, want %q", kind, hash, want)
			}
		}
	}
}

// Bytes are turned within numbers, wherever these are. (Machines where that is never done run this,
// too.)
func TestSwapBytes(t *testing.T) {
	for kind, size := range map[Format]int{F32: 4, BF16: 2, I8: 4, I4: 4} {
		s := packed.New(kernel.Format(kind), kernel.Format(kind), 1, 4, 16, false)
		x := make([]byte, s.Size)
		want := make([]byte, s.Size)
		for i := range x {
			x[i] = byte(i)
			keys, values := i >= s.KeyBytes-4*Block && i < s.KeyBytes, i >= s.Size-4*Block // with scales
			if want[i] = byte(i); kind < I8 || keys || values {
				want[i] = byte(i/size*size + size - 1 - i%size)
			}
		}
		if s.SwapBytes(x); !bytes.Equal(x, want) {
			t.Errorf("%v: %x, want %x", kind, x, want)
		}
	}
}

// readCase is a sequence with other tokens that is to read a file or fail.
type readCase struct {
	s, fork *Sequence
	pages   []int
	free    int
	file    []byte
}

func newReadCase(t testing.TB, g StoreConfig) *readCase {
	c := &readCase{}
	c.s, c.fork = shuffled(t, g)
	c.note(t)
	return c
}

// note notes what there is.
func (c *readCase) note(t testing.TB) {
	c.pages, c.free = pagesOf(c.s), c.s.store.FreePages()
	c.file = fileOf(t, c.s)
}

// mustFail makes sure that reading from r fails and that nothing has changed but what nobody reads.
func (c *readCase) mustFail(t testing.TB, what string, r io.Reader, kind error, text ...string) {
	t.Helper()
	_, err := c.s.Load(r)
	mustFail(t, what, err, kind, text...)
	if got, free := pagesOf(c.s), c.s.store.FreePages(); !slices.Equal(got, c.pages) ||
		free != c.free {
		t.Fatalf("%s: pages are %v, %d free, after a call that failed, want %v, %d",
			what, got, free, c.pages, c.free)
	}
}

// unchanged makes sure that the tokens are those that were noted.
func (c *readCase) unchanged(t testing.TB) {
	t.Helper()
	mustEqualFiles(t, "after calls that failed", fileOf(t, c.s), c.file)
	mustEqualFiles(t, "of a fork after calls that failed", fileOf(t, c.fork), c.file)
}

// smallest is the configuration of a store with the smallest pages.
func smallest(kind Format) StoreConfig {
	return StoreConfig{KVHeads: 1, HeadDim: 1, ValueDim: 1, Pages: 5, Format: kind}
}

// Whichever byte is not what it was, and wherever the file ends, it is an error.
func TestSequenceFileCorrupted(t *testing.T) {
	for _, kind := range allFormats {
		file := fileOf(t, newSequenceIn(t, smallest(kind), 3, Block+3))
		c := newReadCase(t, smallest(kind))
		step := 1
		if few() {
			step = 7
		}
		for at := 0; at < len(file); at++ {
			if at > 100 && at < len(file)-50 {
				at += step - 1
			}
			e := file[at]
			for bit := range 8 {
				file[at] = e ^ 1<<bit
				c.mustFail(t, fmt.Sprintf("%v: byte %d", kind, at), bytes.NewReader(file), ErrFormat)
			}
			file[at] = e
			what, end := fmt.Sprintf("%v: first %d bytes", kind, at), io.ErrUnexpectedEOF
			if at == 0 {
				end = io.EOF
			}
			c.mustFail(t, what, bytes.NewReader(file[:at]), ErrFormat)
			c.mustFail(t, what, iotest.DataErrReader(bytes.NewReader(file[:at])), end)
		}
		c.unchanged(t)
		_, err := c.s.Load(bytes.NewReader(file))
		must(t, err)
	}
}

// repair makes the checksums of a file right, as far as it goes: of the header, and of parts of
// these sizes, of which the last one repeats.
func repair(file []byte, parts ...int) {
	table, sum := crc32.MakeTable(crc32.Castagnoli), uint32(0)
	for n := headerSize - 4; len(file) >= n+4; {
		sum = crc32.Update(sum, table, file[:n])
		binary.LittleEndian.PutUint32(file[n:], sum)
		file = file[n+4:]
		if n = parts[0]; len(parts) > 1 {
			parts = parts[1:]
		}
	}
}

// word is a field of a file.
func word(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

// What a checksum does not find is found.
func TestSequenceFileHostile(t *testing.T) {
	scale := func(e float32) []byte { return word(math.Float32bits(e)) }
	const (
		head, keys, block8 = headerSize, 64 * 4, 64*(4+4) + 64*(16+4) // of keys of F32 and I8; of I8
		page8              = 2*block8 + 4
		stray              = "a byte of no token is 1, want 0"
	)
	c := map[Format]*readCase{}
	for _, e := range []struct {
		kind Format
		at   int
		to   []byte
		want error
		text string
	}{
		{F32, 7, []byte{3}, ErrFormat, "the file is version 3 of the form, want version 4"},
		{F32, 0, []byte{'A'}, ErrFormat, `the file begins with "AttnTok", want "attnTok", which ` +
			"Save of a Cache or a Sequence writes"},
		{F32, 0, []byte("attnMat"), ErrFormat, `the file begins with "attnMat", want "attnTok", which ` +
			"Save of a Cache or a Sequence writes"},
		{F32, 8, word(5), ErrFormat, "the file's Format is 5, want 0 to 4"},
		{F32, 8, word(math.MaxUint32), ErrFormat, "the file's Format is 4294967295, want 0 to 4"},
		{F32, 8, word(2), ErrOption, "the file's Format is BF16, want the store's F32"},
		{F32, 12, word(5), ErrFormat, "the file's ValueFormat is 5, want 0 to 4"},
		{F32, 12, word(3), ErrOption, "the file's ValueFormat is I8, want the store's F32"},
		{F32, 16, word(2), ErrFormat, "the file's ValuesInKeys is 2, want 0 to 1"},
		{F32, 16, word(1), ErrOption, "the file's ValuesInKeys is true, want the store's false"},
		{F32, 20, word(0), ErrFormat, "the file's Batch is 0, want 1 to 268435456"},
		{F32, 20, word(2), ErrShape, "the file's Batch is 2, want the store's 1"},
		{F32, 24, word(0), ErrFormat, "the file's KVHeads is 0, want 1 to 268435456"},
		{F32, 24, word(3), ErrShape, "the file's KVHeads is 3, want the store's 2"},
		{F32, 28, word(maxLength + 1), ErrFormat, "the file's HeadDim is 268435457, want 1 to 268435456"},
		{F32, 28, word(2), ErrShape, "the file's HeadDim is 2, want the store's 1"},
		{F32, 32, word(maxLength), ErrShape, "the file's ValueDim is 268435456, want the store's 1"},
		{F32, 36, word(68), ErrFormat, "the file's length is 67, want 68 to 268435456"},
		{F32, 36, word(1 << 31), ErrFormat, "the file's first position is 2147483648, want 0 to " +
			"268435456"},
		{F32, 40, word(maxLength + 1), ErrFormat, "the file's length is 268435457, want 0 to 268435456"},
		{F32, 40, word(maxLength), ErrCapacity, "the file of 268435453 tokens takes 4194304 pages: " +
			"4194301 are missing, as 3 of 5 are free"},
		{F32, 40, word(4 * Block), ErrCapacity, "the file of 253 tokens takes 4 pages: 1 are missing, " +
			"as 3 of 5 are free"},
		{F32, 40, word(3 * Block), ErrFormat, "page 2: the file ends after 17480 bytes: unexpected EOF"},
		{F32, 40, word(2*Block + 1), ErrFormat, "page 2: the file ends after 17480 bytes: unexpected " +
			"EOF"},
		{F32, 44, []byte{1}, ErrFormat, "byte 44 of the header is 1, want 0"},
		{F32, 59, []byte{7}, ErrFormat, "byte 59 of the header is 7, want 0"},
		{F32, head + 4*2, word(1), ErrFormat, "page 0, head 0: " + stray}, // key 2
		// value 2
		{F32, head + keys + 4*16*2, word(1 << 24), ErrFormat, "page 0, head 0: " + stray},
		// column 1 of value 3
		{F16, head + 64*2 + 2*(3*16+1), []byte{1}, ErrFormat, "page 0, head 0: " + stray},
		{BF16, head + 2*64*(1+16) + 2*2, []byte{0, 1}, ErrFormat, "page 0, head 1: " + stray}, // key 2
		// dimension 1 of key 5
		{I8, head + 4*5 + 1, []byte{1}, ErrFormat, "page 0, head 0: " + stray},
		// scale of key 2
		{I8, head + keys + 4*2, word(1), ErrFormat, "page 0, head 0: " + stray},
		// scale of value 63
		{I8, head + page8 + block8 - 4, word(1), ErrFormat, "page 1, head 0: " + stray},
		// column 3 of value 3
		{I8, head + page8 + 2*keys + 4*3 + 3, []byte{1}, ErrFormat, "page 1, head 0: " + stray},
		{I8, head + block8 + 4*5, []byte{0x80}, ErrFormat,
			"page 0, head 1: an element of the keys is -128, want -127 to 127"},
		{I8, head + page8 + block8 + 2*keys + 1, []byte{0x80}, ErrFormat,
			"page 1, head 1: an element of the values is -128, want -127 to 127"},
		{I8, head + keys + 4*3, scale(nan32()), ErrFormat,
			"page 0, head 0: the scale of key 3 is NaN, want 0 to 2.6793884e+36"},
		{I8, head + keys + 4*4, scale(float32(math.Inf(1))), ErrFormat,
			"page 0, head 0: the scale of key 4 is +Inf, want 0 to 2.6793884e+36"},
		{I8, head + keys + 4*4, scale(2.7e36), ErrFormat,
			"page 0, head 0: the scale of key 4 is 2.7e+36, want 0 to 2.6793884e+36"},
		{I8, head + block8 + keys + 4*63, scale(-1), ErrFormat,
			"page 0, head 1: the scale of key 63 is -1, want 0 to 2.6793884e+36"},
		{I8, head + page8 + 2*block8 - 4*63, scale(float32(math.Copysign(0, -1))), ErrFormat,
			"page 1, head 1: the scale of value 1 is -0, want 0 to 2.6793884e+36"},
	} {
		g := smallest(e.kind)
		g.KVHeads = 2
		if c[e.kind] == nil {
			c[e.kind] = newReadCase(t, g)
		}
		s := newSequenceIn(t, g, 3, Block+3)
		file := fileOf(t, s)
		copy(file[e.at:], e.to)
		repair(file, 2*s.store.packed.Size)
		c[e.kind].mustFail(t, fmt.Sprintf("%v: %x at %d", e.kind, e.to, e.at), bytes.NewReader(file),
			e.want, e.text)
	}
	for _, c := range c {
		c.unchanged(t)
	}
}

// Pages in another order, or of another file, are found although each is whole.
func TestSequenceFilePagesAreOfTheirPlace(t *testing.T) {
	g := smallest(F16)
	file := fileOf(t, newSequenceIn(t, g, 0, 3*Block))
	c := newReadCase(t, g)
	const head = headerSize
	page := (len(file) - head) / 3
	swapped := slices.Concat(file[:head], file[head+page:head+2*page], file[head:head+page],
		file[head+2*page:])
	c.mustFail(t, "swapped", bytes.NewReader(swapped), ErrFormat)
	other := fileOf(t, newSequenceIn(t, g, 1, 3*Block))
	mixed := slices.Concat(file[:head+page], other[head+page:])
	c.mustFail(t, "of another file", bytes.NewReader(mixed), ErrFormat)
	c.unchanged(t)
}

var errBroken = errors.New("broken")

// brokenWriter accepts a number of bytes, then fails, or writes less without an error.
type brokenWriter struct {
	left int
	err  error
}

func (w *brokenWriter) Write(x []byte) (int, error) {
	if len(x) <= w.left {
		w.left -= len(x)
		return len(x), nil
	}
	n := w.left
	w.left = 0
	return n, w.err
}

// Errors of readers and writers come out as they are, with the bytes that went through.
func TestSequenceFileBroken(t *testing.T) {
	g := smallest(I8)
	s := newSequenceIn(t, g, 3, Block+3)
	c := newReadCase(t, g)
	file := fileOf(t, s)
	for n := 0; n < len(file); n += 1 + n/5 {
		for err, want := range map[error]error{errBroken: errBroken, nil: io.ErrShortWrite} {
			got, err := s.Save(&brokenWriter{n, err})
			if got != int64(n) || !errors.Is(err, want) {
				t.Errorf("a writer that takes %d bytes: Save returns %d and error %v, want %v", n, got, err,
					want)
			}
		}
		broken := io.MultiReader(bytes.NewReader(file[:n]), iotest.ErrReader(errBroken))
		c.mustFail(t, "broken reader", broken, errBroken)
		got, err := c.s.Load(io.MultiReader(bytes.NewReader(file[:n]), iotest.ErrReader(errBroken)))
		if got != int64(n) || errors.Is(err, ErrFormat) {
			t.Errorf("a reader of %d bytes: Load returns %d and error %v", n, got, err)
		}
	}
	c.mustFail(t, "timeout", iotest.TimeoutReader(iotest.HalfReader(bytes.NewReader(file))),
		iotest.ErrTimeout)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the reader's panic is gone")
			}
		}()
		c.mustFail(t, "panic", io.MultiReader(bytes.NewReader(file[:100]), panicReader{}), nil)
	}()
	c.mustFail(t, "after a panic", bytes.NewReader(nil), io.EOF)
	c.unchanged(t)
	c.fork.Release()
	for _, r := range []io.Reader{iotest.HalfReader(bytes.NewReader(file)),
		iotest.DataErrReader(bytes.NewReader(file))} {
		_, err := c.s.Load(r)
		must(t, err)
		mustEqualFiles(t, "that was read", fileOf(t, c.s), file)
	}
}

type panicReader struct{}

func (panicReader) Read([]byte) (int, error) { panic("the reader's") }

func TestSequenceFileClosed(t *testing.T) {
	s := newSequenceIn(t, smallest(F32), 0, 1)
	released := s.Fork()
	released.Release()
	for what, seq := range map[string]*Sequence{"zero": {}, "released": released} {
		_, err := seq.Save(io.Discard)
		mustFail(t, what, err, ErrClosed)
		_, err = seq.Load(iotest.ErrReader(errBroken))
		mustFail(t, what, err, ErrClosed)
	}
	must(t, s.store.Close())
	_, err := s.Save(io.Discard)
	mustFail(t, "closed", err, ErrClosed, "the sequence is of a store that was closed")
	_, err = s.Load(iotest.ErrReader(errBroken))
	mustFail(t, "closed", err, ErrClosed, "the sequence is of a store that was closed")
}

// A stream holds several sequences; they may go through a pipe, to the same store, while others
// attend over them and write them.
func TestSequenceFileStream(t *testing.T) {
	g := StoreConfig{KVHeads: 2, HeadDim: 4, ValueDim: 4, Pages: 20, Format: BF16}
	s := newSequenceIn(t, g, 10, 3*Block+7)
	fork := s.Fork()
	must(t, fork.Append(zeros(1, 2, 3, 4), zeros(1, 2, 3, 4)))
	of := []*Sequence{s, fork, s.store.NewSequence(), s}
	from, to := io.Pipe()
	var all sync.WaitGroup
	all.Go(func() {
		for _, seq := range of {
			if _, err := seq.Save(to); err != nil {
				t.Error(err)
			}
		}
		to.Close()
	})
	all.Go(func() {
		q, dst := zeros(1, 2, 2, 4), zeros(1, 2, 2, 4)
		for range 20 {
			if err := AttendSequences(dst, q, []*Sequence{s, fork}, nil); err != nil {
				t.Error(err)
			}
			if _, err := s.Save(io.Discard); err != nil {
				t.Error(err)
			}
		}
	})
	got := s.store.NewSequence()
	for i, seq := range of {
		_, err := got.Load(from)
		must(t, err)
		mustEqualSequences(t, got, seq)
		mustEqualFiles(t, fmt.Sprint(i), fileOf(t, got), fileOf(t, seq))
	}
	_, err := got.Load(from)
	mustFail(t, "end", err, io.EOF)
	mustFail(t, "end", err, ErrFormat)
	all.Wait()
}

// FuzzReadSequence: what is read can be used, and is written again as it was; what is not leaves
// everything as it is. The first byte says which store reads, and whether checksums are made right
// first, so that the fuzzer gets behind them.
func FuzzReadSequence(f *testing.F) {
	for i, kind := range allFormats {
		file := fileOf(f, newSequenceIn(f, fuzzedStore(byte(i)), 3, 20))
		f.Add(append([]byte{byte(i)}, file...))
		f.Add(append([]byte{byte(i) | repaired}, file...))
		f.Add(append([]byte{byte(i) | repaired}, file[:headerSize]...))
		file = fileOf(f, newSequenceIn(f, fuzzedStore(byte(i)), 60, Block+1))
		f.Add(append([]byte{byte(i) | repaired}, file...))
		if kind == I8 {
			file[headerSize+64*4+4*61+3] |= 0x80 // a negative scale
			f.Add(append([]byte{byte(i) | repaired}, file...))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		g, file := fuzzedStore(data[0]), slices.Clone(data[1:])
		c := newReadCase(t, g)
		if data[0]&repaired != 0 {
			repair(file, c.s.store.packed.Size)
		}
		r := bytes.NewReader(file)
		n, err := c.s.Load(r)
		if int(n) != len(file)-r.Len() {
			t.Fatalf("Load returns %d, but took %d", n, len(file)-r.Len())
		}
		if err != nil {
			kind := mustBeOneOf(t, err, ErrFormat, ErrShape, ErrOption, ErrCapacity)
			r.Reset(file)
			c.mustFail(t, "again", r, kind)
			c.unchanged(t)
			return
		}
		mustEqualFiles(t, "that was read", fileOf(t, c.s), file[:n])
		mustEqualFiles(t, "of the fork", fileOf(t, c.fork), c.file)
		useAll(t, c.s)
		c.s.Release()
		c.fork.Release()
		if free := c.s.store.FreePages(); free != g.Pages {
			t.Fatalf("%d pages are free in the end, want %d", free, g.Pages)
		}
	})
}

// mustBeOneOf returns which kind an error is.
func mustBeOneOf(t testing.TB, err error, kinds ...error) error {
	t.Helper()
	i := slices.IndexFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
	if i < 0 {
		t.Fatalf("error is %v, want one of %v", err, kinds)
	}
	return kinds[i]
}

// The first byte of FuzzReadSequence: the type, and these flags.
const (
	repaired = 1 << 3
)

// fuzzedStore is a store with small pages.
func fuzzedStore(b byte) StoreConfig {
	return StoreConfig{KVHeads: 1, HeadDim: 2, ValueDim: 1, Pages: 5, Format: Format(b & 7 % 5)}
}

// useAll does with a sequence what can be done.
func useAll(t testing.TB, s *Sequence) {
	n := s.Len() - s.First()
	must(t, s.Read(zeros(1, 1, n, 2), zeros(1, 1, n, 1), s.First()))
	must(t, AttendSequences(zeros(1, 1, 1, 1), zeros(1, 1, 1, 2), []*Sequence{s},
		&Options{Causal: BottomRight}))
	if s.PagesFor(1) <= s.store.FreePages() && s.Len() < maxLength {
		must(t, s.Append(zeros(1, 1, 1, 2), zeros(1, 1, 1, 1)))
		must(t, s.Truncate(s.Len()-1))
	}
	must(t, s.Truncate(s.First()))
}

// setInteger makes element i of integers or codes another one, whose magnitude in I4 is a code.
func setInteger(f Format, x []byte, i, to int) {
	if f == I4 {
		kernel.SetCode(x, i, byte(to))
		return
	}
	x[i] = byte(int8(to))
}

// Integers and scales that no token has are refused, whatever the checksums say: a scale of 0 for
// elements other than 0, and a scale that is too large for them.
func TestFilesOfIntegersThatNoTokenBecomes(t *testing.T) {
	for _, f := range []Format{I8, I4} {
		for _, latent := range []bool{false, true} {
			g := CacheConfig{Batch: 1, KVHeads: 2, HeadDim: 22, ValueDim: 19, Capacity: 100, Format: f,
				ValuesInKeys: latent}
			for _, j := range []int{0, 5, 17, 62, 99} {
				for _, name := range []string{"key", "value"} {
					if latent && name == "value" {
						continue
					}
					mustRefuseToken(t, g, name, j)
				}
			}
		}
	}
}

// mustRefuseToken saves caches of which a token is what none becomes, and reads them.
func mustRefuseToken(t *testing.T, g CacheConfig, name string, j int) {
	of := fmt.Sprintf("%s %d", name, j%Block)
	for _, c := range []struct{ scaleTo, elementsTo int }{{0, -1}, {-1, 0}, {-1, 6}, {0, 0}} {
		from := newCacheOf(t, g, g.Capacity)
		p := &from.packed
		x := p.At(1, j/Block)
		side, steps, layout := &p.K, p.D, kernel.ScoreLayout(kernel.Format(g.Format), p.D, Block)
		integers, scales := p.Keys(x)
		if name == "value" {
			side, steps, layout = &p.V, p.DV, p.ValueLayout(Block)
			integers, scales = p.Values(x)
		}
		if c.scaleTo == 0 {
			scales[j%Block] = 0
		}
		for i := range steps {
			at := kernel.PlaceOf(kernel.Format(g.Format), &layout, i, j%Block)
			if name == "value" {
				at = kernel.PlaceOf(kernel.Format(g.Format), &layout, j%Block, i)
			}
			if c.elementsTo >= 0 {
				setInteger(Format(side.Format), integers, at, c.elementsTo)
			}
		}
		into, err := NewCache(g)
		must(t, err)
		_, err = into.Load(bytes.NewReader(cacheFileOf(t, from)))
		what := fmt.Sprintf("%v, %s, %+v", g.Format, of, c)
		switch {
		case c.scaleTo == 0 && c.elementsTo == 0: // as a token of zeros
			must(t, err)
		case c.scaleTo == 0:
			mustFail(t, what, err, ErrFormat, fmt.Sprintf("page %d, head 1: the scale of %s is 0, "+
				"want elements as zeros have them", j/Block, of))
		default:
			largest, most := float32(c.elementsTo), 127
			if g.Format == I4 {
				largest, most = float32(kernel.Levels[c.elementsTo]), 117
			}
			mustFail(t, what, err, ErrFormat, fmt.Sprintf("page %d, head 1: the largest element of %s is "+
				"%v with a scale of %v, want %d", j/Block, of, largest, scales[j%Block], most))
		}
	}
}

// Tokens so small that their scales are rounded to few bits are written and read, too.
func TestFilesOfTheSmallestTokens(t *testing.T) {
	r := random(t.Name())
	for _, f := range []Format{I8, I4} {
		g := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 3, ValueDim: 1, Capacity: 2000, Format: f}
		k, v := zeros(1, 1, g.Capacity, 3), zeros(1, 1, g.Capacity, 1)
		for i := range k.Data {
			k.Data[i] = math.Float32frombits(uint32(r.IntN(1<<r.IntN(34-8))) | r.Uint32()&(1<<31))
		}
		for i := range v.Data {
			v.Data[i] = math.Float32frombits(uint32(i))
		}
		c, err := NewCache(g)
		must(t, err)
		must(t, c.Append(k, v))
		into, err := NewCache(g)
		must(t, err)
		_, err = into.Load(bytes.NewReader(cacheFileOf(t, c)))
		must(t, err)
		mustEqualCaches(t, into, c)
	}
}

// newCacheOf returns a cache of n tokens, always the same, where other tokens have been.
func newCacheOf(t testing.TB, g CacheConfig, n int) *Cache {
	c, err := NewCache(g)
	must(t, err)
	fillWith(elements[float32](c.packed.Data), nan32())
	r := goldenRandom("cache file")
	k, v := goldenTensor(r, 4, g.Batch, g.KVHeads, n, g.HeadDim), goldenTensor(r, 2, g.Batch,
		g.KVHeads, n, g.ValueDim)
	must(t, c.Append(k, g.kept(v)))
	return c
}

// kept returns values in the form of Append and Read.
func (g CacheConfig) kept(v Tensor) Tensor {
	if g.ValuesInKeys {
		return Tensor{}
	}
	return v
}

// cacheFileOf is what Save writes.
func cacheFileOf(t testing.TB, c *Cache) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := c.Save(&b)
	must(t, err)
	if n != int64(b.Len()) {
		t.Fatalf("Save returns %d, want the %d bytes that it wrote", n, b.Len())
	}
	return b.Bytes()
}

// everyCache calls f for caches of every type, and ragged lengths.
func everyCache(t *testing.T, f func(t *testing.T, g CacheConfig, n int)) {
	for _, kind := range allFormats {
		for i, d := range [][2]int{{6, 5}, {16, 32}, {22, 19}} {
			g := CacheConfig{Batch: 1 + i, KVHeads: 2, HeadDim: d[0], ValueDim: d[1], Capacity: 200,
				Format: kind, ValuesInKeys: d[0] > 16}
			for _, n := range []int{0, 1, 63, 64, 65, 150, 200} {
				t.Run(fmt.Sprint(kind, d, n), func(t *testing.T) { f(t, g, n) })
			}
		}
	}
}

// mustEqualCaches compares what two caches hold and what attending over them gives.
func mustEqualCaches(t testing.TB, a, b *Cache) {
	t.Helper()
	if a.Len() != b.Len() || a.First() != b.First() {
		t.Fatalf("positions are %d to %d, want %d to %d", a.First(), a.Len(), b.First(), b.Len())
	}
	g, n := a.Config(), a.Len()-a.First()
	q := tensor(random("queries"), normal, g.Batch, 2*g.KVHeads, 3, g.HeadDim)
	var out, lse, keys, values [2][]float32
	for i, c := range []*Cache{a, b} {
		k, v := zeros(g.Batch, g.KVHeads, n, g.HeadDim), zeros(g.Batch, g.KVHeads, n, g.ValueDim)
		dst := zeros(g.Batch, q.H, q.L, g.ValueDim)
		must(t, c.Read(k, g.kept(v), c.First()))
		lse[i] = nans(g.Batch * q.H * q.L)
		must(t, c.Attend(dst, q, &Options{Causal: BottomRight, LSE: lse[i]}))
		keys[i], values[i], out[i] = k.Data, v.Data, dst.Data
	}
	mustEqualBits(t, "keys", keys[0], keys[1])
	mustEqualBits(t, "values", values[0], values[1])
	mustEqualBits(t, "attention", out[0], out[1])
	mustEqualBits(t, "LSE", lse[0], lse[1])
}

// A cache that was written and read gives the same bits, and the same file, in any Capacity and
// whatever was there before.
func TestCacheFile(t *testing.T) {
	everyCache(t, func(t *testing.T, g CacheConfig, n int) {
		c := newCacheOf(t, g, n)
		file := cacheFileOf(t, c)
		for _, before := range []int{0, 3, 70} {
			g := g
			g.Capacity = max(1, n, before)
			to := newCacheOf(t, g, before)
			more := append(slices.Clip(file), "more"...)
			read, err := to.Load(iotest.OneByteReader(bytes.NewReader(more)))
			must(t, err)
			if read != int64(len(file)) {
				t.Errorf("%d bytes were read, want the %d of the file", read, len(file))
			}
			mustEqualCaches(t, to, c)
			mustEqualFiles(t, "that was read", cacheFileOf(t, to), file)
			must(t, to.Grow(n+3))
			k, v := zeros(g.Batch, g.KVHeads, 3, g.HeadDim), zeros(g.Batch, g.KVHeads, 3, g.ValueDim)
			must(t, to.Append(k, g.kept(v)))
			must(t, to.Truncate(n))
			mustEqualFiles(t, "after other tokens", cacheFileOf(t, to), file)
			must(t, to.Close())
		}
		must(t, c.Close())
	})
}

// A sequence's file is also the file of a cache with a batch of 1, both ways.
func TestCacheFileIsASequences(t *testing.T) {
	for _, kind := range allFormats {
		for i, n := range []int{0, 64, 131} {
			g := StoreConfig{KVHeads: 2, HeadDim: 6 + 20*i, ValueDim: 19, Pages: 3, Format: kind,
				ValuesInKeys: i == 1}
			s := newSequenceIn(t, g, 0, n)
			c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 2, HeadDim: g.HeadDim, ValueDim: 19,
				Capacity: max(1, n), Format: kind, ValuesInKeys: g.ValuesInKeys})
			must(t, err)
			_, err = c.Load(bytes.NewReader(fileOf(t, s)))
			must(t, err)
			mustEqualFiles(t, "of a cache", cacheFileOf(t, c), fileOf(t, s))
			back := newSequenceIn(t, g, 0, 3)
			must(t, back.Truncate(0))
			_, err = back.Load(bytes.NewReader(cacheFileOf(t, c)))
			must(t, err)
			mustEqualSequences(t, back, s)
			if n > 64 {
				must(t, s.DropBefore(5))
				_, err = c.Load(bytes.NewReader(fileOf(t, s)))
				must(t, err)
				mustEqualFiles(t, "of a cache", cacheFileOf(t, c), fileOf(t, s))
			}
		}
	}
}

// cacheReader is caches with other tokens, and with none, that are to read a file or fail.
type cacheReader struct {
	caches []*Cache
	files  [][]byte
}

func newCacheReader(t testing.TB, g CacheConfig) *cacheReader {
	r := &cacheReader{}
	for _, n := range []int{Block + 5, 0} {
		c := newCacheOf(t, g, n)
		r.caches, r.files = append(r.caches, c), append(r.files, cacheFileOf(t, c))
	}
	return r
}

// mustFail makes sure that reading fails.
func (r *cacheReader) mustFail(t testing.TB, what string, from func() io.Reader, kind error,
	text ...string) {
	t.Helper()
	for _, c := range r.caches {
		_, err := c.Load(from())
		mustFail(t, what, err, kind, text...)
	}
}

// unchanged makes sure that the tokens are those that there were.
func (r *cacheReader) unchanged(t testing.TB) {
	t.Helper()
	for i, c := range r.caches {
		mustEqualFiles(t, "after calls that failed", cacheFileOf(t, c), r.files[i])
	}
}

// smallestCache is the configuration of a cache with the smallest blocks.
func smallestCache(kind Format) CacheConfig {
	return CacheConfig{Batch: 2, KVHeads: 1, HeadDim: 1, ValueDim: 1, Capacity: 2 * Block,
		Format: kind}
}

// Whichever byte is not what it was, and wherever the file ends, it is an error.
func TestCacheFileCorrupted(t *testing.T) {
	for _, kind := range allFormats {
		file := cacheFileOf(t, newCacheOf(t, smallestCache(kind), Block+3))
		c := newCacheReader(t, smallestCache(kind))
		for at := 0; at < len(file); at++ {
			if few() && at > 100 && at < len(file)-50 {
				at += 30
			}
			spoiled := slices.Clone(file)
			spoiled[at] ^= 1 << (at % 8)
			c.mustFail(t, fmt.Sprintf("%v: byte %d", kind, at),
				func() io.Reader { return bytes.NewReader(spoiled) }, ErrFormat)
			end := io.ErrUnexpectedEOF
			if at == 0 {
				end = io.EOF
			}
			c.mustFail(t, fmt.Sprintf("%v: first %d bytes", kind, at),
				func() io.Reader { return bytes.NewReader(file[:at]) }, end)
		}
		c.unchanged(t)
	}
}

// What a checksum does not find is found, and what does not fit is not taken.
func TestCacheFileHostile(t *testing.T) {
	const block8 = 64*(4+4) + 64*(16+4)
	for _, e := range []struct {
		kind Format
		at   int
		to   []byte
		want error
		text string
	}{
		{F32, 0, []byte("attnMat"), ErrFormat, `the file begins with "attnMat", want "attnTok", which ` +
			"Save of a Cache or a Sequence writes"},
		{F32, 8, word(1), ErrOption, "the file's Format is F16, want the cache's F32"},
		{F32, 12, word(1), ErrOption, "the file's ValueFormat is F16, want the cache's F32"},
		{F32, 16, word(1), ErrOption, "the file's ValuesInKeys is true, want the cache's false"},
		{F32, 20, word(3), ErrShape, "the file's Batch is 3, want the cache's 2"},
		{F32, 28, word(maxLength), ErrShape, "the file's HeadDim is 268435456, want the cache's 1"},
		{F32, 36, word(1), ErrFormat,
			"page 0, batch entry 0, head 0: a byte of no token is 128, want 0"},
		{F32, 40, word(2*Block + 1), ErrCapacity,
			"the file has 129 tokens, want at most 128, the cache's Capacity"},
		{F32, 40, word(Block + 2), ErrFormat,
			"page 1, batch entry 0, head 0: a byte of no token is 80, want 0"},
		{I8, headerSize + block8 + 4*5, []byte{0x80}, ErrFormat,
			"page 0, batch entry 1, head 0: an element of the keys is -128, want -127 to 127"},
	} {
		c := newCacheReader(t, smallestCache(e.kind))
		from := newCacheOf(t, smallestCache(e.kind), Block+3)
		file := cacheFileOf(t, from)
		copy(file[e.at:], e.to)
		repair(file, 2*from.packed.Size)
		c.mustFail(t, fmt.Sprintf("%v: %x at %d", e.kind, e.to, e.at),
			func() io.Reader { return bytes.NewReader(file) }, e.want, e.text)
		c.unchanged(t)
	}
}

// Errors of readers and writers come out as they are, with the bytes that went through.
func TestCacheFileBroken(t *testing.T) {
	c := newCacheReader(t, smallestCache(I8))
	from := newCacheOf(t, smallestCache(I8), Block+3)
	file := cacheFileOf(t, from)
	for n := 0; n < len(file); n += 1 + n/5 {
		for err, want := range map[error]error{errBroken: errBroken, nil: io.ErrShortWrite} {
			got, err := from.Save(&brokenWriter{n, err})
			mustFail(t, "broken writer", err, want)
			if got != int64(n) {
				t.Errorf("a writer that takes %d bytes: Save returns %d", n, got)
			}
		}
		c.mustFail(t, "broken reader", func() io.Reader {
			return io.MultiReader(bytes.NewReader(file[:n]), iotest.ErrReader(errBroken))
		}, errBroken)
	}
	for _, cache := range c.caches {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the reader's panic is gone")
				}
			}()
			_, _ = cache.Load(io.MultiReader(bytes.NewReader(file[:300]), panicReader{}))
		}()
	}
	c.unchanged(t)
}

// A file that claims many tokens allocates memory as they come, also next to the memory of a large
// cache.
func TestCacheFileTakesMemoryAsItComes(t *testing.T) {
	g := CacheConfig{Batch: 1, KVHeads: 8, HeadDim: 128, ValueDim: 128, Capacity: 1 << 12}
	c := newCacheOf(t, g, 1)
	defer c.Close()
	file := append(formOfHeader("attnTok", F32, 0, 1, 8, 128, 128, 0, uint32(g.Capacity)),
		make([]byte, 100)...)
	before := memory.Mapped()
	_, err := c.Load(io.MultiReader(bytes.NewReader(file), readerFunc(func([]byte) (int, error) {
		if got := memory.Mapped() - before; got > 4<<20 {
			t.Errorf("%d bytes are taken for %d that came", got, len(file))
		}
		return 0, io.EOF
	})))
	mustFail(t, "short", err, io.ErrUnexpectedEOF)
	if got := memory.Mapped(); got > before {
		t.Errorf("%d bytes are left", got-before)
	}
}

// FuzzReadCache: a cache that is read can be used, and is written again unchanged; an error changes
// nothing. The first byte is as in FuzzReadSequence, and also says whether the cache has tokens.
func FuzzReadCache(f *testing.F) {
	const filled = 1 << 4
	config := func(b byte) CacheConfig {
		return CacheConfig{Batch: 2, KVHeads: 1, HeadDim: 2, ValueDim: 1, Capacity: 2 * Block,
			Format: Format(b & 3)}
	}
	for i := range allFormats {
		file := cacheFileOf(f, newCacheOf(f, config(byte(i)), Block+2))
		for _, mode := range []byte{0, repaired, filled, repaired | filled} {
			f.Add(append([]byte{byte(i) | mode}, file...))
		}
		f.Add(append([]byte{byte(i) | repaired}, file[:headerSize]...))
		rolled := newCacheOf(f, config(byte(i)), 2*Block)
		must(f, rolled.DropBefore(Block+3))
		must(f, rolled.Append(zeros(2, 1, 5, 2), zeros(2, 1, 5, 1)))
		f.Add(append([]byte{byte(i) | repaired}, cacheFileOf(f, rolled)...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		mode, file := data[0], slices.Clone(data[1:])
		n := 0
		if mode&filled != 0 {
			n = 5
		}
		c := newCacheOf(t, config(mode), n)
		before := cacheFileOf(t, c)
		if mode&repaired != 0 {
			repair(file, 2*c.packed.Size)
		}
		r := bytes.NewReader(file)
		read, err := c.Load(r)
		if int(read) != len(file)-r.Len() {
			t.Fatalf("Load returns %d, but took %d", read, len(file)-r.Len())
		}
		if err != nil {
			mustBeOneOf(t, err, ErrFormat, ErrShape, ErrOption, ErrCapacity)
			mustEqualFiles(t, "after an error", cacheFileOf(t, c), before)
			return
		}
		mustEqualFiles(t, "that was read", cacheFileOf(t, c), file[:read])
		must(t, c.Attend(zeros(2, 1, 1, 1), zeros(2, 1, 1, 2), &Options{Causal: BottomRight}))
		tokens := c.Len() - c.First()
		k, v := zeros(2, 1, tokens, 2), zeros(2, 1, tokens, 1)
		must(t, c.Read(k, v, c.First()))
		must(t, c.Grow(tokens+Block))
		if c.Len() < maxLength {
			must(t, c.Append(zeros(2, 1, 1, 2), zeros(2, 1, 1, 1)))
		}
	})
}

// Growing keeps the tokens, makes room, and does nothing where there is room.
func TestCacheGrow(t *testing.T) {
	everyCache(t, func(t *testing.T, g CacheConfig, n int) {
		want := newCacheOf(t, g, n)
		g.Capacity = max(1, n)
		c := newCacheOf(t, g, n)
		k, v := tensor(random("more"), normal, g.Batch, g.KVHeads, 40, g.HeadDim),
			tensor(random("more"), normal, g.Batch, g.KVHeads, 40, g.ValueDim)
		must(t, want.Grow(n+40))
		must(t, want.Append(k, g.kept(v)))
		for _, capacity := range []int{math.MinInt, -1, 0, 1, g.Capacity} {
			must(t, c.Grow(capacity))
			if got := c.Config(); got != g {
				t.Fatalf("Grow(%d) makes the configuration %v, want %v", capacity, got, g)
			}
		}
		mustFail(t, "no room", c.Append(k, g.kept(v)), ErrCapacity)
		for _, g.Capacity = range []int{g.Capacity + 1, n + 40, 500} {
			if g.Capacity < c.Config().Capacity {
				continue
			}
			must(t, c.Grow(g.Capacity))
			fresh, err := NewCache(g)
			must(t, err)
			if got := c.Config(); got != g || c.MemoryUse() != fresh.MemoryUse() || c.Len() != n {
				t.Fatalf("the configuration is %v, MemoryUse %d, Len %d, want %v, %d, %d", got, c.MemoryUse(),
					c.Len(), g, fresh.MemoryUse(), n)
			}
		}
		must(t, c.Append(k, g.kept(v)))
		mustEqualCaches(t, c, want)
	})
}

// A cache that cannot grow is as it was.
func TestCacheGrowErrors(t *testing.T) {
	g := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 1 << 14, ValueDim: 1 << 14, Capacity: Block}
	c := newCacheOf(t, g, 3)
	before := cacheFileOf(t, c)
	for capacity, kind := range map[int]error{maxLength + 1: ErrShape, math.MaxInt: ErrShape} {
		mustFail(t, fmt.Sprint(capacity), c.Grow(capacity), kind,
			fmt.Sprintf("CacheConfig.Capacity is %d, want 1 to 268435456", capacity))
	}
	if math.MaxInt > math.MaxInt32 {
		if m, err := memory.Allocate(math.MaxInt>>18 + 1); err == nil {
			must(t, m.Close()) // this system grants any address there is
		} else {
			mustFail(t, "32 TiB", c.Grow(maxLength), ErrMemory)
		}
	} else {
		mustFail(t, "32 TiB", c.Grow(maxLength), ErrShape)
	}
	if got := c.Config(); got != g {
		t.Errorf("the configuration is %v after errors, want %v", got, g)
	}
	mustEqualFiles(t, "after errors", cacheFileOf(t, c), before)
	must(t, c.Close())
	mustFail(t, "closed", c.Grow(1), ErrClosed)
	mustFail(t, "zero", new(Cache).Grow(1), ErrClosed)
}

// A store and a cache know their configuration, for ever.
func TestConfig(t *testing.T) {
	g := StoreConfig{KVHeads: 2, HeadDim: 5, ValueDim: 4, Pages: 3, Format: BF16, ValuesInKeys: true}
	s, err := NewStore(g)
	must(t, err)
	if got := s.Config(); got != g {
		t.Errorf("Config is %v, want %v", got, g)
	}
	must(t, s.Close())
	if got := s.Config(); got != g {
		t.Errorf("Config is %v after Close, want %v", got, g)
	}
}
