package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tileSizes are the numbers of rows that tiles have, in ascending order.
type tileSizes []int

// sizesTo are all sizes from least to most.
func sizesTo(least, most int) (sizes tileSizes) {
	for r := least; r <= most; r++ {
		sizes = append(sizes, r)
	}
	return sizes
}

// manyTiles are the sizes for many rows. Calls of 9 to 11 rows use two tiles: they are too few to
// be worth the code of larger tiles.
func manyTiles(least int) tileSizes { return append(sizesTo(least, 8), 12) }

// next is the rows of the next tile by how many are left: all of them if there is such a tile, of
// less than two tiles half, so that none has too few chains, else most; 0 if no tile is small
// enough.
func (s tileSizes) next(left int) int {
	most := s[len(s)-1]
	if s.has(left) {
		return left
	}
	if half := (left + 1) / 2; left < 2*most && s.has(half) {
		return half
	}
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] <= left {
			return s[i]
		}
	}
	return 0
}

func (s tileSizes) has(rows int) bool {
	for _, r := range s {
		if r == rows {
			return true
		}
	}
	return false
}

// taken returns the sizes that calls of from to to rows use. No other tile is emitted.
func (s tileSizes) taken(from, to int) (taken tileSizes) {
	used := map[int]bool{}
	for rows := from; rows <= min(to, 4*s[len(s)-1]); rows++ {
		for left := rows; s.next(left) > 0; left -= s.next(left) {
			used[s.next(left)] = true
		}
	}
	for _, r := range s {
		if used[r] {
			taken = append(taken, r)
		}
	}
	return taken
}

// choose jumps to the label of the next tile for the rows that are left, or to none.
func (s tileSizes) choose(left reg.Register, label func(rows int) string, none string) {
	for rows := 2 * s[len(s)-1]; rows > 0; rows-- {
		if at := s.next(rows); at > 0 && at != s.next(rows-1) {
			CMPQ(left, imm(rows))
			JGE(LabelRef(label(at)))
		}
	}
	JMP(LabelRef(none))
}

func tileLabel(name string, rows int) string { return fmt.Sprintf("%s%d", name, rows) }

// tileGroup is how many panels go side by side, for calls of up to a number of rows, and the tiles.
type tileGroup struct {
	panels, upTo int
	sizes        tileSizes
	prefetches   int // calls of up to this number of rows prefetch, line by line
}

const manyRows = 1 << 30

// takenGroups returns the groups and their tiles that calls use when they try all groups in turn. A
// call with too many rows for a group, or with panels left, continues with the next group.
func takenGroups(groups []tileGroup) (taken []tileGroup) {
	for i, g := range groups {
		from := g.sizes[0]
		for _, before := range groups[:i] {
			if before.panels <= g.panels && before.upTo < manyRows { // which leaves too few panels
				from = max(from, before.upTo+1)
			}
		}
		if g.sizes = g.sizes.taken(from, g.upTo); g.sizes != nil {
			taken = append(taken, g)
		}
	}
	return taken
}

// partOfRound enters a round of two or four steps in the middle, so that the first round has the
// steps that are left over from whole rounds; there must be some. It moves the pointers to rows to
// before these steps. tmp is free, ready may change all registers but the pointers and count, and
// label returns the label of step u.
func partOfRound(round int, rows []reg.Register, tmp reg.Register, part Mem, ready func(),
	label func(u int) string) {
	MOVQ(stepsLeft, tmp)
	ANDQ(imm(round-1), tmp)
	for _, at := range rows {
		LEAQ(Mem{Base: at, Index: tmp, Scale: 4, Disp: -4 * round}, at)
	}
	SUBQ(tmp, stepsLeft)
	ADDQ(imm(round), stepsLeft)
	MOVQ(tmp, part)
	ready()
	if round == 2 {
		JMP(LabelRef(label(1)))
		return
	}
	CMPQ(part, Imm(2))
	JB(LabelRef(label(3)))
	JE(LabelRef(label(2)))
	JMP(LabelRef(label(1)))
}
