package pairs

// What a call of tiles has, at most: TileProducts multiply-adds, which take 4 µs, or 80 at a
// twentieth of the rate of tiles, and TileCols columns of panels.
const (
	TileProducts = 1 << 22
	TileCols     = 32
)

// TileCall is the argument of the kernel of tiles: products of rows by two panels of pairs, over
// some parts of the inputs. The generators read here where its fields are.
type TileCall struct {
	A    *uint16  // the rows' first group of inputs: 64 bytes of each row, one after the other
	V    *byte    // the first panel's
	Next *byte    // the panels that are read after the last part; nil: none
	Sums *float32 // [rows/16][2][16][16], whole tiles

	AStep      int // bytes from a group of inputs to the next,
	Second     int // from the first panel to the second, 0 if there is none,
	PartStride int // and from a part of a panel to the next
	Parts      int
	Groups     int  // of inputs, in each part
	Rows       int  // more than 0; to a multiple of 16 there is memory
	Request    int  // pairs of cache lines of the panels that follow, requested with each group
	Begin      bool // sums begin with 0
}
