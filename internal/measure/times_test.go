package measure

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	all := []int{9, 1, 5, 3, 7, 2, 8, 4, 6, 10}
	for q, want := range map[float64]int{0: 1, 0.05: 1, 0.1: 1, 0.11: 2, 0.5: 5, 0.99: 10, 1: 10} {
		if got := Quantile(all, q); got != want {
			t.Errorf("the quantile of %g is %d, want %d", q, got, want)
		}
	}
	if all[0] != 9 || Median(all) != 5 || Median([]int{2, 1}) != 1 || Median[int](nil) != 0 {
		t.Errorf("the median of %d is %d", all, Median(all))
	}
}

// Calls are repeated for a time, and some times at least; an error ends that.
func TestRepeat(t *testing.T) {
	n, before := 0, 0
	call := func() error { n++; return nil }
	times, err := Repeat(0, 3, func() { before++ }, call)
	if err != nil || len(times) != 3 || n != 3 || before != 3 {
		t.Errorf("%d times of %d calls, %d before: %v", len(times), n, before, err)
	}
	start := time.Now()
	if times, err = Repeat(5*time.Millisecond, 0, nil, call); err != nil || len(times) < 2 ||
		time.Since(start) < 5*time.Millisecond {
		t.Errorf("%d calls in %v: %v", len(times), time.Since(start), err)
	}
	if _, err := Repeat(time.Hour, 3, nil, func() error { return io.EOF }); !errors.Is(err, io.EOF) {
		t.Errorf("error %v", err)
	}
}

// Only complete rounds count.
func TestCompleteRounds(t *testing.T) {
	for fails, want := range map[int]string{0: "[[1 2 3] [10 20 30]] <nil>",
		3: "[[1 2] [10 20]] EOF"} {
		n := time.Duration(0)
		got, err := Rounds(func() bool { n++; return n <= 3 },
			func() (time.Duration, error) { return n, nil },
			func() (time.Duration, error) {
				if int(n) == fails {
					return 0, io.EOF
				}
				return 10 * n, nil
			})
		numbers := make([][]int64, len(got))
		for i, all := range got {
			for _, x := range all {
				numbers[i] = append(numbers[i], int64(x))
			}
		}
		if text := fmt.Sprint(numbers, " ", err); text != want {
			t.Errorf("%s, want %s", text, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for want, ns := range map[string]float64{"12 ns": 12, "12.3 µs": 12345, "12.35 ms": 12.345e6,
		"123.5 ms": 123.46e6, "12.35 s": 12.345e9} {
		if got := Duration(ns); got != want {
			t.Errorf("%v ns are %s, want %s", ns, got, want)
		}
	}
}

func TestHere(t *testing.T) {
	if e := Here(); e.CPU == "" || e.GOOS == "" || e.GOARCH == "" || e.Go == "" || e.NumCPU < 1 {
		t.Errorf("%+v", e)
	}
}
