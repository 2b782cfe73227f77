package sight

import (
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
)

var all = ^uint64(0)

func TestOf(t *testing.T) {
	for _, c := range [...]struct {
		name string
		rows []uint64
		want uint8
	}{
		{"nothing", []uint64{0, 0, 0}, None},
		{"all", []uint64{all, all}, All},
		{"one row nothing", []uint64{all, 0}, Some},
		{"both ends", []uint64{all, all &^ (1 << 30)}, Everywhere},
		{"near both ends", []uint64{1<<(kernel.Panel-1) | 1<<(kernel.Block-kernel.Panel)}, Everywhere},
		{"not the first panel", []uint64{all, all << kernel.Panel}, Some},
		{"not the last panel", []uint64{all >> kernel.Panel, all}, Some},
	} {
		if got := Of(c.rows); got != c.want {
			t.Errorf("%s: rows see %d, want %d", c.name, got, c.want)
		}
	}
}

// TestBoth joins what two halves of the rows see; it never says more than what all of them see.
func TestBoth(t *testing.T) {
	halves := [][]uint64{{0}, {all}, {1}, {all &^ 2}}
	for _, a := range halves {
		for _, b := range halves {
			if got, want := Both(Of(a), Of(b)), Of(append(a[:1:1], b...)); got != want {
				t.Errorf("%x and %x see %d together, want %d", a, b, got, want)
			}
		}
	}
}

func TestFillAndRun(t *testing.T) {
	for n := 1; n < 20; n++ {
		rows := make([]uint64, n)
		Fill(rows)
		if got := Run(rows, all); got != n {
			t.Errorf("%d of %d rows are full", got, n)
		}
		rows[n/2] = 1
		if got := Run(rows, all); got != n/2 {
			t.Errorf("%d rows come before row %d", got, n/2)
		}
	}
	if at := IndexTrue(nil); at != -1 {
		t.Errorf("the first of none is %d, want -1", at)
	}
	if at := IndexTrue([]bool{false, false, true}); at != 2 {
		t.Errorf("the first is %d, want 2", at)
	}
}

// TestTrim compares with the definition: no key outside [lo, hi) is visible, both ends are, and
// uniform says that every row sees all keys between.
func TestTrim(t *testing.T) {
	const diagonal = 16
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		rows := make([]uint64, 1+r.IntN(3*diagonal))
		for i := range rows {
			switch r.IntN(4) {
			case 0:
				rows[i] = kernel.LowBits(r.IntN(kernel.Block + 1))
			case 1:
				rows[i] = all &^ kernel.LowBits(r.IntN(kernel.Block+1))
			default:
				rows[i] = rows[max(0, i-1)]
			}
		}
		n, lo, hi, uniform := Trim(rows, diagonal)
		if n < 1 || n > len(rows) || n < len(rows) && n < diagonal {
			t.Fatalf("%d of %d rows", n, len(rows))
		}
		some, every := Keys(rows[:n])
		span := kernel.LowBits(hi) &^ kernel.LowBits(lo)
		if some&^span != 0 || some != 0 && (some>>lo&1 == 0 || some>>(hi-1)&1 == 0) {
			t.Fatalf("keys [%d, %d) of %x", lo, hi, some)
		}
		if uniform != (every == span) {
			t.Fatalf("uniform is %t for %x of [%d, %d)", uniform, every, lo, hi)
		}
	}
}
