package cluster

import (
	"testing"
	"time"
)

// What a worker is after some signs, each some time after the one before.
func TestHealth(t *testing.T) {
	c := ClientConfig{Patience: time.Second, Gone: 4 * time.Second}
	type step struct {
		after time.Duration
		sign  sign // none if it is signs
		want  health
	}
	second := time.Second
	for name, steps := range map[string][]step{
		"silent":            {{3 * second, signs, well}, {second, signs, quiet}, {0, heardOf, well}},
		"late, then better": {{0, overdue, slow}, {2 * second, heardOf, slow}, {second, signs, well}},
		"late, then silent": {{0, overdue, slow}, {2 * second, signs, slow}, {2 * second, signs, quiet}},
		"restarts":          {{0, nobody, absent}, {2 * second, heardOf, well}},
		"dies":              {{0, nobody, absent}, {4 * second, signs, deserted}, {0, nobody, dead}},
		"dies when it was long silent": {{9 * second, nobody, deserted},
			{3 * second, nobody, deserted}, {second, nobody, dead}},
		"comes back from the dead": {{9 * second, nobody, deserted}, {4 * second, nobody, dead},
			{time.Hour, signs, dead}, {0, heardOf, well}},
		"hangs after it was not there": {{0, nobody, absent}, {second, overdue, slow},
			{4 * second, signs, quiet}, {time.Hour, signs, quiet}},
		"hangs where nobody listened": {{9 * second, nobody, deserted}, {second, overdue, quiet},
			{4 * second, nobody, deserted}},
		"is not dead because the clock jumps": {{0, nobody, absent}, {time.Hour, signs, deserted}},
	} {
		now := time.Unix(1, 0)
		x := condition{heard: now}
		for i, s := range steps {
			now = now.Add(s.after)
			if s.sign != signs {
				x.note(s.sign, now, &c)
			}
			if got := x.at(now, &c); got != s.want {
				t.Errorf("a worker that %s is %d after step %d, want %d", name, got, i, s.want)
			}
		}
	}
}
