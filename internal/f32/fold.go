package f32

// Fold sums lanes in halves, lane t with lane t + half: 16 → 8 → 4 → 2 → 1.
func Fold(lane []float32) float32 {
	for half := len(lane) / 2; half > 0; half /= 2 {
		for t := range half {
			lane[t] += lane[t+half]
		}
	}
	return lane[0]
}
