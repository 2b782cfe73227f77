package cluster

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/bits"
	"slices"
)

// rank orders workers for a part of a sequence by weighted rendezvous hashing: the rank of a worker
// depends only on the part, the worker and its free memory. So parts spread in proportion to free
// memory, and a worker that joins or leaves moves no other worker's parts.
func rank(workers []Status, sequence uint64, number int) []string {
	type ranked struct {
		name  string
		score float64
	}
	all := make([]ranked, 0, len(workers))
	for i := range workers {
		w := &workers[i]
		all = append(all, ranked{w.Worker, float64(w.Free()+1) / -math.Log(chance(sequence, number,
			w.Worker))})
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.name, b.name))
	})
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].name
	}
	return names
}

// together returns the number of parts that are placed on the same workers as a given one, so that
// their states merge before they are sent. The growth of a sequence from one power of two of parts
// to the next is divided among all workers, so that all have work.
func together(number, workers, copies int) int {
	doubling := 1 << max(0, bits.Len(uint(number))-1) // parts of it
	shares := 1
	for shares*copies < workers {
		shares *= 2
	}
	return max(1, doubling/shares)
}

// places orders workers for a new part: workers with its neighbours first, otherwise workers with
// the fewest copies of the sequence for their free memory, and then by rank.
func (s *Sequence) places(number int) []string {
	c := s.client
	takers := c.takers()
	names := rank(takers, s.id, number)
	size := together(number, len(takers), c.config.Copies)
	held, beside := s.held(number)
	level, free := map[string]int{}, 0.0
	for i := range takers {
		free += float64(takers[i].Free()+1) / float64(len(takers))
	}
	for i := range takers {
		w := &takers[i]
		// Rounded to quarters, so that similar amounts of memory count as equal, and not all sequences
		// choose the same worker.
		level[w.Worker] = held[w.Worker] * int(min(1<<20, math.Round(4*free/float64(w.Free()+1))))
		if number%size != 0 && beside[w.Worker] && c.member(w.Worker).share(0) < nearlyFull {
			level[w.Worker] = -1
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(level[a], level[b]) })
	return names
}

// held returns the number of copies of a sequence's parts on each worker, and the workers with the
// part before a given one.
func (s *Sequence) held(number int) (held map[string]int, beside map[string]bool) {
	held, beside = map[string]int{}, map[string]bool{}
	for _, p := range s.all() {
		for _, x := range s.good(p) {
			held[x.worker]++
			beside[x.worker] = beside[x.worker] || p.index == number-1
		}
	}
	return held, beside
}

// chance returns a pseudorandom number between 0 and 1, a function of its arguments.
func chance(sequence uint64, number int, worker string) float64 {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, []uint64{sequence, uint64(number)}) // never fails
	_, _ = h.Write([]byte(worker))
	x := h.Sum64()
	x ^= x >> 33 // the last bytes have only reached the low bits
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return (float64(x>>11) + 0.5) / (1 << 53)
}
