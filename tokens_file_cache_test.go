package attn

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/seed-1415985d/attn/internal/memory"
)

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

// kept is values as Append and Read take them.
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

// A sequence's file is that of a cache with a batch of 1, both ways.
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
		{F32, 0, []byte("attnMat"), ErrFormat, `the file begins with "attnMat", want "attnTok"`},
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

// A file that claims many tokens takes memory as they come, also beside those of a large cache.
func TestCacheFileTakesMemoryAsItComes(t *testing.T) {
	g := CacheConfig{Batch: 1, KVHeads: 8, HeadDim: 128, ValueDim: 128, Capacity: 1 << 12}
	c := newCacheOf(t, g, 1)
	defer c.Close()
	file := append(formOfHeader(tokensMagic, F32, 0, 1, 8, 128, 128, 0, uint32(g.Capacity)),
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

// FuzzReadCache: what is read can be used, and is written again as it was; what is not leaves
// everything as it is. The first byte is that of FuzzReadSequence, and says whether the cache has
// tokens.
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
