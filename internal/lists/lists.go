// Package lists checks lists of numbers that calls take: lengths, positions, the parents of a tree.
package lists

import "github.com/seed-1415985d/attn/internal/views"

// CheckLengths makes sure that lengths, if there are some, are one for each batch entry, and not
// above the most.
func CheckLengths(name string, lens []int, batch, most int) error {
	if lens == nil {
		return nil
	}
	if len(lens) != batch {
		return views.Fail(views.ErrLength, "len(%s) is %d, want one for each of %d batches", name,
			len(lens), batch)
	}
	for b, n := range lens {
		if n < 0 || n > most {
			return views.Fail(views.ErrLength, "%s[%d] is %d, want 0 to %d", name, b, n, most)
		}
	}
	return nil
}

// CheckSum makes sure that lengths of parts add up to a dimension.
func CheckSum(name string, lens []int, dimension string, total int) error {
	sum := 0
	for i, n := range lens {
		if n < 0 || n > total-sum {
			return views.Fail(views.ErrLength, "%s[%d] is %d, want 0 to %d: %s is %d, of which those "+
				"before take %d", name, i, n, total-sum, dimension, total, sum)
		}
		sum += n
	}
	if sum != total {
		return views.Fail(views.ErrShape, "%s is %d, want the sum of %s, %d", dimension, total, name, sum)
	}
	return nil
}

// CheckParents makes sure that the parents of queries come before them. The first query has an
// index among all.
func CheckParents(parents []int, first int) error {
	for i, parent := range parents {
		if parent < -1 || parent >= i {
			return views.Fail(views.ErrOption, "Tree[%d] is %d, want -1 to %d, the index of a query "+
				"before it", first+i, parent, i-1)
		}
	}
	return nil
}

// CheckKept makes sure that indices are ascending positions of tokens, which begin with the first
// and end before a length.
func CheckKept(indices []int, first, length int) error {
	for i, j := range indices {
		if j < first || j >= length {
			return views.Fail(views.ErrLength, "indices[%d] is %d, want %d to %d, the positions of the "+
				"tokens", i, j, first, length-1)
		}
		if i > 0 && j <= indices[i-1] {
			return views.Fail(views.ErrLength, "indices[%d] is %d after %d, want ascending positions", i,
				j, indices[i-1])
		}
	}
	return nil
}

// WrongKey is the index of the first element that a list of some of the keys cannot have there, its
// length if there is none: keys ascend, and −1 fills up what is behind them.
func WrongKey(list []int32, keys int) int {
	last, x := int32(-1), 0
	for x < len(list) && list[x] > last && int(list[x]) < keys {
		last = list[x]
		x++
	}
	for x < len(list) && list[x] == -1 {
		x++
	}
	return x
}
