package lists

import (
	"errors"
	"math"
	"testing"

	"github.com/seed-1415985d/attn/internal/views"
)

func TestChecks(t *testing.T) {
	for name, c := range map[string]struct{ err, want error }{
		"no lengths":          {CheckLengths("Lens", nil, 3, 9), nil},
		"lengths":             {CheckLengths("Lens", []int{0, 9}, 2, 9), nil},
		"too few lengths":     {CheckLengths("Lens", []int{0}, 2, 9), views.ErrLength},
		"length below 0":      {CheckLengths("Lens", []int{-1}, 1, 9), views.ErrLength},
		"length too large":    {CheckLengths("Lens", []int{10}, 1, 9), views.ErrLength},
		"sum":                 {CheckSum("Lens", []int{2, 0, 3}, "q.L", 5), nil},
		"sum too small":       {CheckSum("Lens", []int{2, 2}, "q.L", 5), views.ErrShape},
		"sum too large":       {CheckSum("Lens", []int{3, 3}, "q.L", 5), views.ErrLength},
		"sum that overflows":  {CheckSum("Lens", []int{1, math.MaxInt}, "q.L", 5), views.ErrLength},
		"parents":             {CheckParents([]int{-1, 0, 0, 2}, 7), nil},
		"parent of itself":    {CheckParents([]int{-1, 1}, 7), views.ErrOption},
		"parent before all":   {CheckParents([]int{-2}, 7), views.ErrOption},
		"kept":                {CheckKept([]int{3, 4, 7}, 3, 8), nil},
		"kept that is gone":   {CheckKept([]int{2}, 3, 8), views.ErrLength},
		"kept that is not":    {CheckKept([]int{8}, 3, 8), views.ErrLength},
		"kept twice":          {CheckKept([]int{4, 4}, 3, 8), views.ErrLength},
		"kept in other order": {CheckKept([]int{5, 4}, 3, 8), views.ErrLength},
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
