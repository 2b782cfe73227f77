// Package chart draws the command's pictures: PNG, SVG and PDF.
package chart

import (
	"math"
	"slices"
)

// Cells is a matrix of weights reduced to at most a given number of rows and columns: a cell holds
// the largest of its weights, or NaN if one is, and whether any of its pairs is not masked.
type Cells struct {
	Rows, Cols int // of the matrix
	rows, cols int // of the cells
	value      []float32
	visible    []bool
}

// NewCells returns cells for non-negative elements of a rows × cols matrix.
func NewCells(rows, cols, most int) Cells {
	c := Cells{Rows: rows, Cols: cols, rows: min(rows, most), cols: min(cols, most)}
	c.value, c.visible = make([]float32, c.rows*c.cols), make([]bool, c.rows*c.cols)
	return c
}

// Add enters one row of the matrix. Pairs are visible where that is above 0.
func (c *Cells) Add(row int, weights, visible []float32) {
	first := row * c.rows / c.Rows * c.cols
	for j, e := range weights {
		at := first + j*c.cols/c.Cols
		if e > c.value[at] || e != e {
			c.value[at] = e
		}
		c.visible[at] = c.visible[at] || visible[j] > 0
	}
}

// max returns the largest value that is not NaN.
func (c *Cells) max() float64 {
	top := float32(0)
	for _, e := range c.value {
		if e > top {
			top = e
		}
	}
	return float64(top)
}

// masked reports that no query of a cell sees a key of it.
func (c *Cells) masked(row, col int) bool { return !c.visible[row*c.cols+col] }

// anyMasked and anyNaN report what a legend has to explain.
func (c *Cells) anyMasked() bool { return slices.Contains(c.visible, false) }

func (c *Cells) anyNaN() bool {
	return slices.ContainsFunc(c.value, func(e float32) bool { return e != e })
}

func (c *Cells) at(row, col int) float64 { return float64(c.value[row*c.cols+col]) }

// reduced reports that a cell may stand for several elements.
func (c *Cells) reduced() bool { return c.rows < c.Rows || c.cols < c.Cols }

// ratio returns columns to rows, within the limits of a picture.
func (c *Cells) ratio() float64 {
	return math.Max(1.0/4, math.Min(4, float64(c.Cols)/float64(c.Rows)))
}
