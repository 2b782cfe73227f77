package cluster

import "slices"

// Where workers hold the same parts, who is asked for which decides how long a step takes: as long
// as the worker with the most keys, and as long as what comes back.

// spread chooses one of the holders of each of some parts, by increasing numbers, so that none has
// much more keys than it must. Aligned blocks of neighbours, the largest first, go to the same
// holder where that costs nothing: their states come back as one.
func spread(parts []int, holders [][]string, keys []int) []string {
	load, total := map[string]int{}, 0
	for i, all := range holders {
		total += keys[i]
		for _, worker := range all {
			load[worker] = 0
		}
	}
	fair := 0
	if len(load) > 0 {
		fair = (total + len(load) - 1) / len(load)
	}
	chosen := make([]string, len(holders))
	size := 1
	for size < len(parts) {
		size *= 2
	}
	for ; size > 0; size /= 2 {
		for from, to := 0, 0; from < len(parts); from = to {
			for to = from + 1; to < len(parts) && parts[to]/size == parts[from]/size; {
				to++
			}
			if chosen[from] == "" {
				choose(chosen[from:to], holders[from:to], keys[from:to], load, fair, size == 1)
			}
		}
	}
	for even(holders, keys, chosen, load) {
	}
	return chosen
}

// choose gives some parts to the one of their common holders that has the least to do, if none has
// more than what is fair then, or in any case.
func choose(chosen []string, holders [][]string, keys []int, load map[string]int, fair int,
	inAnyCase bool) {
	more, best := 0, ""
	for _, n := range keys {
		more += n
	}
	for _, worker := range holders[0] {
		common := !slices.ContainsFunc(holders, func(all []string) bool {
			return !slices.Contains(all, worker)
		})
		if common && (best == "" || load[worker] < load[best]) {
			best = worker
		}
	}
	if best == "" || load[best]+more > fair && !inAnyCase {
		return
	}
	load[best] += more
	for i := range chosen {
		chosen[i] = best
	}
}

// even moves parts to holders that have less to do even with them, and reports whether there were
// such. The squares of what holders do become less in sum each time, so this ends.
func even(holders [][]string, keys []int, chosen []string, load map[string]int) (moved bool) {
	for i, all := range holders {
		for _, worker := range all {
			if load[worker]+keys[i] < load[chosen[i]] {
				load[chosen[i]] -= keys[i]
				load[worker] += keys[i]
				chosen[i], moved = worker, true
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
