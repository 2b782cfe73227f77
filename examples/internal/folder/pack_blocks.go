package folder

import "github.com/seed-1415985d/attn"

// packBlocks makes a matrix of rows as a file has them.
func packBlocks(data []byte, e *encoding, out, in int, integers bool) (*attn.Matrix, error) {
	x := make([]float32, out*in)
	e.row(x, data)
	return attn.PackMatrix(attn.BHLD(x, 1, 1, out, in), attn.MatrixConfig{Transposed: true})
}
