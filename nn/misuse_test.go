package nn

import (
	"math"
	"testing"

	"github.com/seed-1415985d/attn"
)

// Arguments that are not understood are errors that name them, and nothing is written.
func TestMisuse(t *testing.T) {
	const l, d = 3, 8
	dst, x, y := zeros(1, 1, l, d), zeros(1, 1, l, d), zeros(1, 1, l, d)
	for i := range x.Data {
		x.Data[i], y.Data[i], dst.Data[i] = 1, 2, 7
	}
	buffer := make([]float32, 2*l*d)
	first, second := attn.BHLD(buffer, 1, 1, l, d), attn.BHLD(buffer[d:], 1, 1, l, d)
	wrong := zeros(1, 1, l, d+1)
	short := attn.Tensor{Data: x.Data[1:], B: 1, H: 1, L: l, D: d}
	repeated := attn.Tensor{Data: dst.Data, B: 1, H: 1, L: l, D: d, SB: 1, SH: 1, SL: attn.Broadcast}
	weight := make([]float32, d)
	rope, err := NewRope(RopeConfig{Dim: d, Base: 1e4})
	must(t, err)
	table := make([]float32, 2*l*d)
	tables, err := NewRopeTables(RopeConfig{Dim: d}, table[:l*d/2], table[l*d/2:][:l*d/2])
	must(t, err)
	taps := make([]float32, 3*l*d)
	conv, err := NewConv(ConvConfig{Channels: d, Width: 2, Weight: taps[:2*d], Bias: taps[2*d:][:d]})
	must(t, err)
	other, err := NewConv(ConvConfig{Channels: d, Width: 2, Weight: make([]float32, 2*d)})
	must(t, err)
	at := func(list []float32) attn.Tensor { return attn.BHLD(list, 1, 1, l, d) }
	kinds, err := NewRope(RopeConfig{Dim: d, Base: 1e4, Scaling: RopeScaling{Sections: []int{1, 3}}})
	must(t, err)
	long, err := NewRope(RopeConfig{Dim: 2 * d, Base: 1e4})
	must(t, err)
	for _, c := range []struct {
		err, kind error
		text      string
	}{
		{RMSNorm(nil, dst, wrong, nil, 0), attn.ErrShape, "dst is [1 1 3 8], want [1 1 3 9] as x is"},
		{RMSNorm(nil, dst, short, nil, 0), attn.ErrLength, "len(x.Data) is 23"},
		{RMSNorm(nil, repeated, x, nil, 0), attn.ErrStride, "dst has a stride of Broadcast"},
		{RMSNorm(nil, dst, x, weight[1:], 0), attn.ErrLength, "len(weight) is 7, want D, 8"},
		{RMSNorm(nil, dst, x, []float32{}, 0), attn.ErrLength, "len(weight) is 0, want D, 8"},
		{RMSNorm(nil, dst, x, dst.Data[:d], 0), attn.ErrOverlap, "dst overlaps weight"},
		{RMSNorm(nil, dst, x, nil, -1), attn.ErrOption, "eps is -1"},
		{RMSNorm(nil, dst, x, nil, nan), attn.ErrOption, "eps is NaN"},
		{L2Norm(nil, dst, x, inf), attn.ErrOption, "eps is +Inf"},
		{L2Norm(nil, second, first, 0), attn.ErrOverlap,
			"dst overlaps x, want separate memory or exactly the same elements"},
		{LayerNorm(nil, dst, x, nil, weight[1:], 0), attn.ErrLength, "len(bias) is 7"},
		{LayerNorm(nil, dst, x, nil, dst.Data[:d], 0), attn.ErrOverlap, "dst overlaps bias"},
		{Add(nil, dst, x, wrong), attn.ErrShape, "want [1 1 3 8] as a is"},
		{Add(nil, second, x, first), attn.ErrOverlap, "dst overlaps b"},
		{Softmax(nil, dst, wrong), attn.ErrShape, "dst is [1 1 3 8], want [1 1 3 9] as x is"},
		{Softmax(nil, second, first), attn.ErrOverlap, "dst overlaps x"},
		{AddRMSNorm(nil, dst, dst, x, y, nil, 0), attn.ErrOverlap,
			"dst overlaps sum, want separate memory"},
		{AddRMSNorm(nil, dst, repeated, x, y, nil, 0), attn.ErrStride, "sum has a stride of Broadcast"},
		{Activate(nil, dst, x, -1), attn.ErrOption, "a is Activation(-1), want None to QuickGELU"},
		{Activate(nil, dst, x, activations), attn.ErrOption, "a is Activation(11)"},
		{Gate(nil, dst, x, y, activations), attn.ErrOption, "a is Activation(11)"},
		{Gate(nil, dst, x, wrong, SiLU), attn.ErrShape, "up is [1 1 3 9]"},
		{GateClamped(nil, dst, x, y, 0, 7), attn.ErrOption, "alpha is 0"},
		{GateClamped(nil, dst, x, y, inf, 7), attn.ErrOption, "alpha is +Inf"},
		{GateClamped(nil, dst, x, y, 1, 0), attn.ErrOption, "limit is 0"},
		{GateClamped(nil, dst, x, y, 1, nan), attn.ErrOption, "limit is NaN"},
		{GateClamped(nil, second, x, first, 1, 1), attn.ErrOverlap, "dst overlaps up"},
		{rope.Rotate(nil, wrong, x, nil), attn.ErrShape, "dst is [1 1 3 9]"},
		{long.Rotate(nil, dst, x, nil), attn.ErrShape, "x.D is 8, want at least RopeConfig.Dim, 16"},
		{rope.Rotate(nil, dst, x, make([]int32, 2)), attn.ErrLength, "len(positions) is 2, want L, 3"},
		{kinds.Rotate(nil, dst, x, make([]int32, 3)), attn.ErrLength,
			"len(positions) is 3, want 2 kinds·B·L, 6"},
		{tables.Rotate(nil, at(table[l*d/2-1:]), x, nil), attn.ErrOverlap,
			"dst overlaps cos, want separate memory"},
		{tables.Inverse(nil, at(table[l*d-1:]), x, nil), attn.ErrOverlap, "dst overlaps sin"},
		{conv.Append(nil, at(taps), x), attn.ErrOverlap, "dst overlaps ConvConfig.Weight"},
		{conv.Append(nil, at(taps[3*d-1:]), x), attn.ErrOverlap, "dst overlaps ConvConfig.Bias"},
		{AppendConvs(nil, at(taps), x, []*Conv{other, conv}, []int{1, 2}), attn.ErrOverlap,
			"dst overlaps ConvConfig.Weight of convs[1]"},
		{conv.Read(attn.BHLD(taps, 1, 1, 1, d)), attn.ErrOverlap, "x overlaps ConvConfig.Weight"},
		{AppendConvs(nil, dst, x, []*Conv{conv, nil}, []int{1, 2}), attn.ErrOption,
			"convs[1] is nil, want a convolution"},
		{rope.Rotate(nil, dst, x, []int32{0, -1, 2}), attn.ErrOption,
			"positions[1] is -1, want 0 to 268435456"},
		{rope.Inverse(nil, dst, x, []int32{0, 1, 1<<28 + 1}), attn.ErrOption,
			"positions[2] is 268435457"},
	} {
		mustFail(t, c.err, c.kind, c.text)
	}
	for i, e := range dst.Data {
		if e != 7 || buffer[i] != 0 {
			t.Fatal("a call that failed has written")
		}
	}
	// Columns of rows of one pitch are apart.
	columns := make([]float32, l*3*d)
	must(t, Add(nil, attn.Rows(columns, 1, l, 1, d, 3*d), attn.Rows(columns[d:], 1, l, 1, d, 3*d),
		attn.Rows(columns[2*d:], 1, l, 1, d, 3*d)))
}

func TestRopeMisuse(t *testing.T) {
	nine := make([]float64, 9)
	for _, c := range []struct {
		config RopeConfig
		kind   error
		text   string
	}{
		{RopeConfig{Dim: 7, Base: 1e4}, attn.ErrShape, "RopeConfig.Dim is 7, want an even number"},
		{RopeConfig{Base: 1e4}, attn.ErrShape, "RopeConfig.Dim is 0"},
		{RopeConfig{Dim: 8}, attn.ErrOption, "RopeConfig.Base is 0, want 1 to 1e+300"},
		{RopeConfig{Dim: 8, Base: math.NaN()}, attn.ErrOption, "RopeConfig.Base is NaN"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Type: 9}}, attn.ErrOption,
			"RopeScaling.Type is RopeScalingType(9)"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Factor: 2}}, attn.ErrOption,
			"RopeScaling.Factor is 2, want 0 for NoScaling"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Type: LinearScaling}}, attn.ErrOption,
			"RopeScaling.Factor is 0, want a positive number"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Type: LinearScaling, Factor: 0.5}},
			attn.ErrOption, "RopeScaling.Factor is 0.5, want 1 or more"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Type: LinearScaling, Factor: 2, Original: 3}},
			attn.ErrOption, "RopeScaling.Original is 3, want 0 for LinearScaling"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Type: NTK, Factor: 2, Original: 3}},
			attn.ErrOption, "RopeScaling.Length is 0, want a positive number"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Type: NTK, Factor: 2, Original: 1 << 29,
			Length: 1}}, attn.ErrOption, "RopeScaling.Original is 536870912"},
		{RopeConfig{Dim: 4, Base: 1e300, Scaling: RopeScaling{Type: NTK, Factor: 1e9, Original: 1,
			Length: 1 << 28}}, attn.ErrOption, "RopeScaling makes the base"},
		{RopeConfig{Dim: 8, Base: 1, Scaling: RopeScaling{Type: YaRN, Factor: 2, Original: 3}},
			attn.ErrOption, "RopeConfig.Base is 1, want more for YaRN"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Type: YaRN, Factor: 2, Original: 3,
			BetaSlow: 32}},
			attn.ErrOption, "RopeScaling.BetaFast is 32, want more than BetaSlow, 32"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Type: Llama3, Factor: 2, Original: 3,
			LowFreqFactor: 4, HighFreqFactor: 4}}, attn.ErrOption, "RopeScaling.HighFreqFactor is 4"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Factors: nine}}, attn.ErrOption,
			"RopeScaling.Factors has 9 numbers, want nil"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Type: LongRope, Factors: nine}},
			attn.ErrLength, "len(RopeScaling.Factors) is 9, want Dim/2, 4"},
		{RopeConfig{Dim: 18, Base: 1e4, Scaling: RopeScaling{Type: LongRope, Factors: nine}},
			attn.ErrOption, "RopeScaling.Factors[0] is 0, want a positive number"},
		{RopeConfig{Dim: 2, Base: 1e4, Scaling: RopeScaling{Type: LongRope, Factors: []float64{1e-9}}},
			attn.ErrOption, "RopeScaling.Factors[0] is 1e-09, want more"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Sections: []int{1, 2}}}, attn.ErrOption,
			"RopeScaling.Sections are 3 pairs, want Dim/2, 4"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Sections: []int{5, -1}}}, attn.ErrOption,
			"RopeScaling.Sections[0] is 5"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Interleave: true}}, attn.ErrOption,
			"RopeScaling.Interleave is true and Restart false, want false without Sections"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Restart: true}}, attn.ErrOption,
			"RopeScaling.Interleave is false and Restart true, want false without Sections"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Sections: []int{2, 2}, Interleave: true,
			Restart: true}}, attn.ErrOption, "RopeScaling.Interleave and Restart are true, want one"},
		{RopeConfig{Dim: 16, Base: 1e4, Scaling: RopeScaling{Sections: []int{2, 4, 2},
			Interleave: true}}, attn.ErrOption, "RopeScaling.Sections[1] is 4, want at most 3, which " +
			"pairs 1, 4 and so on below Dim/2, 8, are"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Type: YaRN, Factor: 2, Original: 3,
			Sections: []int{2, 2}, Restart: true}}, attn.ErrOption,
			"RopeScaling.Restart is true, want false for YaRN"},
		{RopeConfig{Dim: 8, Base: 1e4, Scaling: RopeScaling{Type: NTK, Factor: 2, Original: 3, Length: 3,
			Sections: []int{2, 2}, Restart: true}}, attn.ErrOption,
			"RopeScaling.Restart is true, want false for NTK"},
	} {
		_, err := NewRope(c.config)
		mustFail(t, err, c.kind, c.text)
	}
	table := make([]float32, 12)
	for _, c := range []struct {
		config   RopeConfig
		cos, sin []float32
		kind     error
		text     string
	}{
		{RopeConfig{Dim: 7}, table, table, attn.ErrShape, "RopeConfig.Dim is 7"},
		{RopeConfig{Dim: 8, Base: 1e4}, table, table, attn.ErrOption, "RopeConfig.Base is 10000, want 0"},
		{RopeConfig{Dim: 8, Scaling: RopeScaling{Type: LinearScaling, Factor: 2}}, table, table,
			attn.ErrOption, "RopeScaling.Type is LinearScaling, want NoScaling with tables"},
		{RopeConfig{Dim: 8, Scaling: RopeScaling{AttentionFactor: 2}}, table, table, attn.ErrOption,
			"RopeScaling.AttentionFactor is 2, want 0"},
		{RopeConfig{Dim: 8, Scaling: RopeScaling{Sections: []int{1}}}, table, table, attn.ErrOption,
			"RopeScaling.Sections are 1 pairs"},
		{RopeConfig{Dim: 8, Scaling: RopeScaling{Sections: []int{2, 2}, Restart: true}}, table, table,
			attn.ErrOption, "RopeScaling.Restart is true, want false with tables"},
		{RopeConfig{Dim: 8, Scaling: RopeScaling{Interleave: true}}, table, table, attn.ErrOption,
			"RopeScaling.Interleave is true and Restart false, want false without Sections"},
		{RopeConfig{Dim: 8}, table[:8], table, attn.ErrLength, "len(cos) is 8 and len(sin) 12"},
		{RopeConfig{Dim: 10}, table, table, attn.ErrLength, "want a multiple of Dim/2, 5"},
	} {
		_, err := NewRopeTables(c.config, c.cos, c.sin)
		mustFail(t, err, c.kind, c.text)
	}
}
