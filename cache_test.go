package attn

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"
)

// newRand returns a generator that is the same in every run.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x61747465)) }

// normals returns n normally distributed numbers.
func normals(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func nan32() float32 { return float32(math.NaN()) }

// nans returns n NaNs: memory that must be overwritten or never looked at.
func nans(n int) []float32 {
	x := make([]float32, n)
	fillWith(x, nan32())
	return x
}

// mustEqualBits compares bit for bit; all NaNs are the same.
func mustEqualBits(t testing.TB, what string, got, want []float32) {
	if len(got) != len(want) {
		t.Helper()
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	if i := firstDifference(got, want); i >= 0 {
		t.Helper() // here, because it is slow
		t.Fatalf("%s[%d] = %x (%v), want %x (%v)", what, i,
			math.Float32bits(got[i]), got[i], math.Float32bits(want[i]), want[i])
	}
}

func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// mustFail checks the kind of an error.
// mustFail judges an error's kind, and where it is given what it says beside that.
func mustFail(t testing.TB, what string, err, kind error, text ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: error is %v, want %v", what, err, kind)
		return
	}
	got := strings.TrimPrefix(strings.TrimPrefix(err.Error(), kind.Error()), ": ")
	if len(text) > 0 && got != text[0] {
		t.Errorf("%s: error says %q, want %q", what, got, text[0])
	}
}

// tokens is the model of a cache: the same keys and values as plain tensors.
type tokens struct {
	config CacheConfig
	k, v   Tensor // [Batch, KVHeads, Capacity, …]; L is the number of tokens
}

func newTokens(config CacheConfig) *tokens {
	c := config
	t := &tokens{config: c}
	t.k = BHLD(nans(c.Batch*c.KVHeads*c.Capacity*c.HeadDim), c.Batch, c.KVHeads, c.Capacity, c.HeadDim)
	t.v = BHLD(nans(c.Batch*c.KVHeads*c.Capacity*c.ValueDim), c.Batch, c.KVHeads, c.Capacity, c.ValueDim)
	t.k.L, t.v.L = 0, 0
	return t
}

// append adds n tokens to the model and to a cache.
func (m *tokens) append(t *testing.T, r *rand.Rand, c *Cache, n int) {
	t.Helper()
	g := m.config
	k := BLHD(normals(r, g.Batch*g.KVHeads*n*g.HeadDim), g.Batch, n, g.KVHeads, g.HeadDim)
	v := BHLD(normals(r, g.Batch*g.KVHeads*n*g.ValueDim), g.Batch, g.KVHeads, n, g.ValueDim)
	must(t, c.Append(k, v))
	m.add(k, v)
}

// add adds tokens to the model.
func (m *tokens) add(k, v Tensor) {
	for b := range k.B {
		for h := range k.H {
			for i := range k.L {
				copy(m.k.row(b, h, m.k.L+i), k.row(b, h, i))
				copy(m.v.row(b, h, m.v.L+i), v.row(b, h, i))
			}
		}
	}
	m.k.L += k.L
	m.v.L += k.L
}

// check compares attention over the cache and over the tensors.
func (m *tokens) check(t *testing.T, r *rand.Rand, c *Cache, heads, lq int, opt *Options) {
	t.Helper()
	if c.Len() != m.k.L {
		t.Fatalf("Len is %d, want %d", c.Len(), m.k.L)
	}
	g := m.config
	q := BHLD(normals(r, g.Batch*heads*lq*g.HeadDim), g.Batch, heads, lq, g.HeadDim)
	want := nans(g.Batch * heads * lq * g.ValueDim)
	got := nans(len(want))
	wantLSE, gotLSE := nans(g.Batch*heads*lq), nans(g.Batch*heads*lq)
	wantOpt, gotOpt := *opt, *opt
	wantOpt.LSE, gotOpt.LSE = wantLSE, gotLSE
	must(t, Attend(BHLD(want, g.Batch, heads, lq, g.ValueDim), q, m.k, m.v, &wantOpt))
	must(t, c.Attend(BHLD(got, g.Batch, heads, lq, g.ValueDim), q, &gotOpt))
	mustEqualBits(t, "output", got, want)
	mustEqualBits(t, "LSE", gotLSE, wantLSE)
	for i, e := range got {
		if e != e {
			t.Fatalf("output[%d] is NaN: stale memory", i)
		}
	}
}

// randomOptions picks options for keys [0, lk).
func randomOptions(r *rand.Rand, batch, heads, lq, lk int) *Options {
	opt := &Options{Causal: Causal(r.IntN(3))}
	if opt.Causal == TopLeft {
		opt.Offset = r.IntN(lk+1) - lq/2
	}
	if r.IntN(3) == 0 {
		opt.Window = &Window{Left: r.IntN(lk+2) - 1, Right: r.IntN(lk+2) - 1}
	}
	if r.IntN(3) == 0 {
		opt.KeyLens = make([]int, batch)
		for b := range opt.KeyLens {
			opt.KeyLens[b] = r.IntN(lk + 1)
		}
	}
	if r.IntN(4) == 0 {
		opt.QueryLens = make([]int, batch)
		for b := range opt.QueryLens {
			opt.QueryLens[b] = r.IntN(lq + 1)
		}
	}
	if r.IntN(4) == 0 {
		opt.Softcap = 3
	}
	if r.IntN(4) == 0 {
		opt.Slopes = normals(r, heads)
	}
	if r.IntN(4) == 0 {
		opt.Sinks = normals(r, heads)
	}
	if r.IntN(4) == 0 && lk > 0 {
		bias := BHLD(normals(r, heads*lq*lk), 1, heads, lq, lk)
		opt.Bias = &bias
	}
	if r.IntN(4) == 0 && lk > 0 {
		bits := make([]bool, batch*lq*lk)
		for i := range bits {
			bits[i] = r.IntN(3) > 0
		}
		mask := BHLD(bits, batch, 1, lq, lk)
		opt.Mask = &mask
	}
	return opt
}

// A random sequence of appends and rollbacks leaves the cache with the same
// tokens as plain tensors, whatever was in its memory before.
func TestCacheModel(t *testing.T) { forEach(t, testCacheModel) }

func testCacheModel(t *testing.T) {
	for i, config := range []CacheConfig{
		{Batch: 1, KVHeads: 1, HeadDim: 8, ValueDim: 8, Capacity: 200},
		{Batch: 2, KVHeads: 2, HeadDim: 5, ValueDim: 20, Capacity: 130},
		{Batch: 1, KVHeads: 3, HeadDim: 16, ValueDim: 7, Capacity: 64},
		{Batch: 1, KVHeads: 1, HeadDim: 1, ValueDim: 1, Capacity: 1},
		{Batch: 1, KVHeads: 1, HeadDim: 4, ValueDim: 4, Capacity: 2*Segment + 100},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := newRand(uint64(i))
			c, err := NewCache(config)
			must(t, err)
			for j := range c.store.data {
				c.store.data[j] = nan32()
			}
			m := newTokens(config)
			for range 60 {
				switch free := config.Capacity - m.k.L; r.IntN(6) {
				case 0:
					n := r.IntN(m.k.L + 1)
					must(t, c.Truncate(n))
					m.k.L, m.v.L = n, n
				case 1:
					if r.IntN(4) == 0 {
						c.Reset()
						m.k.L, m.v.L = 0, 0
					}
				case 2:
					m.append(t, r, c, min(free, 1))
				case 3:
					m.append(t, r, c, r.IntN(free+1))
				default:
					m.append(t, r, c, min(free, r.IntN(40)))
				}
				group, lq := 1+r.IntN(3), 1+r.IntN(5)
				heads := group * config.KVHeads
				m.check(t, r, c, heads, lq, randomOptions(r, config.Batch, heads, lq, m.k.L))
			}
		})
	}
}

// Decoding token by token gives the bits of one causal call over all tokens.
func TestCacheDecodesLikePrefill(t *testing.T) {
	const heads, kvHeads, n, d = 4, 2, 150, 24
	r := newRand(7)
	q := BLHD(normals(r, n*heads*d), 1, n, heads, d)
	k := BLHD(normals(r, n*kvHeads*d), 1, n, kvHeads, d)
	v := BLHD(normals(r, n*kvHeads*d), 1, n, kvHeads, d)
	want, got := nans(n*heads*d), nans(n*heads*d)
	must(t, Attend(BLHD(want, 1, n, heads, d), q, k, v, &Options{Causal: TopLeft}))
	c, err := NewCache(CacheConfig{Batch: 1, KVHeads: kvHeads, HeadDim: d, ValueDim: d, Capacity: n})
	must(t, err)
	for i := range n {
		token := func(x View[float32]) Tensor {
			return Tensor{Data: x.Data[i*x.SL:], B: 1, H: x.H, L: 1, D: d, SB: x.SB, SH: x.SH, SL: x.SL}
		}
		must(t, c.Append(token(k), token(v)))
		must(t, c.Attend(token(BLHD(got, 1, n, heads, d)), token(q), &Options{Causal: BottomRight}))
	}
	mustEqualBits(t, "output", got, want)
}

// Weights are the same as well, and what lies behind Len has none.
func TestCacheWeights(t *testing.T) {
	config := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 8, ValueDim: 8, Capacity: 100}
	r := newRand(8)
	c, err := NewCache(config)
	must(t, err)
	m := newTokens(config)
	m.append(t, r, c, 90)
	must(t, c.Truncate(70))
	m.k.L, m.v.L = 70, 70
	weights := [2]Tensor{}
	for i := range weights {
		weights[i] = BHLD(nans(2*3*70), 1, 2, 3, 70)
	}
	q := BHLD(normals(r, 2*3*8), 1, 2, 3, 8)
	dst := BHLD(nans(2*3*8), 1, 2, 3, 8)
	must(t, c.Attend(dst, q, &Options{Causal: BottomRight, Weights: &weights[0]}))
	must(t, Attend(dst, q, m.k, m.v, &Options{Causal: BottomRight, Weights: &weights[1]}))
	mustEqualBits(t, "weights", weights[0].Data, weights[1].Data)
}

func TestCacheErrors(t *testing.T) {
	good := CacheConfig{Batch: 2, KVHeads: 1, HeadDim: 4, ValueDim: 3, Capacity: 10}
	for name, f := range map[string]func(*CacheConfig) *int{
		"Batch":    func(c *CacheConfig) *int { return &c.Batch },
		"KVHeads":  func(c *CacheConfig) *int { return &c.KVHeads },
		"HeadDim":  func(c *CacheConfig) *int { return &c.HeadDim },
		"ValueDim": func(c *CacheConfig) *int { return &c.ValueDim },
		"Capacity": func(c *CacheConfig) *int { return &c.Capacity },
	} {
		for _, n := range []int{0, -1, math.MinInt, maxLength + 1, math.MaxInt} {
			bad := good
			*f(&bad) = n
			_, err := NewCache(bad)
			mustFail(t, name, err, ErrShape, fmt.Sprintf("CacheConfig.%s is %d, want 1 to 268435456", name, n))
		}
	}
	huge := CacheConfig{Batch: maxLength, KVHeads: maxLength, HeadDim: maxLength, ValueDim: maxLength, Capacity: maxLength}
	_, err := NewCache(huge)
	mustFail(t, "overflow", err, ErrShape)
	for _, kind := range []CacheType{F16, BF16, I8, -1, 9} {
		bad := good
		bad.Type = kind
		_, err := NewCache(bad)
		mustFail(t, kind.String(), err, ErrUnsupported, "CacheConfig.Type is "+kind.String()+", want F32")
	}

	c, err := NewCache(good)
	must(t, err)
	zeros := func(b, h, l, d int) Tensor { return BHLD(make([]float32, b*h*l*d), b, h, l, d) }
	must(t, c.Append(zeros(2, 1, 7, 4), zeros(2, 1, 7, 3)))
	short := zeros(2, 1, 3, 4)
	short.Data = short.Data[1:]
	negative := zeros(2, 1, 3, 4)
	negative.SL = -1
	for _, e := range []struct {
		name string
		err  error
		kind error
		text string
	}{
		{"capacity", c.Append(zeros(2, 1, 4, 4), zeros(2, 1, 4, 3)), ErrCapacity, "k.L is 4, want at most 3: 7 of 10 tokens are in the cache"},
		{"k.B", c.Append(zeros(1, 1, 1, 4), zeros(2, 1, 1, 3)), ErrShape, "k is [1 1 … 4], want [2 1 … 4]"},
		{"k.H", c.Append(zeros(2, 2, 1, 4), zeros(2, 1, 1, 3)), ErrShape, "k is [2 2 … 4], want [2 1 … 4]"},
		{"k.D", c.Append(zeros(2, 1, 1, 3), zeros(2, 1, 1, 3)), ErrShape, "k is [2 1 … 3], want [2 1 … 4]"},
		{"v.B", c.Append(zeros(2, 1, 1, 4), zeros(1, 1, 1, 3)), ErrShape, "v is [1 1 1 3], want [2 1 1 3]"},
		{"v.H", c.Append(zeros(2, 1, 1, 4), zeros(2, 2, 1, 3)), ErrShape, "v is [2 2 1 3], want [2 1 1 3]"},
		{"v.L", c.Append(zeros(2, 1, 1, 4), zeros(2, 1, 2, 3)), ErrShape, "v is [2 1 2 3], want [2 1 1 3]"},
		{"v.D", c.Append(zeros(2, 1, 1, 4), zeros(2, 1, 1, 4)), ErrShape, "v is [2 1 1 4], want [2 1 1 3]"},
		{"short", c.Append(short, zeros(2, 1, 3, 3)), ErrLength, "len(k.Data) is 23, want at least 24 for [2 1 3 4] with strides [12 12 4]"},
		{"stride", c.Append(negative, zeros(2, 1, 3, 3)), ErrStride, "k.SL is -1, want at least 0"},
		{"v stride", c.Append(zeros(2, 1, 3, 4), negative), ErrStride, "v.SL is -1, want at least 0"},
		{"truncate", c.Truncate(8), ErrLength, "n is 8, want 0 to 7, the tokens in the cache"},
		{"truncate", c.Truncate(-1), ErrLength, "n is -1, want 0 to 7, the tokens in the cache"},
		{"q.B", c.Attend(zeros(1, 1, 1, 3), zeros(1, 1, 1, 4), nil), ErrShape, "q.B is 1, want 2 as in the keys"},
		{"q.D", c.Attend(zeros(2, 1, 1, 3), zeros(2, 1, 1, 3), nil), ErrShape, "q.D is 3, want the keys' 4"},
		{"dst.D", c.Attend(zeros(2, 1, 1, 4), zeros(2, 1, 1, 4), nil), ErrShape, "dst is [2 1 1 4], want [2 1 1 3]"},
		{"KeyLens", c.Attend(zeros(2, 1, 1, 3), zeros(2, 1, 1, 4), &Options{KeyLens: []int{7, 8}}), ErrLength, "KeyLens[1] is 8, want 0 to 7"},
	} {
		mustFail(t, e.name, e.err, e.kind, e.text)
	}
	if c.Len() != 7 {
		t.Errorf("Len is %d after failed calls, want 7", c.Len())
	}
}

func TestCacheIsAligned(t *testing.T) {
	for d := 1; d < 6; d++ {
		c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: d, ValueDim: d, Capacity: 3})
		must(t, err)
		if at := uintptr(unsafe.Pointer(&c.store.data[0])); at%64 != 0 {
			t.Errorf("memory starts at %x, want a multiple of 64", at)
		}
	}
}

// A window may lie behind the last key.
func TestWindowBehindTheKeys(t *testing.T) {
	dst := nans(100 * 8)
	x := make([]float32, 100*8)
	must(t, Attend(BHLD(dst, 1, 1, 100, 8), BHLD(x, 1, 1, 100, 8), BHLD(x, 1, 1, 10, 8), BHLD(x, 1, 1, 10, 8),
		&Options{Window: &Window{Left: 2, Right: -1}, Offset: 20}))
	mustEqualBits(t, "output", dst, x)
}

func BenchmarkCacheAppend(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 8, HeadDim: 128, ValueDim: 128, Capacity: 4096})
			must(b, err)
			x := BLHD(make([]float32, n*8*128), 1, n, 8, 128)
			b.SetBytes(int64(2 * 4 * len(x.Data)))
			for b.Loop() {
				if c.Len()+n > 4096 {
					c.Reset()
				}
				if err := c.Append(x, x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A key that one row sees is poison for that row alone, and a key that no row
// sees is poison for none: over a cache, a pool and a state as in Attend.
func TestPoisonedKeys(t *testing.T) { forEach(t, testPoisonedKeys) }

func testPoisonedKeys(t *testing.T) {
	const heads, lq, lk, d = 2, 9, Segment + 3*Block + 5, 8
	r := newRand(9)
	q := BHLD(normals(r, heads*lq*d), 1, heads, lq, d)
	bits := make([]bool, lq*lk)
	for i := range bits {
		bits[i] = i%lk%7 != 3 && r.IntN(5) > 0
	}
	mask := BHLD(bits, 1, 1, lq, lk)
	// Row 2 alone sees the key seen; nobody sees every seventh.
	const seen, row = 300, 2
	for i := range lq {
		mask.row(0, 0, i)[seen] = i == row
	}
	k, v := BHLD(normals(r, lk*d), 1, 1, lk, d), BHLD(normals(r, lk*d), 1, 1, lk, d)
	opt := &Options{Mask: &mask}
	want := BHLD(nans(heads*lq*d), 1, heads, lq, d)
	must(t, Attend(want, q, k, v, opt))

	poison := []float32{nan32(), float32(math.Inf(1)), negInf}
	for j := range lk {
		if j%7 == 3 || j == seen {
			for x := range d {
				k.row(0, 0, j)[x], v.row(0, 0, j)[x] = poison[(j+x)%3], poison[(j+x+1)%3]
			}
		}
	}
	pool := NewPool(3)
	defer pool.Close()
	for _, way := range []struct {
		name   string
		attend func(dst Tensor) error
	}{
		{"Attend", func(dst Tensor) error { return Attend(dst, q, k, v, opt) }},
		{"Pool", func(dst Tensor) error { return pool.Attend(dst, q, k, v, opt) }},
		{"Cache", func(dst Tensor) error {
			c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: d, ValueDim: d, Capacity: lk})
			must(t, err)
			must(t, c.Append(k, v))
			return c.Attend(dst, q, opt)
		}},
		{"State", func(dst Tensor) error {
			s, err := NewState(1, heads, lq, d)
			must(t, err)
			c := &stateCase{b: 1, h: heads, kv: 1, lq: lq, lk: lk, d: d, dv: d, q: q, k: k, v: v, opt: *opt}
			c.update(t, s, 0, lk, 3*Block)
			return s.Finish(dst, nil)
		}},
	} {
		got := BHLD(nans(heads*lq*d), 1, heads, lq, d)
		must(t, way.attend(got))
		for h := range heads {
			for i := range lq {
				if i != row {
					mustEqualBits(t, way.name, got.row(0, h, i), want.row(0, h, i))
					continue
				}
				for _, e := range got.row(0, h, i) {
					if e == e {
						t.Errorf("%s: the row that sees the poison is %v, want NaN", way.name, e)
					}
				}
			}
		}
	}
}
