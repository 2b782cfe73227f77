package cluster

import (
	"fmt"
	"testing"
)

// Parts that are placed together are of an aligned power of two, and the more parts there are, the
// more of them.
func TestTogether(t *testing.T) {
	for _, c := range []struct{ part, workers, copies, want int }{{0, 4, 2, 1}, {1, 4, 2, 1},
		{3, 4, 2, 1}, {4, 4, 2, 2}, {7, 4, 2, 2}, {8, 4, 2, 4}, {15, 4, 2, 4}, {16, 4, 2, 8},
		{15, 4, 1, 2}, {15, 16, 2, 1}, {63, 16, 2, 4}, {15, 3, 2, 4}, {15, 2, 2, 8}, {15, 1, 2, 8}} {
		if got := together(c.part, c.workers, c.copies); got != c.want {
			t.Errorf("part %d on %d workers with %d copies is placed with %d, want %d", c.part, c.workers,
				c.copies, got, c.want)
		}
	}
}

// Neighbours lie together and all workers have as much, whatever numbers sequences have. So few
// states travel.
func TestNeighboursLieTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t, 4, patient)
	count := &counting{Transport: b.client.transport}
	client, err := NewClient(count, patient)
	must(t, err)
	defer client.Close()
	must(t, client.Wait(t.Context(), 4))
	b.client = client
	count.states = 0
	for i := range 5 {
		x := b.twin(SequenceConfig{Layers: 1, KVHeads: 1, HeadDim: 8, ValueDim: 8}, 2)
		x.far.id = uint64(i)
		x.append(16 * 1024)
		held, _ := x.far.held(0)
		for i := range 4 {
			if n := held[fmt.Sprint("w", i)]; n < 6 || n > 10 {
				t.Errorf("copies of 16 parts are with %v, want about 8 each", held)
				break
			}
		}
		x.attend(0, 1, bottomRight)
		x.far.Release()
	}
	if count.states > 5*12 {
		t.Errorf("%d states travel of 5 times 16 parts, want at most 12 each", count.states)
	}
}
