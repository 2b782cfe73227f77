package generate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// instructions are some, each in a line, of a name and numbers.
func instructions(name string, n int) (text string) {
	for i := range n {
		text += fmt.Sprintf("\t%s %d(AX), %d(BX), Y%d\n", name, 32*i, 32*i, i)
	}
	return text
}

// What comes several times is a macro, the longest first, and never over a line that has to stay.
func TestRepeats(t *testing.T) {
	a, b, c := instructions("VADDPS", 30), instructions("VMULPS", 12), instructions("VXORPS", 2)
	const one, two, stays = "TEXT ·oneVNNISIMD(SB)\n", "TEXT ·twoAVX512(SB)\n", "\tJMP end\n"
	for _, x := range []struct{ text, kept string }{
		{one + a + b, one + a + b},                         // once
		{one + c + "\tRET\n" + c, one + c + "\tRET\n" + c}, // too short
		{one + a + c + two + a, one + "\tone_part1\n" + c + two + "\tone_part1\n"},
		{one + c + two + a + b + stays + a + b,
			one + c + two + "\ttwo_part1\n" + stays + "\ttwo_part1\n"},
		{one + a + stays + b + two + b + stays + a,
			one + "\tone_part1\n" + stays + "\tone_part2\n" + two + "\tone_part2\n" + stays +
				"\tone_part1\n"},
		// What is left of a sequence beside others is one of its own.
		{one + a + b + stays + a + b + stays + b + stays + b,
			one + "\tone_part1\n" + stays + "\tone_part1\n" + stays + "\tone_part2\n" + stays +
				"\tone_part2\n"},
		{one + a + a + a, one + strings.Repeat("\tone_part1\n", 3)}, // side by side
	} {
		definitions, rest := Repeats([]byte(x.text), func(line string) bool {
			return strings.HasPrefix(line, "\tV")
		})
		if string(rest) != x.kept {
			t.Errorf("%s\nbecame\n%s\nwant\n%s", x.text, rest, x.kept)
		}
		got := strings.TrimLeft(string(Expanded(slices.Concat(definitions, rest))), "\n")
		if got = strings.ReplaceAll(got, "; ", "\n\t"); got != x.text {
			t.Errorf("%s\nis with its macros\n%s", x.text, got)
		}
		for line := range strings.SplitSeq(string(definitions), "\n") {
			if len(line) > 100 {
				t.Errorf("%d columns, want at most 100: %s", len(line), line)
			}
		}
	}
}
