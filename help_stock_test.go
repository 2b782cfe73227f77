package attn

// A stock is values of every distribution, drawn once. To copy from it takes a
// fuzz target far less time than to draw each element, and the fuzzer
// still decides where it is copied from and on some elements one by one.
type stock struct {
	values  [distributions][]float32
	factors [distributions][]float32
	coins   []byte
}

const (
	stockSize  = 1 << 14
	stockReach = 1 << 12 // elements that one copy takes
	overwrites = 3       // most elements that are drawn after a copy
)

func newStock() *stock {
	s := new(stock)
	c := &trial{Rand: random("stock")}
	for d := range distributions {
		c.kind = d
		s.values[d], s.factors[d] = make([]float32, stockSize), make([]float32, stockSize)
		d.fill(c.Rand, s.values[d])
		for i := range s.factors[d] {
			s.factors[d][i] = c.factor()
		}
	}
	s.coins = make([]byte, stockSize)
	for i := range s.coins {
		s.coins[i] = byte(c.IntN(4))
	}
	return s
}

// take fills x with consecutive elements from anywhere in one of the stock's slices.
func take[T any](c *trial, x, from []T) {
	for len(x) > 0 {
		at := int(c.Uint64() % (stockSize - stockReach))
		x = x[copy(x, from[at:at+stockReach]):]
	}
}

// fill draws values of a kind.
func (c *trial) fill(kind distribution, x []float32) {
	if c.stock == nil {
		kind.fill(c.Rand, x)
		return
	}
	take(c, x, c.stock.values[kind])
	for range min(c.IntN(overwrites+1), len(x)) {
		x[c.IntN(len(x))] = c.kind.draw(c.Rand)
	}
}

// fillFactors draws what outputs are multiplied by.
func (c *trial) fillFactors(x []float32) {
	if c.stock == nil {
		for i := range x {
			x[i] = c.factor()
		}
		return
	}
	take(c, x, c.stock.factors[c.kind])
	for range min(c.IntN(overwrites+1), len(x)) {
		x[c.IntN(len(x))] = c.factor()
	}
}

// markMasked makes about so many in four weights those of keys that do not exist.
func (c *trial) markMasked(x []float32, masked int) {
	if masked == 0 {
		return
	}
	coins := make([]byte, len(x))
	if c.stock != nil {
		take(c, coins, c.stock.coins)
	} else {
		for i := range coins {
			coins[i] = byte(c.IntN(4))
		}
	}
	for i, coin := range coins {
		if int(coin) < masked {
			x[i] = specials[1]
		}
	}
}
