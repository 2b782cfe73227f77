package views

import (
	"errors"
	"math"
	"testing"
)

func TestChecks(t *testing.T) {
	for name, c := range map[string]struct{ err, want error }{
		"no lengths":          {CheckLengths("Lens", nil, 3, 9), nil},
		"lengths":             {CheckLengths("Lens", []int{0, 9}, 2, 9), nil},
		"too few lengths":     {CheckLengths("Lens", []int{0}, 2, 9), ErrLength},
		"length below 0":      {CheckLengths("Lens", []int{-1}, 1, 9), ErrLength},
		"length too large":    {CheckLengths("Lens", []int{10}, 1, 9), ErrLength},
		"sum":                 {CheckSum("Lens", []int{2, 0, 3}, "q.L", 5), nil},
		"sum too small":       {CheckSum("Lens", []int{2, 2}, "q.L", 5), ErrShape},
		"sum too large":       {CheckSum("Lens", []int{3, 3}, "q.L", 5), ErrLength},
		"sum that overflows":  {CheckSum("Lens", []int{1, math.MaxInt}, "q.L", 5), ErrLength},
		"parents":             {CheckParents([]int{-1, 0, 0, 2}, 7), nil},
		"parent of itself":    {CheckParents([]int{-1, 1}, 7), ErrOption},
		"parent before all":   {CheckParents([]int{-2}, 7), ErrOption},
		"kept":                {CheckKept([]int{3, 4, 7}, 3, 8), nil},
		"kept that is gone":   {CheckKept([]int{2}, 3, 8), ErrLength},
		"kept that is not":    {CheckKept([]int{8}, 3, 8), ErrLength},
		"kept twice":          {CheckKept([]int{4, 4}, 3, 8), ErrLength},
		"kept in other order": {CheckKept([]int{5, 4}, 3, 8), ErrLength},
	} {
		if !errors.Is(c.err, c.want) || c.want == nil && c.err != nil {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
}

func TestWrongKey(t *testing.T) {
	for _, c := range [...]struct {
		list []int32
		want int
	}{{nil, 0}, {[]int32{0, 3, 8}, 3}, {[]int32{0, 3, -1, -1}, 4}, {[]int32{-1}, 1},
		{[]int32{3, 3}, 1}, {[]int32{0, 9}, 1}, {[]int32{0, -1, 3}, 2}, {[]int32{0, -2}, 1}} {
		if got := WrongKey(c.list, 9); got != c.want {
			t.Errorf("the first wrong element of %d is %d, want %d", c.list, got, c.want)
		}
	}
}

func TestCheckRows(t *testing.T) {
	for _, c := range []struct {
		lens []int
		n    int
		want string
	}{
		{nil, 5, ""},
		{[]int{2, 0, 3}, 3, ""},
		{nil, 2, "q.L is 5, want 2, the rows of all states"},
		{[]int{5}, 2, "len(lens) is 1, want 2, one for each state"},
		{[]int{2, 2}, 2, "q.L is 5, want 4, the rows of all states"},
		{[]int{2, 4}, 2, "lens[1] is 4, want 0 to 3: q.L is 5, and the lengths before add up to 2"},
		{[]int{-1, 6}, 2, "lens[0] is -1, want 0 to 5: q.L is 5, and the lengths before add up to 0"},
	} {
		err := CheckRows(c.lens, c.n, "state", "q.L", 5)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !errors.Is(err, ErrLength) ||
			err.Error() != ErrLength.Error()+": "+c.want) {
			t.Errorf("%d of %d: %v, want %q", c.lens, c.n, err, c.want)
		}
	}
}

func TestCheckOnce(t *testing.T) {
	a, b := new(int), new(int)
	for want, list := range map[string][]*int{
		"":                                     {a, b},
		"states[1] is nil, want a state":       {a, nil, a},
		"states[2] is states[1], want it once": {b, a, a},
	} {
		err := CheckOnce("states", "state", list)
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrOption) ||
			err.Error() != ErrOption.Error()+": "+want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
