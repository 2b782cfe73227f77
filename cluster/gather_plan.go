package cluster

import (
	"math/bits"
	"slices"

	"github.com/seed-1415985d/attn"
)

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
	loads, total, count, longest := map[string]int{}, 0, 0, 0
	for i := range wants {
		total += wants[i].keys
		if count++; i > 0 && wants[i].sequence != wants[i-1].sequence {
			count = 1
		}
		longest = max(longest, count)
		for _, x := range wants[i].copies {
			loads[x.worker] = 0
		}
	}
	fair := 0
	if len(loads) > 0 {
		fair = (total + len(loads) - 1) / len(loads)
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
				choose(chosen[from:to], wants[from:to], loads, fair, size == 1)
			}
		}
	}
	for even(wants, chosen, loads) {
	}
	return chosen
}

// choose gives some parts to the one of the workers with all of them that has the least to do, if
// none has more than what is fair then, or in any case.
func choose(chosen []*partCopy, wants []want, loads map[string]int, fair int, inAnyCase bool) {
	more, best := 0, ""
	for i := range wants {
		more += wants[i].keys
	}
	for _, x := range wants[0].copies {
		common := !slices.ContainsFunc(wants, func(y want) bool { return y.on(x.worker) == nil })
		if common && (best == "" || loads[x.worker] < loads[best]) {
			best = x.worker
		}
	}
	if best == "" || loads[best]+more > fair && !inAnyCase {
		return
	}
	loads[best] += more
	for i := range chosen {
		chosen[i] = wants[i].on(best)
	}
}

// even moves parts to workers that have less to do even with them, and reports whether there were
// such. The squares of what workers do become less in sum each time, so this ends.
func even(wants []want, chosen []*partCopy, loads map[string]int) (moved bool) {
	for i := range wants {
		keys := wants[i].keys
		for _, x := range wants[i].copies {
			if loads[x.worker]+keys < loads[chosen[i].worker] {
				loads[chosen[i].worker] -= keys
				loads[x.worker] += keys
				chosen[i], moved = x, true
			}
		}
	}
	return moved
}

// block is parts of an answer that have one state: all that are wanted of an aligned power of two
// parts of the call, or of those that there are of it if the sequence ends before. Of the others no
// query sees a key, so that their state is known. Such states merge with the bits of one.
type block struct {
	at, to     int // of the answer's parts
	first, end int // of the call's, which the state has
}

// blocksOf are those of some parts that are wanted of one worker, as large as they can be.
func (g *gather) blocksOf(parts []int) (all []block) {
	for at := 0; at < len(parts); {
		b := g.blockAt(parts[at:])
		b.at, b.to = at, at+b.to
		all, at = append(all, b), b.to
	}
	return all
}

// blockAt is the largest block that begins with the first of some parts, and has as few others that
// nothing is wanted of as can be: but all of them if that is all that is wanted.
func (g *gather) blockAt(parts []int) block {
	p, count := parts[0], len(g.parts)
	best := block{0, 1, p, p + 1}
	number := func(i int) int { // of the wanted part with that number, or the one after it
		n, _ := slices.BinarySearch(g.want, i)
		return n
	}
	from := number(p)
	for size := 2; size < 2*count; size *= 2 {
		first := p &^ (size - 1)
		b := block{0, number(min(first+size, count)) - from, first, min(first+size, count)}
		if number(first) < from || b.to > len(parts) || parts[b.to-1] != g.want[from+b.to-1] ||
			first < p && g.call.shape.rotatesOutputs() { // what is before them has to be rotated, too
			break
		}
		if all := b.end-first == count && b.to == len(g.want); b.to > best.to || all {
			best = b
		}
	}
	return best
}

// isWhole reports whether blocks are one that has all keys, of several segments.
func (g *gather) isWhole(blocks []block) bool {
	return g.call.keys > attn.Segment && len(blocks) == 1 &&
		blocks[0].end-blocks[0].first == len(g.parts)
}

// cut divides what is asked of a worker so that no request has many more bytes than messages are to
// have, and no reply.
func (g *gather) cut(a *answer) (all []*answer) {
	end := 0
	for end < len(a.parts) {
		at, there, back := end, 0, 0
		for end < len(a.parts) {
			n, t, b := g.fitting(a.parts[end:], at == end)
			if there, back = there+t, back+b; end > at && (there > g.roomThere() || back > g.roomBack()) {
				break
			}
			end += n
		}
		all = append(all, &answer{g: g, worker: a.worker, parts: a.parts[at:end:end],
			copies: a.copies[at:end:end], blocks: g.blocksOf(a.parts[at:end])})
	}
	return all
}

// fitting is how many of some parts are the next block, or, if they have to, as many of it as a
// message may have, and the bytes of these: of their pairs, and of their state.
func (g *gather) fitting(parts []int, alone bool) (n, there, back int) {
	for b := g.blockAt(parts); ; b = g.blockAt(parts[:n/2]) {
		n, there, back = b.to, g.pairBytes(parts[:b.to]), g.stateBytes(b)
		if n == 1 || !alone || there <= g.roomThere() && back <= g.roomBack() {
			return n, there, back
		}
	}
}

// pairBytes is what parts have for pairs, on the way to a worker.
func (g *gather) pairBytes(parts []int) (bytes int) {
	pairs := g.call.pairs()
	for _, i := range parts {
		bytes += leastPart + int(pairs.bytes(g.rows, g.call.snapshot[i].keys))
	}
	return bytes
}

// stateBytes is what the state of a block takes: a node for each bit of the number of segments.
func (g *gather) stateBytes(b block) int {
	count := 1
	if !g.isWhole([]block{b}) {
		snapshot := g.call.snapshot
		keys := snapshot[b.end-1].end() - snapshot[b.first].from
		count = bits.OnesCount(uint((keys + attn.Segment - 1) / attn.Segment))
	}
	return 4 * count * g.config.Heads * g.config.Queries * (g.config.ValueDim + 2)
}

// roomThere and roomBack are how many bytes a request has for parts, beside its queries, and a
// reply: a client's messages have Chunk bytes of one state, and of several up to four times that.
func (g *gather) roomThere() int { return g.call.client.config.Chunk }

func (g *gather) roomBack() int {
	chunk := g.call.client.config.Chunk
	return max(chunk, chunkShare*min(chunk, g.call.client.largest/chunkShare/chunkShare))
}
