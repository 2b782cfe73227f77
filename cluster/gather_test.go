package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn"
)

// wantsOf are parts of a number of sequences, one of the first, one of the second and so on.
func wantsOf(sequences int, holders [][]string, keys []int) (all []want) {
	for s := range sequences {
		for i := s; i < len(holders); i += sequences {
			x := want{sequence: s, part: i / sequences, keys: keys[i]}
			for _, worker := range holders[i] {
				x.copies = append(x.copies, &partCopy{worker: worker})
			}
			all = append(all, x)
		}
	}
	return all
}

// Copies of parts are chosen so that the worker with the most keys has about as few as can be, for
// one sequence and for several together.
func TestSpread(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		holders, keys := make([][]string, 1+random.IntN(8)), []int{}
		for i := range holders {
			for _, w := range random.Perm(4)[:1+random.IntN(3)] {
				holders[i] = append(holders[i], fmt.Sprint("w", w))
			}
			keys = append(keys, 1024)
		}
		keys[len(keys)-1] = 1 + random.IntN(1024)
		wants, load := wantsOf(1+random.IntN(len(holders)), holders, keys), map[string]int{}
		for i, x := range spread(wants) {
			if !slices.Contains(wants[i].copies, x) {
				t.Fatalf("%s is asked for part %d of %v", x.worker, i, holders)
			}
			load[x.worker] += wants[i].keys
		}
		got := 0
		for _, n := range load {
			got = max(got, n)
		}
		if least := leastLoad(holders, keys, map[string]int{}); got > least+1024 {
			t.Fatalf("a worker has %d keys of %v, %d are possible", got, holders, least)
		}
	}
}

// leastLoad tries all choices.
func leastLoad(holders [][]string, keys []int, load map[string]int) int {
	if len(holders) == 0 {
		most := 0
		for _, n := range load {
			most = max(most, n)
		}
		return most
	}
	least := 1 << 30
	for _, worker := range holders[0] {
		load[worker] += keys[0]
		least = min(least, leastLoad(holders[1:], keys[1:], load))
		load[worker] -= keys[0]
	}
	return least
}

// Where all workers hold everything, each is asked for parts that follow each other.
func TestSpreadKeepsNeighbours(t *testing.T) {
	var holders [][]string
	var keys []int
	for range 16 {
		holders, keys = append(holders, []string{"b", "a"}), append(keys, 1024)
	}
	want := append(slices.Repeat([]string{"b"}, 8), slices.Repeat([]string{"a"}, 8)...)
	var got []string
	for _, x := range spread(wantsOf(1, holders, keys)) {
		got = append(got, x.worker)
	}
	if !slices.Equal(got, want) {
		t.Errorf("asked are %v, want %v", got, want)
	}
}

// Parts of one state are all that are wanted of an aligned power of two, and as many as can be; the
// state has no others than it must, or all if nothing else is wanted.
func TestBlocksOfParts(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		count, dense := 1+random.IntN(40), 1+random.IntN(8)
		g := &gather{call: &call{Sequence: new(Sequence)}, parts: make([]gatherPart, count)}
		var parts []int
		for i := range count {
			if random.IntN(dense) > 0 || dense == 1 {
				g.want = append(g.want, i)
				if random.IntN(6) > 0 {
					parts = append(parts, i)
				}
			}
		}
		within := func(list []int, first, end int) (some []int) {
			for _, i := range list {
				if i >= first && i < end {
					some = append(some, i)
				}
			}
			return some
		}
		at, last := 0, 0
		for _, b := range g.blocksOf(parts) {
			if b.at != at || b.to <= at || b.first < last || b.end > count {
				t.Fatalf("%+v follows %d parts up to %d of %d", b, at, last, count)
			}
			size := 1
			for b.first+size < b.end {
				size *= 2
			}
			if b.first%size != 0 || b.end != min(b.first+size, count) {
				t.Fatalf("%+v of %d is no aligned power of two", b, count)
			}
			if !slices.Equal(within(g.want, b.first, b.end), parts[b.at:b.to]) {
				t.Fatalf("%+v has not what is wanted of %v, %v", b, g.want, parts)
			}
			for larger := 2 * size; larger < 2*count; larger *= 2 {
				first := b.first / larger * larger
				wanted := within(g.want, first, first+larger)
				if n := len(wanted); n > b.to-b.at && b.at+n <= len(parts) &&
					slices.Equal(wanted, parts[b.at:b.at+n]) {
					t.Fatalf("only %+v of %v has one state", b, parts)
				}
			}
			all := b.end-b.first == count && b.to-b.at == len(g.want)
			if half := size / 2; half > 0 && !all && slices.ContainsFunc([]int{b.first, b.first + half},
				func(first int) bool {
					return len(within(parts[b.at:b.to], first, first+half)) == b.to-b.at
				}) {
				t.Fatalf("%+v has one state of %v, less would do", b, parts)
			}
			if len(parts) == len(g.want) && b.to-b.at == len(parts) && !all {
				t.Fatalf("%+v of %d has all that is wanted, and is not all", b, count)
			}
			at, last = b.to, b.end
		}
		if at != len(parts) {
			t.Fatalf("%d of %d parts are in blocks", at, len(parts))
		}
	}
}

// counting counts the states that come back.
type counting struct {
	Transport
	mu     sync.Mutex
	states int
}

func (c *counting) Call(ctx context.Context, worker string, request []byte) ([]byte, error) {
	reply, err := c.Transport.Call(ctx, worker, request)
	if x, failed := outcomes(request, reply); err == nil && failed == nil && len(x.attends) == 1 {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, g := range x.attends[0].groups {
			c.states += min(1, len(g.state))
		}
	}
	return reply, err
}

// A worker that has all parts of a sequence sends back one state, whatever the number of threads
// that computed it; and as many as it must if it has lost a part in between.
func TestStatesOfNeighboursAreOne(t *testing.T) {
	for _, threads := range []int{1, 3, 16} {
		var l loop
		w, err := NewWorker(&l, WorkerConfig{Name: "w", Memory: 1 << 30, Threads: threads})
		must(t, err)
		defer w.Close()
		c := counting{Transport: &l}
		client, err := NewClient(&c, patient)
		must(t, err)
		defer client.Close()
		b := &bench{TB: t, client: client, rand: rand.New(rand.NewPCG(1, 2))}
		x := b.twin(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 8, ValueDim: 8}, 4)
		x.append(16*1024 + 5)
		for _, rows := range []int{1, 70} {
			c.states = 0
			x.attend(0, rows, bottomRight)
			if c.states != 1 {
				t.Errorf("%d threads, %d rows: %d states of 17 parts, want 1", threads, rows, c.states)
			}
		}
		mask := make([]bool, x.far.Len(0))
		for i := range mask {
			mask[i] = i%3 > 0
		}
		m := attn.BHLD(mask, 1, 1, 1, len(mask))
		x.attend(0, 1, attn.Options{Mask: m, Slopes: []float32{0.1, 0.2, 0, 1},
			Causal: attn.BottomRight})
		c.states = 0
		x.attend(0, 1, attn.Options{Causal: attn.BottomRight, Window: attn.Window{Left: 6*1024 + 1}})
		if c.states != 1 { // of all, since no query sees others
			t.Errorf("%d threads: %d states of parts 10 to 16, want 1", threads, c.states)
		}
	}
}

// A worker that has lost one part of several that are to be one state says so, and the others are
// asked for again without it.
func TestGroupWithoutAPart(t *testing.T) {
	b := newBench(t, 2, quick)
	x := b.twin(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 8, ValueDim: 8}, 4)
	x.append(8 * 1024)
	for i := range 8 {
		x.far.mu.Lock()
		lost := x.far.parts[i].copies[i%2]
		x.far.mu.Unlock()
		b.workers[lost.worker].remove(b.client.id, []uint64{lost.id})
		x.attend(0, 3, bottomRight)
		x.whole()
	}
}
