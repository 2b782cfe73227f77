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
	for name, steps := range map[string][]step{
		"silent":            {{3 * time.Second, signs, well}, {time.Second, signs, quiet}, {0, heardOf, well}},
		"late, then better": {{0, late, slow}, {2 * time.Second, heardOf, slow}, {time.Second, signs, well}},
		"late, then silent": {{0, late, slow}, {2 * time.Second, signs, slow}, {2 * time.Second, signs, quiet}},
		"restarts":          {{0, nobody, absent}, {2 * time.Second, heardOf, well}},
		"dies":              {{0, nobody, absent}, {4 * time.Second, signs, deserted}, {0, nobody, dead}},
		"dies when it was long silent": {{9 * time.Second, nobody, deserted},
			{3 * time.Second, nobody, deserted}, {time.Second, nobody, dead}},
		"comes back from the dead": {{9 * time.Second, nobody, deserted}, {4 * time.Second, nobody, dead},
			{time.Hour, signs, dead}, {0, heardOf, well}},
		"hangs after it was not there": {{0, nobody, absent}, {time.Second, late, slow},
			{4 * time.Second, signs, quiet}, {time.Hour, signs, quiet}},
		"hangs where nobody listened": {{9 * time.Second, nobody, deserted}, {time.Second, late, quiet},
			{4 * time.Second, nobody, deserted}},
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
