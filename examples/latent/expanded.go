package main

import "math"

// expanded is the layer as its definition has it, in float64: every head has keys and values of its
// own for every token, which its matrices make of the latent vector.
func (l *layer) expanded(x []float32) (out []float64) {
	n := len(x) / l.dim
	q, c := multiply(wide(x), wide(l.query), n), multiply(wide(x), wide(l.down), n)
	width, mixed := l.latent+l.rotary, make([]float64, n*l.heads*l.value)
	for i := range n {
		row := c[i*width:][:width]
		l.normalise(row[:l.latent])
		l.turn(row[l.latent:], i)
		for h := range l.heads {
			l.turn(q[(i*l.heads+h)*l.keyChannel:][l.plain:l.keyChannel], i)
		}
	}
	for h := range l.heads {
		for i := range n {
			query := q[(i*l.heads+h)*l.keyChannel:][:l.keyChannel]
			l.attend(mixed[(i*l.heads+h)*l.value:][:l.value], query, c[:(i+1)*width], h)
		}
	}
	return multiply(mixed, wide(l.output), n)
}

// attend is a head's softmax(q·Kᵀ/√keyChannel)·V over tokens of which it has the latent vectors.
func (l *layer) attend(dst, q, c []float64, h int) {
	up, valueUp := wide(l.keyUp)[h*l.plain*l.latent:], wide(l.valueUp)[h*l.latent*l.value:]
	var sum float64
	for ; len(c) > 0; c = c[l.latent+l.rotary:] {
		latent, score := c[:l.latent], 0.0
		for x, e := range q[:l.plain] { // key channel x is Σ up_xy·latent_y
			for y, u := range up[x*l.latent:][:l.latent] {
				score += e * u * latent[y]
			}
		}
		for x, e := range q[l.plain:] {
			score += e * c[l.latent+x]
		}
		weight := math.Exp(score / math.Sqrt(float64(l.keyChannel)))
		sum += weight
		for y, e := range latent {
			for v := range dst {
				dst[v] += weight * e * valueUp[y*l.value+v]
			}
		}
	}
	for v := range dst {
		dst[v] /= sum
	}
}

func (l *layer) normalise(x []float64) {
	var sum float64
	for _, e := range x {
		sum += e * e
	}
	for i, w := range l.norm {
		x[i] *= float64(w) / math.Sqrt(sum/float64(len(x))+1e-6)
	}
}

func (l *layer) turn(x []float64, position int) {
	for i, turn := range l.turns {
		sin, cos := math.Sincos(turn * float64(position))
		a, b := x[i], x[i+len(l.turns)]
		x[i], x[i+len(l.turns)] = a*cos-b*sin, b*cos+a*sin
	}
}

// multiply is a [n, inner] times w [inner, columns].
func multiply(a, w []float64, n int) []float64 {
	inner := len(a) / n
	cols := len(w) / inner
	out := make([]float64, n*cols)
	for r := range n {
		for k, e := range a[r*inner:][:inner] {
			for c := range cols {
				out[r*cols+c] += e * w[k*cols+c]
			}
		}
	}
	return out
}

// wide is x in float64.
func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, e := range x {
		y[i] = float64(e)
	}
	return y
}
