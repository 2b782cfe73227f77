package limits

import "testing"

// The clock goes on, by steps far below what is measured with it.
func TestNow(t *testing.T) {
	most := 0
	for range 100 { // in some of these milliseconds somebody else may have the processor
		last, steps := Now(), 0
		for begin := last; last-begin < 1e6; steps++ {
			now := Now()
			for now == last {
				now = Now()
			}
			if now < last {
				t.Fatalf("%v after %v", now, last)
			}
			last = now
		}
		most = max(most, steps)
	}
	if most < 100 {
		t.Errorf("%d steps in a millisecond, want at least 100", most)
	}
}
