package linattn

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/sanitize"
)

// Views of any strides give the bits of contiguous ones, and nothing between their elements is
// written.
func TestStrides(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range configs() {
		const n, gap = 37, 3
		x := randomTokens(t, r, c, n, 2)
		for i, a := range []*attn.Tensor{&x.q, &x.k, &x.v, &x.decay, &x.beta} {
			if a.Data == nil {
				continue
			}
			switch pitch := a.H*a.D + gap; i {
			case 0, 3:
				*a = inRows(*a, pitch) // heads side by side
			case 4: // the same for all tokens
				*a = attn.Tensor{Data: a.Data[:a.H], B: 1, H: a.H, L: n, D: 1, SB: 1, SH: 1,
					SL: attn.Broadcast}
			}
		}
		y := x // contiguous
		for _, a := range []*attn.Tensor{&y.q, &y.k, &y.v, &y.decay, &y.beta} {
			if a.Data != nil {
				*a = contiguous(*a)
			}
		}
		want := y.whole(t, newState(t, c))
		pitch := want.H*want.D + gap
		buffer := make([]float32, n*pitch)
		for i := range buffer {
			buffer[i] = 77
		}
		got := attn.Rows(buffer, 1, n, want.H, want.D, pitch)
		s := newState(t, c)
		for from := 0; from < n; from += 10 {
			z := x.slice(from, min(n, from+10))
			must(t, z.append(nil, s, got.Slice(from, min(n, from+10))))
		}
		sameBits(t, name(c), contiguous(got).Data, want.Data)
		for i := range n {
			for _, e := range buffer[i*pitch+want.H*want.D:][:gap] {
				if e != 77 {
					t.Fatal("something between rows is written")
				}
			}
		}
	}
}

// inRows copies a tensor into rows of a pitch, heads side by side.
func inRows(x attn.Tensor, pitch int) attn.Tensor {
	y := attn.Rows(make([]float32, x.L*pitch), 1, x.L, x.H, x.D, pitch)
	for h := range x.H {
		for i := range x.L {
			copy(y.Row(0, h, i), x.Row(0, h, i))
		}
	}
	return y
}

func contiguous(x attn.Tensor) attn.Tensor {
	y := zeros(x.H, x.L, x.D)
	for h := range x.H {
		for i := range x.L {
			copy(y.Row(0, h, i), x.Row(0, h, i))
		}
	}
	return y
}

// What is NaN or infinite in one head, or sequence, touches no other: in a prompt, token by token,
// where workers share a head, and in a batch.
func TestNotFinite(t *testing.T) { kerneltest.ForEach(t, notFinite) }

func notFinite(t *testing.T) {
	r, p := rand.New(rand.NewPCG(2, 3)), attn.NewPool(2)
	for _, c := range configs() {
		if c.Heads == 1 || c.QueryHeads%c.Heads != 0 {
			continue
		}
		c.KeyHeads = 0
		const n = 40
		x := randomTokens(t, r, c, n, 2)
		want := x.whole(t, newState(t, c))
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
			for _, a := range []attn.Tensor{x.q, x.k, x.v, x.decay, x.beta} {
				if a.Data == nil {
					continue
				}
				token, step, pool := r.IntN(n), []int{1, 7, n}[r.IntN(3)], []*attn.Pool{nil, p}[r.IntN(2)]
				row := a.Row(0, 0, token)
				at := r.IntN(len(row))
				alone := x.second(t, pool, token+1)
				old := row[at]
				row[at] = bad
				s, got := newState(t, c), zeros(want.H, n, c.ValueDim)
				for from := 0; from < n; from += step {
					to := min(from+step, n)
					y := x.slice(from, to)
					must(t, y.append(pool, s, got.Slice(from, to)))
				}
				sameBits(t, "another sequence", x.second(t, pool, token+1), alone)
				row[at] = old
				first := got.H / c.Heads * n * c.ValueDim
				sameBits(t, name(c), got.Data[first:], want.Data[first:])
				read := zeros(c.Heads, c.KeyDim, c.ValueDim)
				must(t, s.Read(read))
				for _, e := range read.Data[c.KeyDim*c.ValueDim:] {
					if e-e != 0 {
						t.Fatal("another head's matrix is not finite")
					}
				}
			}
		}
	}
	must(t, p.Close())
}

// second is the outputs of a sequence that begins after some tokens, which are another one of the
// same call.
func (x *tokens) second(t *testing.T, p *attn.Pool, from int) (all []float32) {
	t.Helper()
	n := x.q.L
	dst := zeros(x.outputs(), n, x.ValueDim)
	states := []*State{newState(t, x.Config), newState(t, x.Config)}
	must(t, AppendStates(p, dst, x.q, x.k, x.v, x.decay, x.beta, states, []int{from, n - from}))
	for h := range dst.H {
		for l := from; l < n; l++ {
			all = append(all, dst.Row(0, h, l)...)
		}
	}
	return all
}

// A decay of −Inf forgets all that was before, and one of −80 nearly all.
func TestForgetting(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range configs() {
		if !c.Rule.decays() {
			continue
		}
		const n, at = 50, 21
		x := randomTokens(t, r, c, n, 80)
		for h := range x.Heads {
			for i := range x.decay.Row(0, h, at) {
				x.decay.Row(0, h, at)[i] = float32(math.Inf(-1))
			}
		}
		got, _ := x.byFormula(attn.Tensor{})
		sameBits(t, name(c), x.whole(t, newState(t, c)).Data, got.Data)
		y := x.slice(at, n) // at another place in its chunk: other roundings
		alone := y.whole(t, newState(t, c))
		for h := range got.H {
			for i := at; i < n; i++ {
				for m, e := range got.Row(0, h, i) {
					if w := alone.Row(0, h, i-at)[m]; math.Abs(float64(e-w)) > 1e-5*(1+math.Abs(float64(w))) {
						t.Fatalf("%s: token %d gives %v, alone %v", name(c), i, e, w)
					}
				}
			}
		}
	}
}

// No call allocates once there is a spare for checkpoints.
func TestAllocations(t *testing.T) {
	if sanitize.Enabled {
		t.Skip("a sanitizer allocates")
	}
	r := rand.New(rand.NewPCG(4, 5))
	p := attn.NewPool(2)
	for _, c := range []Config{
		{Heads: 4, QueryHeads: 2, KeyHeads: 2, KeyDim: 32, ValueDim: 40, Rule: GatedDelta},
		{Heads: 2, KeyDim: 32, ValueDim: 100, Rule: Gated, ChannelDecay: true}} {
		x := randomTokens(t, r, c, 20, 1)
		s, other := newState(t, c), newState(t, c)
		dst := zeros(s.outputs(), 20, c.ValueDim)
		states := []*State{s, other}
		y, z := x.slice(0, 1), x.slice(0, 2)
		for _, p := range []*attn.Pool{nil, p} {
			for what, f := range map[string]func(){
				"a prompt": func() { must(t, x.append(p, s, dst)) },
				"a token":  func() { must(t, y.append(p, s, dst.Slice(0, 1))) },
				"a batch": func() {
					must(t, AppendStates(p, dst.Slice(0, 2), z.q, z.k, z.v, z.decay, z.beta, states, nil))
				},
				"a checkpoint": func() {
					s.Checkpoint()
					must(t, x.append(p, s, dst))
					must(t, s.Truncate(s.kept.length))
				},
			} {
				for range 3 {
					f()
				}
				most := 0.0
				if what == "a checkpoint" {
					most = 1 // the checkpoint itself
				}
				if got := testing.AllocsPerRun(20, f); got > most {
					t.Errorf("%s of %s allocates %v times", what, name(c), got)
				}
			}
		}
	}
	must(t, p.Close())
}

// goldenHash is of outputs, matrices and files of all rules, on every CPU.
const goldenHash = "48fd2dc17bbd5993ce75f96ed3534094ed9d249c9f6d58ddd837739c6ba8fdf4"

// goldenRead is goldenHash of configs with ReadKeys.
const goldenRead = "dacfd7a0ca940b45cacce4b54cc81acd4ab96121ce57e41df90ab1a0f6374701"

func TestGolden(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		first := firstConfigs()
		checkHash(t, first, goldenHash)
		checkHash(t, configs()[len(first):], goldenRead)
	})
}

// With equal halves the bits are those without ReadKeys.
func TestEqualReadKeys(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(8, 3))
		for _, c := range firstConfigs() {
			if !c.Rule.corrects() {
				continue
			}
			x := randomTokens(t, r, c, 40, 2)
			c.ReadKeys = true
			y := randomTokens(t, r, c, 40, 2)
			y.q, y.v, y.decay, y.beta = x.q, x.v, x.decay, x.beta
			for at := range x.k.H * x.k.L {
				row := y.k.Row(0, at/x.k.L, at%x.k.L)
				copy(row[copy(row, x.k.Row(0, at/x.k.L, at%x.k.L)):], row)
			}
			want, s := x.whole(t, newState(t, x.Config)), newState(t, c)
			sameBits(t, name(c), y.whole(t, s).Data, want.Data)
			got := zeros(want.H, 40, c.ValueDim)
			s.Reset()
			for i := range 40 {
				z := y.slice(i, i+1)
				must(t, z.append(nil, s, got.Slice(i, i+1)))
			}
			sameBits(t, name(c), got.Data, want.Data)
		}
	})
}

func checkHash(t *testing.T, list []Config, want string) {
	t.Helper()
	hash := sha256.New()
	r := rand.New(rand.NewPCG(7, 7))
	for _, c := range list {
		s := newState(t, c)
		x := randomTokens(t, r, c, 75, 3)
		for _, a := range []attn.Tensor{x.q, x.k, x.v} { // logarithms differ between CPUs
			for i := range a.Data {
				a.Data[i] = r.Float32() - 0.5
			}
		}
		_ = binary.Write(hash, binary.LittleEndian, x.whole(t, s).Data)
		s.Checkpoint()
		y := x.slice(3, 20)
		y.whole(t, s)
		_, err := s.Save(hash)
		must(t, err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		t.Errorf("the hash is %s, want %s", got, want)
	}
}
