package main

import (
	"fmt"
	"math"
)

// reference computes an embedding in float64, one token and one number at a time, as the paper says
// it.
func (w weights) reference(ids []int, cls bool) []float64 {
	var x [][]float64
	for i, id := range ids {
		row := make([]float64, 30)
		for j := range row {
			row[j] = w["embeddings.word_embeddings.weight"][id*30+j] +
				w["embeddings.position_embeddings.weight"][i*30+j] +
				w["embeddings.token_type_embeddings.weight"][j]
		}
		x = append(x, w.normalize("embeddings.LayerNorm", row))
	}
	for layer := range 2 {
		at := fmt.Sprintf("encoder.layer.%d.", layer)
		attended := w.attention(at, x)
		for i := range x {
			x[i] = w.normalize(at+"attention.output.LayerNorm",
				plus(x[i], w.linear(at+"attention.output.dense", attended[i])))
			inner := w.linear(at+"intermediate.dense", x[i])
			for j, v := range inner {
				inner[j] = v / 2 * (1 + math.Erf(v/math.Sqrt2))
			}
			x[i] = w.normalize(at+"output.LayerNorm", plus(x[i], w.linear(at+"output.dense", inner)))
		}
	}
	sum := x[0]
	for i := 1; i < len(x) && !cls; i++ {
		sum = plus(sum, x[i])
	}
	return scaled(sum, 1/math.Sqrt(dot(sum, sum)))
}

// attention has three heads of ten.
func (w weights) attention(at string, x [][]float64) [][]float64 {
	var q, k, v, out [][]float64
	for _, row := range x {
		q = append(q, w.linear(at+"attention.self.query", row))
		k = append(k, w.linear(at+"attention.self.key", row))
		v = append(v, w.linear(at+"attention.self.value", row))
	}
	for i := range x {
		var row []float64
		for h := 0; h < 30; h += 10 {
			head, total := make([]float64, 10), 0.0
			for j := range x {
				e := math.Exp(dot(q[i][h:h+10], k[j][h:h+10]) / math.Sqrt(10))
				head, total = plus(head, scaled(v[j][h:h+10], e)), total+e
			}
			row = append(row, scaled(head, 1/total)...)
		}
		out = append(out, row)
	}
	return out
}

func (w weights) linear(name string, x []float64) []float64 {
	matrix, out := w[name+".weight"], append([]float64(nil), w[name+".bias"]...)
	for i := range out {
		out[i] += dot(matrix[i*len(x):][:len(x)], x)
	}
	return out
}

func (w weights) normalize(name string, x []float64) []float64 {
	mean, variance, out := 0.0, 0.0, make([]float64, len(x))
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x))
	}
	for i, v := range x {
		out[i] = (v-mean)/math.Sqrt(variance+1e-5)*w[name+".weight"][i] + w[name+".bias"][i]
	}
	return out
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func plus(a, b []float64) []float64 {
	sum := make([]float64, len(a))
	for i := range a {
		sum[i] = a[i] + b[i]
	}
	return sum
}

func scaled(a []float64, by float64) []float64 {
	product := make([]float64, len(a))
	for i := range a {
		product[i] = a[i] * by
	}
	return product
}
