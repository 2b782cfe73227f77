package f32

// Lanes is the number of chains that Chains computes side by side. One chain alone waits for each
// of its sums.
const Lanes = 8

// Chains continues chains of FMA, in the order of a:
//
//	sum_i = FMA(a_x, b[x·stride + i], sum_i)
func Chains(sum *[Lanes]float32, a, b []float32, stride int) {
	if fuses {
		fusedChains(sum, a, b, stride)
		return
	}
	emulatedChains(sum, a, b, stride)
}

// emulatedChains has one branch for the rare cases of all lanes.
func emulatedChains(sum *[Lanes]float32, a, b []float32, stride int) {
	s0, s1, s2, s3, s4, s5, s6, s7 := lanesOf(sum)
	for x, e := range a {
		y, wide := (*[Lanes]float32)(b[x*stride:]), float64(e)
		t0, rare0 := sumInFloat64(wide, y[0], s0)
		t1, rare1 := sumInFloat64(wide, y[1], s1)
		t2, rare2 := sumInFloat64(wide, y[2], s2)
		t3, rare3 := sumInFloat64(wide, y[3], s3)
		t4, rare4 := sumInFloat64(wide, y[4], s4)
		t5, rare5 := sumInFloat64(wide, y[5], s5)
		t6, rare6 := sumInFloat64(wide, y[6], s6)
		t7, rare7 := sumInFloat64(wide, y[7], s7)
		if rare0|rare1|rare2|rare3|rare4|rare5|rare6|rare7 < 0 {
			s0, s1 = emulated(e, y[0], s0), emulated(e, y[1], s1)
			s2, s3 = emulated(e, y[2], s2), emulated(e, y[3], s3)
			s4, s5 = emulated(e, y[4], s4), emulated(e, y[5], s5)
			s6, s7 = emulated(e, y[6], s6), emulated(e, y[7], s7)
			continue
		}
		s0, s1, s2, s3 = float32(t0), float32(t1), float32(t2), float32(t3)
		s4, s5, s6, s7 = float32(t4), float32(t5), float32(t6), float32(t7)
	}
	sum[0], sum[1], sum[2], sum[3], sum[4], sum[5], sum[6], sum[7] = s0, s1, s2, s3, s4, s5, s6, s7
}

func lanesOf(x *[Lanes]float32) (x0, x1, x2, x3, x4, x5, x6, x7 float32) {
	return x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
}
