package cluster

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"
)

// rank orders workers for a part of a sequence by weighted rendezvous hashing: each has a number
// that depends on the part and itself, and on nothing else but its free memory. So parts spread as
// memory is free, and a worker that comes or goes moves no others'.
func rank(workers []Status, sequence uint64, part int) []string {
	type ranked struct {
		name  string
		score float64
	}
	all := make([]ranked, 0, len(workers))
	for i := range workers {
		w := &workers[i]
		all = append(all, ranked{w.Worker, float64(w.Free()+1) / -math.Log(chance(sequence, part,
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

// chance is a number between 0 and 1, the same each time.
func chance(sequence uint64, part int, worker string) float64 {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, []uint64{sequence, uint64(part)}) // never fails
	_, _ = h.Write([]byte(worker))
	x := h.Sum64()
	x ^= x >> 33 // the last bytes have reached the low bits only
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return (float64(x>>11) + 0.5) / (1 << 53)
}
