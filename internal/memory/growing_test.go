package memory

import (
	"bytes"
	"math"
	"testing"
)

// Bytes stay when memory grows, and no more than a few times as much is taken.
func TestGrowing(t *testing.T) {
	for _, piece := range []int{1, 1000, firstTaken - 1, firstTaken + 1} {
		for _, most := range []int{piece, 3 * piece, 11 * piece} {
			before := Mapped()
			g := Growing{Most: most}
			var want []byte
			for i := 0; len(want) < most; i++ {
				x, err := g.Next(piece)
				must(t, err)
				if len(x) != piece || cap(x) != piece {
					t.Fatalf("Next(%d) has %d bytes and room for %d", piece, len(x), cap(x))
				}
				fill(x, byte(i+1))
				want = append(want, x...)
				page := 1 << 16
				if got, bound := Mapped()-before, max(firstTaken, ahead*len(want))+page; got > int64(bound) {
					t.Fatalf("%d bytes are mapped for %d, want at most %d", got, len(want), bound)
				}
			}
			if got := g.Mapping().Bytes(); !bytes.Equal(got, want) {
				t.Errorf("%d bytes in pieces of %d are others, or not as many as came", most, piece)
			}
			must(t, g.Close())
			must(t, g.Close())
			if got := Mapped(); got != before {
				t.Errorf("%d bytes stay mapped after Close", got-before)
			}
		}
	}
}

// Where there is no memory, what has come stays.
func TestGrowingIsRefused(t *testing.T) {
	g := Growing{Most: math.MaxInt}
	if err := g.Close(); err != nil || g.Mapping() != nil {
		t.Errorf("Close of nothing is %v, and the mapping is %v", err, g.Mapping())
	}
	x, err := g.Next(3)
	must(t, err)
	fill(x, 7)
	if _, err := g.Next(math.MaxInt - hugePage); err == nil {
		t.Fatal("all memory that there may be is granted")
	}
	x, err = g.Next(1)
	must(t, err)
	x[0] = 8
	if got := g.Mapping().Bytes()[:4]; !bytes.Equal(got, []byte{7, 7, 7, 8}) {
		t.Errorf("the bytes are %v after a refusal, want [7 7 7 8]", got)
	}
	must(t, g.Close())
}
