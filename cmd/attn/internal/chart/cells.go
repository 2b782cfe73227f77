// Package chart draws the command's pictures: PNG, SVG and PDF.
package chart

import "math"

// Cells is a matrix reduced to at most a given number of rows and columns: a cell holds the
// largest of the elements that fall into it, or NaN if one is.
type Cells struct {
	Rows, Cols int // of the matrix
	rows, cols int // of the cells
	value      []float32
}

// NewCells returns cells for non-negative elements of a rows × cols matrix.
func NewCells(rows, cols, most int) Cells {
	c := Cells{Rows: rows, Cols: cols, rows: min(rows, most), cols: min(cols, most)}
	c.value = make([]float32, c.rows*c.cols)
	return c
}

// Add enters one row of the matrix.
func (c *Cells) Add(row int, elements []float32) {
	at := c.value[row*c.rows/c.Rows*c.cols:][:c.cols]
	for j, e := range elements {
		cell := &at[j*c.cols/c.Cols]
		if e > *cell || e != e {
			*cell = e
		}
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

func (c *Cells) at(row, col int) float64 { return float64(c.value[row*c.cols+col]) }

// reduced reports that a cell may stand for several elements.
func (c *Cells) reduced() bool { return c.rows < c.Rows || c.cols < c.Cols }

// ratio is columns to rows, within what a picture can show.
func (c *Cells) ratio() float64 {
	return math.Max(1.0/4, math.Min(4, float64(c.Cols)/float64(c.Rows)))
}
