package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/seed-1415985d/attn/cmd/attn/internal/npyfile"
	"github.com/seed-1415985d/attn/internal/flags"
)

// compareFiles prints how two files differ.
func (f *runFlags) compareFiles(paths []string, stdout io.Writer) error {
	if len(f.given) > 1 {
		return flags.Errorf("-compare goes with no other flag")
	}
	if len(paths) != 2 {
		return flags.Errorf("-compare has %d arguments, want two files", len(paths))
	}
	var a [2]npyfile.Array[float64]
	for i, path := range paths {
		var err error
		if a[i], err = npyfile.ReadFloat64(path); err != nil {
			return err
		}
	}
	if !slices.Equal(a[0].Shape, a[1].Shape) {
		return fmt.Errorf("%s is %s and %s is %s, want one shape", paths[0], dims(a[0].Shape), paths[1],
			dims(a[1].Shape))
	}
	d := comparison{shape: a[0].Shape}
	for i, x := range a[0].Data {
		d.add(i, x, a[1].Data[i])
	}
	d.print(stdout)
	return nil
}

// extreme is the largest value of a measure, its place and its two numbers.
type extreme struct {
	most float64
	at   int
	x, y float64
}

// update keeps a value that is larger than the largest so far.
func (e *extreme) update(value float64, i int, x, y float64) {
	if value > e.most {
		*e = extreme{value, i, x, y}
	}
}

// comparison is how two arrays differ.
type comparison struct {
	shape            []int
	elements, unlike int     // elements in all, and different ones
	sum              float64 // of the squares of differences
	largest, ulps    extreme
	nan              int // elements of which one is NaN
	nanAt            int // the first one
}

// add compares element i of both arrays. NaN equals NaN, and an infinity equals itself.
func (c *comparison) add(i int, x, y float64) {
	c.elements++
	switch {
	case x == y || x != x && y != y:
		return
	case x != x || y != y:
		if c.nan == 0 {
			c.nanAt = i
		}
		c.nan++
	default:
		difference := math.Abs(x - y)
		c.sum += difference * difference
		c.largest.update(difference, i, x, y)
		c.ulps.update(ulps(float32(x), float32(y)), i, x, y)
	}
	c.unlike++
}

// ulps returns the number of float32 steps between two numbers.
func ulps(x, y float32) float64 { return math.Abs(float64(ordinal(x) - ordinal(y))) }

// ordinal returns the rank of a number among all float32, 0 for 0.
func ordinal(x float32) int64 {
	bits := math.Float32bits(x)
	place := int64(bits &^ (1 << 31))
	if bits>>31 == 1 {
		return -place
	}
	return place
}

func (c *comparison) print(w io.Writer) {
	fmt.Fprintf(w, "%d of %d elements of %s differ\n", c.unlike, c.elements, dims(c.shape))
	if c.unlike > c.nan {
		fmt.Fprintf(w, "largest difference  %.3g %s\n", c.largest.most, c.where(&c.largest))
		fmt.Fprintf(w, "root mean square    %.3g\n", math.Sqrt(c.sum/float64(c.elements-c.nan)))
		fmt.Fprintf(w, "most ULPs           %.0f %s\n", c.ulps.most, c.where(&c.ulps))
	}
	if c.nan > 0 {
		fmt.Fprintf(w, "NaN in one only     %d, first at %s\n", c.nan, c.index(c.nanAt))
	}
}

// where describes an element's place and its values in both files.
func (c *comparison) where(e *extreme) string {
	return fmt.Sprintf("at %s: %s and %s", c.index(e.at), shortest(e.x), shortest(e.y))
}

// shortest prints the fewest digits that identify a number, as float32 if it is one.
func shortest(x float64) string {
	if float64(float32(x)) == x {
		return strconv.FormatFloat(x, 'g', -1, 32)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

func (c *comparison) index(i int) string { return dims(npyfile.Index(c.shape, i)) }
