package views

import "slices"

// CheckLengths makes sure that lengths, if given, are one for each batch entry and at most most.
func CheckLengths(name string, lens []int, batch, most int) error {
	if lens == nil {
		return nil
	}
	if len(lens) != batch {
		return Fail(ErrLength, "len(%s) is %d, want one for each of %d batches", name,
			len(lens), batch)
	}
	for b, n := range lens {
		if n < 0 || n > most {
			return Fail(ErrLength, "%s[%d] is %d, want 0 to %d", name, b, n, most)
		}
	}
	return nil
}

// CheckSum makes sure that the lengths of parts add up to a dimension.
func CheckSum(name string, lens []int, dimension string, total int) error {
	sum, err := sumOf(name, lens, dimension, total)
	if err == nil && sum != total {
		err = Fail(ErrShape, "%s is %d, want the sum of %s, %d", dimension, total, name, sum)
	}
	return err
}

// CheckRows makes sure that the rows of a dimension are divided among n owners. lens has the rows
// of each owner; nil means one row each. Errors call an owner by owner, such as "state".
func CheckRows(lens []int, n int, owner, dimension string, rows int) error {
	sum := n
	if lens != nil {
		if len(lens) != n {
			return Fail(ErrLength, "len(lens) is %d, want %d, one for each %s", len(lens), n, owner)
		}
		var err error
		if sum, err = sumOf("lens", lens, dimension, rows); err != nil {
			return err
		}
	}
	if sum != rows {
		return Fail(ErrLength, "%s is %d, want %d, the rows of all %ss", dimension, rows, sum, owner)
	}
	return nil
}

// sumOf adds up lengths. It refuses a negative one, and one that exceeds the rest of total.
func sumOf(name string, lens []int, dimension string, total int) (sum int, err error) {
	for i, n := range lens {
		if n < 0 || n > total-sum {
			return 0, Fail(ErrLength, "%s[%d] is %d, want 0 to %d: %s is %d, and the lengths before add "+
				"up to %d", name, i, n, total-sum, dimension, total, sum)
		}
		sum += n
	}
	return sum, nil
}

// CheckOnce makes sure that a list of objects has no nil and no object twice. Errors call an object
// by owner, such as "state".
func CheckOnce[T any](name, owner string, list []*T) error {
	for i, x := range list {
		if x == nil {
			return Fail(ErrOption, "%s[%d] is nil, want a %s", name, i, owner)
		}
		if k := slices.Index(list, x); k < i {
			return Fail(ErrOption, "%s[%d] is %s[%d], want it once", name, i, name, k)
		}
	}
	return nil
}

// CheckParents makes sure that the parents of queries come before them. first is the index of the
// first query among all.
func CheckParents(parents []int, first int) error {
	for i, parent := range parents {
		if parent < -1 || parent >= i {
			return Fail(ErrOption, "Tree[%d] is %d, want -1 to %d, the index of a query "+
				"before it", first+i, parent, i-1)
		}
	}
	return nil
}

// CheckKept makes sure that indices are ascending positions of tokens, from first on and below
// length.
func CheckKept(indices []int, first, length int) error {
	for i, j := range indices {
		if j < first || j >= length {
			return Fail(ErrLength, "indices[%d] is %d, want %d to %d, the positions of the "+
				"tokens", i, j, first, length-1)
		}
		if i > 0 && j <= indices[i-1] {
			return Fail(ErrLength, "indices[%d] is %d after %d, want ascending positions", i,
				j, indices[i-1])
		}
	}
	return nil
}

// WrongKey returns the index of the first invalid element in a list of some of the keys, or its
// length if there is none: keys ascend, and −1 fills the rest.
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
