package embed

import (
	"fmt"
	"math"
	"slices"
)

// reference computes an embedding of length 1 in float64, of one or more poolings side by side.
func (w numbers) reference(ids []int, modes ...string) (out []float64) {
	rows := w.rows(ids)
	for _, mode := range modes {
		out = append(out, pooled(rows, mode)...)
	}
	return scaled(out, 1/math.Sqrt(dot(out, out)))
}

func pooled(rows [][]float64, mode string) []float64 {
	n := float64(len(rows))
	sum, weighted := make([]float64, 30), make([]float64, 30)
	most := slices.Clone(rows[0])
	for i, row := range rows {
		sum, weighted = plus(sum, row), plus(weighted, scaled(row, float64(i+1)))
		for j := range row {
			most[j] = max(most[j], row[j])
		}
	}
	return map[string][]float64{"cls": rows[0], "lasttoken": rows[len(rows)-1], "max": most,
		"mean": scaled(sum, 1/n), "mean_sqrt_len_tokens": scaled(sum, 1/math.Sqrt(n)),
		"weightedmean": scaled(weighted, 2/(n*(n+1)))}[mode]
}

// rows computes what the encoder makes of tokens in float64, one token and one number at a time, as
// the paper says it.
func (w numbers) rows(ids []int) [][]float64 { return w.rowsThatSee(ids, len(ids)) }

// rowsThatSee has only the first tokens as keys.
func (w numbers) rowsThatSee(ids []int, seen int) [][]float64 {
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
		attended := w.attention(at, x, seen)
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
	return x
}

// attention has three heads of ten.
func (w numbers) attention(at string, x [][]float64, seen int) [][]float64 {
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
			for j := range seen {
				e := math.Exp(dot(q[i][h:h+10], k[j][h:h+10]) / math.Sqrt(10))
				head, total = plus(head, scaled(v[j][h:h+10], e)), total+e
			}
			row = append(row, scaled(head, 1/total)...)
		}
		out = append(out, row)
	}
	return out
}

func (w numbers) linear(name string, x []float64) []float64 {
	matrix, bias := w[name+".weight"], w[name+".bias"]
	out := make([]float64, len(matrix)/len(x))
	for i := range out {
		if out[i] = dot(matrix[i*len(x):][:len(x)], x); bias != nil {
			out[i] += bias[i]
		}
	}
	return out
}

func (w numbers) normalize(name string, x []float64) []float64 {
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
