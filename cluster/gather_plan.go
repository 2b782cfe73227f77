package cluster

import (
	"math/bits"
	"slices"

	"github.com/seed-1415985d/attn"
)

// If several workers hold the same parts, the choice of workers determines the time of a step: that
// of the worker with the most keys, plus the transfer of the states.

// want is a part whose state is wanted.
type want struct {
	sequence int // number in the batch
	part     int
	keys     int
	copies   []*partCopy // copies that may be asked, each on another worker
}

// on returns the copy on a worker, nil if there is none.
func (x *want) on(worker string) *partCopy {
	for _, y := range x.copies {
		if y.worker == worker {
			return y
		}
	}
	return nil
}

// spread chooses a copy of each part, in the order of sequences and numbers, so that no worker has
// many more keys than necessary. Aligned blocks of neighbours, the largest first, go to the same
// worker if that costs nothing, because their states return as one.
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

// choose assigns some parts to the worker with the least work of those that have all of them, if it
// does not get more than fair keys, or in any case.
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

// even moves parts to workers that have less work even with them, and reports whether it moved any.
// The sum of squares of the workers' loads decreases each time, so this ends.
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

// block is parts of an answer with a common state: all wanted parts of an aligned power of two of
// the call's parts, which may extend beyond the end of the sequence. No query sees a key of its
// other parts, so that their state is known. Such states merge with the bits of one.
type block struct {
	at, to     int // of the answer's parts
	first, end int // of the call's parts that the state includes
}

// blocksOf divides parts that are wanted of one worker into the largest possible blocks.
func (g *gather) blocksOf(parts []int) (all []block) {
	for at := 0; at < len(parts); {
		b := g.blockAt(parts[at:])
		b.at, b.to = at, at+b.to
		all, at = append(all, b), b.to
	}
	return all
}

// blockAt returns the largest block that begins with the first of some parts, with as few unwanted
// parts as possible; but with all of them if these are all wanted parts.
func (g *gather) blockAt(parts []int) block {
	p, count := parts[0], len(g.parts)
	best := block{0, 1, p, p + 1}
	number := func(i int) int { // index in want of part i, or of the next wanted part
		n, _ := slices.BinarySearch(g.want, i)
		return n
	}
	from := number(p)
	for size := 2; size < 2*count; size *= 2 {
		first := p &^ (size - 1)
		b := block{0, number(min(first+size, count)) - from, first, min(first+size, count)}
		if number(first) < from || b.to > len(parts) || parts[b.to-1] != g.want[from+b.to-1] ||
			first < p && g.call.shape.rotatesOutputs() { // the parts before it have to be rotated, too
			break
		}
		if all := b.end-first == count && b.to == len(g.want); b.to > best.to || all {
			best = b
		}
	}
	return best
}

// isWhole reports whether there is a single block with all keys, of several segments.
func (g *gather) isWhole(blocks []block) bool {
	return g.call.keys > attn.Segment && len(blocks) == 1 &&
		blocks[0].end-blocks[0].first == len(g.parts)
}

// cut divides the request to a worker so that neither requests nor replies are much larger than
// messages should be.
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

// fitting returns the number of parts of the next block, or as many of it as fit a message if
// alone, and the bytes of their pairs and of their state.
func (g *gather) fitting(parts []int, alone bool) (n, there, back int) {
	for b := g.blockAt(parts); ; b = g.blockAt(parts[:n/2]) {
		n, there, back = b.to, g.pairBytes(parts[:b.to]), g.stateBytes(b)
		if n == 1 || !alone || there <= g.roomThere() && back <= g.roomBack() {
			return n, there, back
		}
	}
}

// pairBytes returns the bytes of Mask, Bias and Blocks of parts in a message.
func (g *gather) pairBytes(parts []int) (bytes int) {
	pairs := g.call.pairs()
	for _, i := range parts {
		bytes += leastPart + int(pairs.bytes(g.rows, g.call.snapshot[i].keys))
	}
	return bytes
}

// stateBytes returns the size of the state of a block: a node for each bit of the number of
// segments.
func (g *gather) stateBytes(b block) int {
	count := 1
	if !g.isWhole([]block{b}) {
		snapshot := g.call.snapshot
		keys := snapshot[b.end-1].end() - snapshot[b.first].from
		count = bits.OnesCount(uint((keys + attn.Segment - 1) / attn.Segment))
	}
	return 4 * count * g.config.Heads * g.config.Queries * (g.config.ValueDim + 2)
}

// roomThere and roomBack are the bytes of a request for parts, without its queries, and of a reply:
// a client's messages have Chunk bytes of one state, and up to four times as many of several.
func (g *gather) roomThere() int { return g.call.client.config.Chunk }

func (g *gather) roomBack() int {
	chunk := g.call.client.config.Chunk
	return max(chunk, chunkShare*min(chunk, g.call.client.largest/chunkShare/chunkShare))
}
