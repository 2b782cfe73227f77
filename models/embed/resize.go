package embed

import "math"

// Resampling of pictures, with the same numbers as Pillow's resize: weights are computed in
// float64, rounded to integers of 22 bits after the point, and summed exactly; rows are resampled
// before columns. Each product is converted, which keeps Go from fusing it with a sum.

// resampling is a filter, by Pillow's number.
type resampling int

const (
	nearest resampling = iota
	lanczos
	bilinear
	bicubic
	box
	hamming
)

// supports are half the widths of the filters, in source pixels unless a picture shrinks.
var supports = [...]float64{nearest: 0, lanczos: 3, bilinear: 1, bicubic: 2, box: 0.5, hamming: 1}

// Both constants are float32 in Pillow.
var hammingMean, hammingWave = float64(float32(0.54)), float64(float32(0.46))

// at returns the weight of a filter at x.
func (f resampling) at(x float64) float64 {
	a := math.Abs(x)
	switch f {
	case lanczos:
		if x >= -3 && x < 3 {
			return float64(sinc(x) * sinc(x/3))
		}
	case bilinear:
		return max(1-a, 0)
	case bicubic:
		return cubic(a, -0.5)
	case box:
		if x > -0.5 && x <= 0.5 {
			return 1
		}
	case hamming:
		switch {
		case x == 0:
			return 1
		case a >= 1:
			return 0
		}
		angle := float64(a * math.Pi)
		sine, cosine := sineCosine(angle)
		return float64(sine / angle * float64(hammingMean+float64(hammingWave*cosine)))
	}
	return 0
}

// cubic is the cubic convolution kernel with parameter a, for x ≥ 0.
func cubic(x, a float64) float64 {
	switch {
	case x < 1:
		return float64(float64(float64(float64(a+2)*x-(a+3))*x)*x) + 1
	case x < 2:
		y := float64(x - 5)
		y = float64(float64(y*x) + 8)
		y = float64(float64(y*x) - 4)
		return float64(y * a)
	}
	return 0
}

// sinc is sin(πx)/(πx).
func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	angle := float64(math.Abs(x) * math.Pi)
	sine, _ := sineCosine(angle)
	return sine / angle
}

// sineCosine returns both for angles of 0 to 10, accurate almost to float64 and with the same bits
// on every CPU, which Go's functions do not promise.
func sineCosine(a float64) (sine, cosine float64) {
	const high, low = 0x1.921fb54442d18p+00, 0x1.1a62633145c07p-54 // of π/2
	n := math.Floor(a/high + 0.5)
	r := math.FMA(-n, low, math.FMA(-n, high, a))
	s := float64(r * r)
	sine, cosine = 0, 0
	for k := 19.0; k > 1; k -= 2 { // Taylor series, last terms first
		sine = float64((1 - sine) * s / float64(k*(k-1)))
		cosine = float64((1 - cosine) * s / float64((k-1)*(k-2)))
	}
	sine, cosine = float64(r*(1-sine)), 1-cosine
	switch int(n) % 4 {
	case 1:
		return cosine, -sine
	case 2:
		return -sine, -cosine
	case 3:
		return -cosine, sine
	}
	return sine, cosine
}

// precision is the number of bits after the point of weights.
const precision = 22

// taps are the sources of some outputs, with their weights.
type taps struct {
	first, count []int32
	weights      []int32 // the weights of output i from i·most on
	most         int
}

// place computes the taps of outputs begin to end, out of out outputs from in sources.
func (t *taps) place(f resampling, in, out, begin, end int) {
	ratio := float64(in) / float64(out)
	scale := max(ratio, 1)
	support := float64(supports[f] * scale)
	n := end - begin
	t.most = 2*int(math.Ceil(support)) + 1
	t.first, t.count = resizeInts(t.first, n), resizeInts(t.count, n)
	t.weights = resizeInts(t.weights, n*t.most)
	for i := range n {
		if f == nearest {
			continue // placeNearest
		}
		center := float64(float64(float64(begin+i)+0.5) * ratio)
		first := max(0, int(center-support+0.5))
		count := min(in, int(center+support+0.5)) - first
		t.first[i], t.count[i] = int32(first), int32(count)
		weighTaps(f, t.weights[i*t.most:][:count], float64(first)-center+0.5, 1/scale)
	}
}

// weighTaps computes the weights of an output whose first source has this offset from its center.
func weighTaps(f resampling, to []int32, offset, inverse float64) {
	sum := 0.0
	for i := range to {
		sum += f.at(float64(float64(float64(i)+offset) * inverse))
	}
	for i := range to {
		w := f.at(float64(float64(float64(i)+offset) * inverse))
		if sum != 0 {
			w /= sum
		}
		w = float64(w * (1 << precision))
		if w < 0 {
			to[i] = int32(w - 0.5)
		} else {
			to[i] = int32(w + 0.5)
		}
	}
}

// placeNearest computes the sources of outputs from begin to end.
func (t *taps) placeNearest(in, out, begin, end int) {
	ratio := float64(in) / float64(out)
	t.first = resizeInts(t.first, end-begin)
	x := float64(ratio * 0.5)
	for i := range end {
		if i >= begin {
			t.first[i-begin] = int32(min(int(x), in-1))
		}
		x += ratio
	}
}

func resizeInts(x []int32, n int) []int32 {
	if cap(x) < n {
		return make([]int32, n)
	}
	return x[:n]
}

// clamped returns a sum of bytes times weights as a byte.
func clamped(sum int32) byte {
	return byte(max(0, min(255, sum>>precision)))
}

// half is half of the last place, which is added to sums before their fraction is cut off.
const half = 1 << (precision - 1)

// row resamples a row: to gets the outputs of t from the pixels of from, of 3 bytes each.
func (t *taps) row(to, from []byte) {
	for i := range t.first {
		r, g, b := int32(half), int32(half), int32(half)
		at := 3 * int(t.first[i])
		for _, w := range t.weights[i*t.most:][:t.count[i]] {
			p := from[at : at+3 : at+3]
			r, g, b = r+int32(p[0])*w, g+int32(p[1])*w, b+int32(p[2])*w
			at += 3
		}
		to[3*i], to[3*i+1], to[3*i+2] = clamped(r), clamped(g), clamped(b)
	}
}

// column resamples output i of columns: to gets a row of the rows of from, which begin with row
// first and are as long as to.
func (t *taps) column(to []byte, i int, from []byte, first int, sums []int32) {
	for j := range sums {
		sums[j] = half
	}
	for k, w := range t.weights[i*t.most:][:t.count[i]] {
		row := from[(int(t.first[i])+k-first)*len(to):][:len(to)]
		for j, x := range row {
			sums[j] += int32(x) * w
		}
	}
	for j, s := range sums {
		to[j] = clamped(s)
	}
}
