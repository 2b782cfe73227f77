package nn

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/sanitize"
)

func convOf(t testing.TB, r *rand.Rand, channels, width int, a Activation) *Conv {
	g := ConvConfig{Channels: channels, Width: width,
		Weight: randomTensor(r, 1, 1, channels, width).Data, Activation: a}
	if a != None {
		g.Bias = randomTensor(r, 1, 1, 1, channels).Data
	}
	c, err := NewConv(g)
	must(t, err)
	return c
}

// convolved is the whole sequence by the formula. before has inputs before it.
func convolved(c *Conv, x attn.Tensor, before attn.Tensor) []float32 {
	g, y := &c.config, make([]float32, x.L*x.D)
	for t := range x.L {
		for ch := range x.D {
			sum := float32(0)
			if g.Bias != nil {
				sum = g.Bias[ch]
			}
			for k := range g.Width {
				e := float32(0)
				if at := t - g.Width + 1 + k; at >= 0 {
					e = x.Row(0, 0, at)[ch]
				} else if before.L > 0 {
					e = before.Row(0, 0, before.L+at)[ch]
				}
				sum = f32.FMA(g.Weight[ch*g.Width+k], e, sum)
			}
			y[t*x.D+ch] = of(g.Activation, sum)
		}
	}
	return y
}

// part is the rows of a sequence that one call appends.
func part(x attn.Tensor, from, to int) attn.Tensor { return x.Slice(from, to) }

// Any cut of a sequence into calls, in place or not, gives what the formula gives for the whole.
func TestConv(t *testing.T) {
	forEachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 1))
		for _, width := range []int{1, 2, 4, 7, 33} {
			for _, channels := range []int{1, 5, 64, 1030} {
				c := convOf(t, r, channels, width, []Activation{None, SiLU, GELU}[r.IntN(3)])
				const l = 50
				x := randomTensor(r, 1, 1, l, channels)
				before := attn.Tensor{}
				if width > 1 && r.IntN(2) == 0 {
					before = randomTensor(r, 1, 1, width-1, channels)
					must(t, c.Start(before))
				}
				want := convolved(c, x, before)
				got := zeros(1, 1, l, channels)
				for from := 0; from < l; {
					to := min(l, from+1+r.IntN(20)*r.IntN(2))
					if r.IntN(2) == 0 {
						must(t, c.Append(nil, part(got, from, to), part(x, from, to)))
					} else {
						copy(part(got, from, to).Data, part(x, from, to).Data[:(to-from)*channels])
						must(t, c.Append(nil, part(got, from, to), part(got, from, to)))
					}
					if from = to; c.Len() != to {
						t.Fatalf("Len is %d, want %d", c.Len(), to)
					}
				}
				sameBits(t, "the convolution", got.Data, want)
				last := zeros(1, 1, width-1, channels)
				must(t, c.Read(last))
				sameBits(t, "the last inputs", last.Data, x.Data[(l-width+1)*channels:])
			}
		}
	})
}

// Sequences of a call have the bits that each has alone, on any pool.
func TestAppendConvs(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	const channels = 3000
	p := attn.NewPool(3)
	first := convOf(t, r, channels, 4, SiLU)
	lens := []int{3, 0, 20, 1}
	var convs, alone []*Conv
	for i := range lens {
		c := first.Fork()
		if i > 1 {
			must(t, c.Append(nil, zeros(1, 1, 5, channels), randomTensor(r, 1, 1, 5, channels)))
		}
		convs, alone = append(convs, c), append(alone, c.Fork())
	}
	for range 3 {
		x := randomTensor(r, 1, 1, 24, channels)
		got, want := zeros(1, 1, 24, channels), zeros(1, 1, 24, channels)
		must(t, AppendConvs(p, got, x, convs, lens))
		at := 0
		for i, n := range lens {
			must(t, alone[i].Append(nil, part(want, at, at+n), part(x, at, at+n)))
			at += n
		}
		sameBits(t, "together", got.Data, want.Data)
	}
	one := randomTensor(r, 1, 1, len(convs), channels)
	got, want := zeros(1, 1, len(convs), channels), zeros(1, 1, len(convs), channels)
	must(t, AppendConvs(nil, got, one, convs, nil))
	for i, c := range alone {
		must(t, c.Append(p, part(want, i, i+1), part(one, i, i+1)))
	}
	sameBits(t, "one row each", got.Data, want.Data)
	step := func() { must(t, AppendConvs(p, got, one, convs, nil)) }
	if n := testing.AllocsPerRun(10, step); n != 0 && !sanitize.Enabled {
		t.Errorf("AppendConvs allocates %v times", n)
	}
	must(t, AppendConvs(nil, attn.Tensor{B: 1, H: 1, D: 1}, attn.Tensor{B: 1, H: 1, D: 1}, nil, nil))
	must(t, p.Close())
	mustFail(t, AppendConvs(p, got, one, convs, nil), attn.ErrClosed, "")
	if convs[0].Len() != alone[0].Len()+11 { // 1 + 10 runs
		t.Errorf("Len is %d, want %d", convs[0].Len(), alone[0].Len()+11)
	}
}

// Going back, and going on from a file or a fork, gives the bits of a sequence that never did.
// A checkpoint of an empty sequence is of the beginning that Start replaces.
func TestConvStartDropsTheCheckpoint(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	c := convOf(t, r, 3, 2, None)
	c.Checkpoint()
	must(t, c.Start(randomTensor(r, 1, 1, 1, 3)))
	must(t, c.Append(nil, zeros(1, 1, 20, 3), randomTensor(r, 1, 1, 20, 3)))
	mustFail(t, c.Truncate(0), attn.ErrLength, "n is 0, want 16 to 20 and there is no checkpoint")
}

func TestConvTruncate(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	const channels, width, l = 9, 4, 70
	x := randomTensor(r, 1, 1, l, channels)
	whole := convOf(t, r, channels, width, SiLU)
	c := whole.Fork()
	want, got := zeros(1, 1, l, channels), zeros(1, 1, l, channels)
	must(t, whole.Append(nil, want, x))
	goOn := func(to int) {
		t.Helper()
		from := c.Len()
		must(t, c.Append(nil, part(got, from, to), part(x, from, to)))
		sameBits(t, "after going back", got.Data[:to*channels], want.Data[:to*channels])
	}
	goOn(31)
	must(t, c.Truncate(16))
	goOn(20)
	must(t, c.Truncate(18))
	must(t, c.Truncate(16))
	goOn(29)
	mustFail(t, c.Truncate(15), attn.ErrLength, "n is 15, want 16 to 29 and there is no checkpoint")
	mustFail(t, c.Truncate(30), attn.ErrLength, "n is 30")
	c.Checkpoint()
	goOn(64)
	mustFail(t, c.Truncate(30), attn.ErrLength, "n is 30, want 64 to 64, or 29, the checkpoint")
	fork := c.Fork()
	var file bytes.Buffer
	n, err := c.Save(&file)
	must(t, err)
	if n != int64(file.Len()) {
		t.Errorf("Save says %d bytes, wrote %d", n, file.Len())
	}
	loaded, err := NewConv(c.config)
	must(t, err)
	saved := file.Bytes()
	n, err = loaded.Load(bytes.NewReader(append(saved[:len(saved):len(saved)], 1, 2, 3)))
	must(t, err)
	if n != int64(len(saved)) {
		t.Errorf("Load says %d bytes, want %d", n, len(saved))
	}
	for _, other := range []*Conv{c, fork, loaded} {
		c = other
		must(t, c.Truncate(29))
		goOn(40)
		must(t, c.Truncate(32))
		goOn(l)
		must(t, c.Truncate(29)) // the checkpoint is still there
		must(t, c.Truncate(17))
		if c.kept != nil {
			t.Error("a checkpoint beyond the end is kept")
		}
		goOn(l)
		c.Checkpoint()
		c.Reset()
		if c.Len() != 0 || c.kept != nil {
			t.Error("Reset leaves something")
		}
		goOn(5)
	}
	for i := range saved {
		damaged := bytes.Clone(saved)
		damaged[i] ^= 0x40
		if _, err := loaded.Load(bytes.NewReader(damaged)); err == nil {
			t.Fatalf("byte %d is damaged, and Load has no error", i)
		}
		if i%7 == 0 {
			_, err := loaded.Load(bytes.NewReader(saved[:i]))
			mustFail(t, err, attn.ErrFormat, "the file ends after")
		}
	}
	if loaded.Len() != 5 {
		t.Error("a damaged file changes something")
	}
	damaged := bytes.Clone(saved)
	binary.LittleEndian.PutUint32(damaged[len(convMagic)+2*4:], 0) // of 1 checkpoint
	_, err = loaded.Load(bytes.NewReader(damaged))
	mustFail(t, err, attn.ErrFormat, "the file has length 64, 0 checkpoints and checkpoint length 29")
	_, err = convOf(t, r, channels+1, width, None).Load(bytes.NewReader(saved))
	mustFail(t, err, attn.ErrShape, "the file has 9 channels and width 4, want 10 and 4")
	var again bytes.Buffer
	_, err = loaded.Save(&again)
	must(t, err)
	for n := range again.Len() {
		for _, says := range []error{bytes.ErrTooLarge, nil} {
			want := says
			if want == nil {
				want = io.ErrShortWrite
			}
			got, err := loaded.Save(&limited{n, says})
			if got != int64(n) || !errors.Is(err, want) {
				t.Errorf("a writer of %d bytes that returns %v: Save returns %d and %v", n, says, got, err)
			}
		}
	}
}

// limited is a writer that accepts a number of bytes and then returns an error, or none.
type limited struct {
	left int
	says error
}

func (w *limited) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	if w.left -= n; n < len(p) {
		return n, w.says
	}
	return n, nil
}

func TestConvMisuse(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	weight := make([]float32, 12)
	for _, c := range []struct {
		config ConvConfig
		kind   error
		text   string
	}{
		{ConvConfig{Width: 4}, attn.ErrShape,
			"ConvConfig has 0 Channels and Width 4"},
		{ConvConfig{Channels: 3, Width: 5000}, attn.ErrShape,
			"Width 5000, want 1 to 268435456 and 1 to 4096"},
		{ConvConfig{Channels: 4, Width: 4, Weight: weight}, attn.ErrLength,
			"len(ConvConfig.Weight) is 12, want Channels·Width, 16"},
		{ConvConfig{Channels: 3, Width: 4, Weight: weight, Bias: weight[:2]}, attn.ErrLength,
			"len(ConvConfig.Bias) is 2"},
		{ConvConfig{Channels: 3, Width: 4, Weight: weight, Activation: 77}, attn.ErrOption,
			"ConvConfig.Activation is Activation(77)"},
	} {
		_, err := NewConv(c.config)
		mustFail(t, err, c.kind, c.text)
	}
	c, other, wide := convOf(t, r, 3, 4, None), convOf(t, r, 3, 4, None), convOf(t, r, 3, 5, None)
	x, dst := randomTensor(r, 1, 1, 2, 3), zeros(1, 1, 2, 3)
	for _, e := range []struct {
		err, kind error
		text      string
	}{
		{c.Append(nil, dst, randomTensor(r, 1, 2, 2, 3)), attn.ErrShape, "dst is [1 1 2 3]"},
		{c.Append(nil, zeros(1, 1, 2, 4), zeros(1, 1, 2, 4)), attn.ErrShape,
			"x is [1 1 … 4], want [1 1 … 3]"},
		{AppendConvs(nil, dst, x, []*Conv{c, nil}, nil), attn.ErrOption, "convs[1] is nil"},
		{AppendConvs(nil, dst, x, []*Conv{c, c}, nil), attn.ErrOption,
			"convs[1] is convs[0], want it once"},
		{AppendConvs(nil, dst, x, []*Conv{c, wide}, nil), attn.ErrOption,
			"convs[1] has 3 channels, width 5 and None, want 3, 4 and None as convs[0]"},
		{AppendConvs(nil, dst, x, []*Conv{c, other}, []int{2}), attn.ErrLength, "len(lens) is 1, want 2"},
		{AppendConvs(nil, dst, x, []*Conv{c, other}, []int{1, 2}), attn.ErrLength,
			"lens[1] is 2, want 0 to 1"},
		{AppendConvs(nil, dst, x, []*Conv{c, other}, []int{-1, 3}), attn.ErrLength, "lens[0] is -1"},
		{AppendConvs(nil, dst, x, []*Conv{c}, nil), attn.ErrLength, "x.L is 2, want 1"},
		{c.Start(x), attn.ErrShape, "x is [1 1 2 3], want [1 1 3 3]"},
		{c.Start(attn.Tensor{B: 1, H: 1, L: 3, D: 3}), attn.ErrLength, "len(x.Data) is 0"},
		{c.Read(attn.Tensor{Data: x.Data, B: 1, H: 1, L: 3, D: 3, SB: 1, SH: 1, SL: 1}), attn.ErrStride,
			"x has a stride of 1"},
	} {
		mustFail(t, e.err, e.kind, e.text)
	}
	if c.Len() != 0 || other.Len() != 0 {
		t.Error("a call that failed has gone on")
	}
	must(t, c.Append(nil, dst, x))
	mustFail(t, c.Start(zeros(1, 1, 3, 3)), attn.ErrLength, "the convolution has 2 inputs")
}

const goldenConv = "c7a55968cb41c23a01343a250cef844e5fb9175b26facb4d05568c02f5db10f2"

func TestGoldenConv(t *testing.T) {
	forEachISA(t, func(t *testing.T) {
		r, hash := rand.New(rand.NewPCG(5, 5)), sha256.New()
		for _, a := range []Activation{None, SiLU} {
			c := convOf(t, r, 77, 4, a)
			x := randomTensor(r, 1, 1, 40, 77)
			must(t, c.Append(nil, x, x))
			_ = binary.Write(hash, binary.LittleEndian, x.Data)
			_, err := c.Save(hash)
			must(t, err)
		}
		if got := hex.EncodeToString(hash.Sum(nil)); got != goldenConv {
			t.Errorf("the hash is %s, want %s", got, goldenConv)
		}
	})
}
