package inspect

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

// Check verifies that the sizes of a call are in range.
func (c *Call) Check() error {
	for _, f := range [...]struct {
		name string
		n    int
	}{{"B", c.B}, {"H", c.H}, {"KVH", c.KVH}, {"Lq", c.Lq}, {"Lk", c.Lk}, {"D", c.D}, {"Dv", c.Dv},
		{"workers", c.Workers}} {
		if f.n < 1 || f.n > views.MaxLength {
			return views.Fail(views.ErrShape, "%s is %d, want 1 to %d", f.name, f.n, views.MaxLength)
		}
	}
	if c.H%c.KVH != 0 {
		return views.Fail(views.ErrShape, "H is %d, want a multiple of KVH = %d", c.H, c.KVH)
	}
	for _, size := range [...][4]int{{c.B, c.H, c.Lq, max(c.D, c.Dv)},
		{c.B, c.KVH, c.Lk, max(c.D, c.Dv)}, {1, 1, 4 * kernel.Block, c.D + c.Dv}} {
		if _, ok := views.Product(size[:]...); !ok {
			return views.Fail(views.ErrShape, "a view or scratch memory is %d×%d×%d×%d elements, want at "+
				"most %d", size[0], size[1], size[2], size[3], views.MaxElements)
		}
	}
	return nil
}

// Text is the description of a schedule: a line of at most 100 columns for each decision.
type Text struct{ strings.Builder }

// Line adds a line: the name of a decision, its value, and what it means. A float64 is a time in
// nanoseconds.
func (t *Text) Line(name string, value any, meaning string, args ...any) {
	switch x := value.(type) {
	case bool:
		if value = "no"; x {
			value = "yes"
		}
	case float64: // nanoseconds
		value = threeDigits(x)
	}
	fmt.Fprintf(t, "%-11s  %-9v  %s\n", name, value, fmt.Sprintf(meaning, args...))
}

// Sharing adds the line that says which workers of a Pool share a call of some nanoseconds.
func (t *Text) Sharing(row *tuning.Row, cost float64) {
	switch {
	case cost < row.SmallCall:
		t.Line("sharing", "none", "a Pool leaves it to the caller, as all calls below %v",
			threeDigits(row.SmallCall))
	case cost < row.WakingCall:
		t.Line("sharing", "awake", "a Pool shares it with workers that are awake; it wakes others "+
			"from %v on", threeDigits(row.WakingCall))
	default:
		t.Line("sharing", "all", "a Pool wakes its workers for it")
	}
}

// Lanes is the number of floats that kernels of 8 or of 16 compute at once.
func Lanes(sixteen bool) int {
	if sixteen {
		return 16
	}
	return 8
}

// threeDigits rounds a time to three digits.
func threeDigits(ns float64) time.Duration {
	unit := math.Pow(10, max(0, math.Floor(math.Log10(max(ns, 1)))-2))
	return time.Duration(math.Round(ns/unit) * unit)
}
