package inspect

import "testing"

// Times have three digits in a unit that people read.
func TestThreeDigits(t *testing.T) {
	for ns, want := range map[float64]string{0: "0s", 181.6: "182ns", 839_433: "839µs",
		2.1049e6: "2.1ms", 23_914_000: "23.9ms", 382e6: "382ms", 12.345e9: "12.3s"} {
		if got := threeDigits(ns).String(); got != want {
			t.Errorf("%v ns are %s, want %s", ns, got, want)
		}
	}
}
