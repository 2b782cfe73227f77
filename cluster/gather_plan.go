package cluster

import "slices"

// Where workers hold the same parts, who is asked for which decides how long a step takes: as long
// as the worker with the most keys, and as long as what comes back.

// want is a part that a state is wanted of.
type want struct {
	sequence int // among those of a batch
	part     int
	keys     int
	copies   []*partCopy // that may be asked, each on another worker
}

// on is the copy on a worker, nil if there is none.
func (x *want) on(worker string) *partCopy {
	for _, y := range x.copies {
		if y.worker == worker {
			return y
		}
	}
	return nil
}

// spread chooses a copy of each of some parts, by increasing sequences and numbers, so that no
// worker has much more keys than it must. Aligned blocks of neighbours, the largest first, go to
// the same worker where that costs nothing: their states come back as one.
func spread(wants []want) []*partCopy {
	load, total, count, longest := map[string]int{}, 0, 0, 0
	for i := range wants {
		total += wants[i].keys
		if count++; i > 0 && wants[i].sequence != wants[i-1].sequence {
			count = 1
		}
		longest = max(longest, count)
		for _, x := range wants[i].copies {
			load[x.worker] = 0
		}
	}
	fair := 0
	if len(load) > 0 {
		fair = (total + len(load) - 1) / len(load)
	}
	chosen := make([]*partCopy, len(wants))
	size := 1
	for size < longest { // parts of a sequence
		size *= 2
	}
	for ; size > 0; size /= 2 {
		for from, to := 0, 0; from < len(wants); from = to {
			for to = from + 1; to < len(wants) && wants[to].sequence == wants[from].sequence &&
				wants[to].part/size == wants[from].part/size; {
				to++
			}
			if chosen[from] == nil {
				choose(chosen[from:to], wants[from:to], load, fair, size == 1)
			}
		}
	}
	for even(wants, chosen, load) {
	}
	return chosen
}

// choose gives some parts to the one of the workers with all of them that has the least to do, if
// none has more than what is fair then, or in any case.
func choose(chosen []*partCopy, wants []want, load map[string]int, fair int, inAnyCase bool) {
	more, best := 0, ""
	for i := range wants {
		more += wants[i].keys
	}
	for _, x := range wants[0].copies {
		common := !slices.ContainsFunc(wants, func(y want) bool { return y.on(x.worker) == nil })
		if common && (best == "" || load[x.worker] < load[best]) {
			best = x.worker
		}
	}
	if best == "" || load[best]+more > fair && !inAnyCase {
		return
	}
	load[best] += more
	for i := range chosen {
		chosen[i] = wants[i].on(best)
	}
}

// even moves parts to workers that have less to do even with them, and reports whether there were
// such. The squares of what workers do become less in sum each time, so this ends.
func even(wants []want, chosen []*partCopy, load map[string]int) (moved bool) {
	for i := range wants {
		keys := wants[i].keys
		for _, x := range wants[i].copies {
			if load[x.worker]+keys < load[chosen[i].worker] {
				load[chosen[i].worker] -= keys
				load[x.worker] += keys
				chosen[i], moved = x, true
			}
		}
	}
	return moved
}

// joins says for each of some parts, by increasing numbers, whether its state is merged with that
// of the one before on the worker. Those merge with the bits of one state that are all of an
// aligned power of two parts, or all that there are of it, if the sequence ends before.
func joins(parts []int, count int) []bool {
	joined := make([]bool, len(parts))
	for at := 0; at < len(parts); {
		n := blockAt(parts[at:], count)
		for i := at + 1; i < at+n; i++ {
			joined[i] = true
		}
		at += n
	}
	return joined
}

// blockAt is how many parts the largest block has that begins with the first of some parts.
func blockAt(parts []int, count int) (n int) {
	first := parts[0]
	n = 1
	for size := 2; first%size == 0; size *= 2 {
		m := min(size, count-first)
		if m > len(parts) || parts[m-1] != first+m-1 {
			break
		}
		if n = m; m < size {
			break
		}
	}
	return n
}
