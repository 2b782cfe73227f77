package cluster

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/seed-1415985d/attn"
)

// wholes counts requests for outputs, and those for states.
type wholes struct {
	Transport
	outputs, states atomic.Int64
}

func (c *wholes) Call(ctx context.Context, worker string, request []byte) ([]byte, error) {
	s, _ := stepOf(request)
	for i := range s.attends {
		if s.attends[i].whole {
			c.outputs.Add(1)
		} else {
			c.states.Add(1)
		}
	}
	return c.Transport.Call(ctx, worker, request)
}

// A worker that has all of several segments sends outputs with the same bits as on one machine:
// with rows in several messages, with sinks, with rotated outputs, and where queries see a part of
// the keys. For one segment it sends a state.
func TestOutputsOfOneWorker(t *testing.T) {
	var l loop
	w, err := NewWorker(&l, WorkerConfig{Name: "w", Memory: 1 << 30, Threads: 2})
	must(t, err)
	defer w.Close()
	c := wholes{Transport: &l}
	config := patient
	config.Chunk = 4 * 4 * 16 * 3 // of three rows
	client, err := NewClient(&c, config)
	must(t, err)
	defer client.Close()
	b := &bench{TB: t, client: client, rand: quickRand()}
	for _, s := range []SequenceConfig{
		{Layers: 1, KVHeads: 2, HeadDim: 16, ValueDim: 8},
		{Layers: 1, KVHeads: 1, HeadDim: 16, ValueDim: 8, ValuesInKeys: true, Format: attn.I8},
	} {
		x := b.twin(s, 4)
		for _, tokens := range []int{1000, 2 * 1024, 700} {
			x.append(tokens)
			for _, rows := range []int{1, 3, 8} {
				opt := attn.Options{Causal: attn.BottomRight, Sinks: []float32{1, 0, -1, 2}}
				before, states := c.outputs.Load(), c.states.Load()
				x.attend(0, rows, opt)
				n, m := c.outputs.Load()-before, c.states.Load()-states
				if want := int64((rows + 2) / 3); x.far.Len(0) > 1024 && (n != want || m != 0) ||
					x.far.Len(0) <= 1024 && (n != 0 || m != want) {
					t.Errorf("%d tokens, %d rows: %d requests for outputs and %d for states, want %d", tokens,
						rows, n, m, want)
				}
			}
		}
		before := c.outputs.Load()
		x.attend(0, 1, attn.Options{Causal: attn.BottomRight, Window: attn.Window{Left: 1500}})
		if n := c.outputs.Load() - before; n != 1 {
			t.Errorf("%d requests for outputs where a window sees a part of the keys, want 1", n)
		}
	}
}

// Where outputs cannot go, they go nowhere.
func TestOutputsWithoutDst(t *testing.T) {
	b := newBench(t, 1, quick)
	x := b.twin(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 8, ValueDim: 8}, 4)
	x.append(1500)
	q, same := b.tensor(4, 1, 8), make([]float32, 8)
	for i := range same {
		same[i] = 7
	}
	dst := attn.Tensor{Data: same, B: 1, H: 4, L: 1, D: 8, SB: attn.Broadcast, SH: attn.Broadcast,
		SL: attn.Broadcast}
	err := x.far.Attend(context.Background(), 0, dst, q, &attn.Options{Causal: attn.BottomRight})
	if err == nil || slices.ContainsFunc(same, func(e float32) bool { return e != 7 }) {
		t.Errorf("heads in one place are %v, with the error %v", same, err)
	}
}

// Outputs of other keys, or of another size, are refused.
func TestRefusedOutputs(t *testing.T) {
	s, err := attn.NewState(attn.StateConfig{Batch: 1, Heads: 2, Queries: 3, ValueDim: 4})
	must(t, err)
	x, err := outputsOf(s)
	must(t, err)
	c, data := s.Config(), bytesOf(x)
	got, err := readOutputs(data, &c, 0)
	must(t, err)
	sameBits(t, "row", got.rows, x.rows)
	sameBits(t, "LSE", got.lse, x.lse)
	for name, f := range map[string]func() error{
		"a key more":  func() error { _, err := readOutputs(data, &c, 1); return err },
		"a byte less": func() error { _, err := readOutputs(data[1:], &c, 0); return err },
		"a byte more": func() error { _, err := readOutputs(append(data, 0), &c, 0); return err },
		"none":        func() error { _, err := readOutputs(nil, &c, 0); return err },
	} {
		if err := f(); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: the error is %v, want %v", name, err, ErrProtocol)
		}
	}
}
