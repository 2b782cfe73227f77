package attn

import "math"

// The textbook: what a user would write who knows the definition and nothing of rounding.
// In float32 it is what the library is measured against, in float64 the truth. Each rounding is
// spelled out, because compilers may fuse x*y+z, and would only on some CPUs.

// textbookRows computes output and log-sum-exp of each row of a problem with one batch entry and
// one key/value head. Of the options it knows those that change numbers: Scale, Softcap, Bias,
// Slopes, Sinks, and TopLeft with Offset.
func textbookRows[F float32 | float64](p *problem) (o, lse []F) {
	s, w := make([]F, p.k.L), make([]F, p.k.L)
	for row := range p.q.H * p.q.L {
		h, i := row/p.q.L, row%p.q.L
		live := s[:p.textbookKeys(i)]
		textbookScores(p, live, h, i)
		lse = append(lse, textbookSoftmax(p, w[:len(live)], live, h))
		o = append(o, textbookValues(w[:len(live)], p.v.Data, p.v.D)...)
	}
	return o, lse
}

// textbookKeys is the number of keys that query i sees.
func (p *problem) textbookKeys(i int) int {
	if p.opt.Causal == TopLeft {
		return min(p.k.L, i+p.opt.Offset+1)
	}
	return p.k.L
}

// textbookScores is s_j = q·k_j·scale, then softcap, bias and slope, each step rounded.
func textbookScores[F float32 | float64](p *problem, s []F, h, i int) {
	textbookProducts(s, p.q.row(0, h, i), p.k.Data)
	scale := F(p.opt.Scale)
	if scale == 0 {
		scale = F(float32(1 / math.Sqrt(float64(p.q.D))))
	}
	for j := range s {
		s[j] = F(s[j] * scale)
		if c := F(p.opt.Softcap); c > 0 {
			s[j] = F(c * F(math.Tanh(float64(F(s[j]/c)))))
		}
		if p.opt.Bias != nil {
			s[j] += F(p.opt.Bias.row(0, h, i)[j])
		}
		if p.opt.Slopes != nil {
			s[j] += F(F(p.opt.Slopes[h]) * F(j-i-p.opt.Offset))
		}
	}
}

// textbookProducts is s_j = Σ_x q_x·k_jx in ascending order, each product and each sum rounded.
func textbookProducts[F float32 | float64](s []F, q, k []float32) {
	d, j := len(q), 0
	for ; j+4 <= len(s); j += 4 { // four sums side by side: one alone waits for itself
		k0, k1, k2, k3 := k[j*d:][:d], k[(j+1)*d:][:d], k[(j+2)*d:][:d], k[(j+3)*d:][:d]
		var s0, s1, s2, s3 F
		for x, e := range q {
			e := F(e)
			s0 += F(e * F(k0[x]))
			s1 += F(e * F(k1[x]))
			s2 += F(e * F(k2[x]))
			s3 += F(e * F(k3[x]))
		}
		s[j], s[j+1], s[j+2], s[j+3] = s0, s1, s2, s3
	}
	for ; j < len(s); j++ {
		s[j] = 0
		for x, e := range q {
			s[j] += F(F(e) * F(k[j*d+x]))
		}
	}
}

// textbookSoftmax is w_j = exp(s_j − m)/l. The sink counts in m and l, but not in the log-sum-exp.
func textbookSoftmax[F float32 | float64](p *problem, w, s []F, h int) (lse F) {
	m := F(math.Inf(-1))
	if p.opt.Sinks != nil {
		m = F(p.opt.Sinks[h])
	}
	for _, e := range s {
		m = max(m, e)
	}
	var l F
	for j, e := range s {
		w[j] = F(math.Exp(float64(F(e - m))))
		l += w[j]
	}
	lse = m + F(math.Log(float64(l)))
	if p.opt.Sinks != nil {
		l += F(math.Exp(float64(F(F(p.opt.Sinks[h]) - m))))
	}
	for j := range w {
		w[j] = F(w[j] / l)
	}
	return lse
}

// textbookValues is o_c = Σ_j w_j·v_jc in ascending order, each product and each sum rounded.
func textbookValues[F float32 | float64](w []F, v []float32, d int) []F {
	o, j := make([]F, d), 0
	for ; j+4 <= len(w); j += 4 { // four values for each time that a sum is loaded and stored
		w0, w1, w2, w3 := w[j], w[j+1], w[j+2], w[j+3]
		v0, v1, v2, v3 := v[j*d:][:len(o)], v[(j+1)*d:][:len(o)], v[(j+2)*d:][:len(o)],
			v[(j+3)*d:][:len(o)]
		for c := range o {
			o[c] = o[c] + F(w0*F(v0[c])) + F(w1*F(v1[c])) + F(w2*F(v2[c])) + F(w3*F(v3[c]))
		}
	}
	for ; j < len(w); j++ {
		for c := range o {
			o[c] += F(w[j] * F(v[j*d+c]))
		}
	}
	return o
}
