package generate

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Repeats puts a macro in the place of instructions that assembly has several times, one after the
// other, and returns the macros' definitions, each with an empty line behind it, and the rest. Part
// reports whether a line is an instruction that may be in a macro: labels, jumps, arguments and
// results stay in kernels, where readers and vet look for them. The machine code is the same, and a
// program's table of lines shorter, since all instructions of a macro are on the line of its use.
func Repeats(text []byte, part func(line string) bool) (definitions, rest []byte) {
	r := newRepeats(strings.Split(string(text), "\n"), part)
	for r.round() {
	}
	return r.written()
}

// A macro saves at least this number of bytes, and has at least this number of instructions: others
// are not worth that readers look them up.
const (
	least  = 150
	fewest = 3
)

// repeats are the lines of a file, and the sequences of them that become macros.
type repeats struct {
	lines   []string
	kernels []string   // in which each line is, without the ending that says what it needs
	codes   []int      // of the lines: equal ones have equal codes
	stays   []bool     // lines that are in no macro, or in the place of one already
	macros  []sequence // in the order in which they were found
}

// sequence is a number of lines, in one place or several.
type sequence struct {
	lines, saves int
	places       []int
}

// ending is that of a kernel's name.
var ending = regexp.MustCompile(`(?:VNNI)?(?:SIMD|AVX512|AMX)$`)

func newRepeats(lines []string, part func(line string) bool) *repeats {
	r := &repeats{lines: lines}
	codes, kernel := map[string]int{}, ""
	for i, line := range lines {
		if name := function.FindStringSubmatch(line); name != nil {
			kernel = ending.ReplaceAllString(name[1], "")
		}
		if _, seen := codes[line]; !seen {
			codes[line] = i
		}
		r.kernels = append(r.kernels, kernel)
		r.codes = append(r.codes, codes[line])
		r.stays = append(r.stays, !part(line))
	}
	return r
}

// round makes macros of the sequences that save most, and reports whether there are any. What is
// left between them may have shorter ones, for which there is another round.
func (r *repeats) round() bool {
	found := r.candidates()
	slices.SortFunc(found, func(a, b sequence) int {
		return cmp.Or(b.saves-a.saves, a.places[0]-b.places[0], b.lines-a.lines)
	})
	before := len(r.macros)
	for _, s := range found {
		if s = r.apart(s); s.saves >= least {
			r.macros = append(r.macros, s)
			for _, at := range s.places {
				for i := range s.lines {
					r.stays[at+i] = true
				}
			}
		}
	}
	return len(r.macros) > before
}

// candidates are the sequences that come more than once and are worth a macro. Places in the order
// of what follows them have those side by side that begin alike: a sequence comes at each place
// from one to another, if all neighbours between them have as many lines in common.
func (r *repeats) candidates() (found []sequence) {
	places := r.ordered()
	type run struct{ lines, from int }
	var runs []run // each longer than the one before it
	for i := 1; i <= len(places); i++ {
		common, from := 0, i-1
		if i < len(places) {
			common = r.common(places[i-1], places[i])
		}
		for len(runs) > 0 && runs[len(runs)-1].lines > common {
			last := runs[len(runs)-1]
			runs, from = runs[:len(runs)-1], last.from
			s := r.apart(sequence{lines: last.lines, places: slices.Sorted(slices.Values(places[from:i]))})
			if s.saves >= least && s.lines >= fewest {
				found = append(found, s)
			}
		}
		if common > 0 && (len(runs) == 0 || runs[len(runs)-1].lines < common) {
			runs = append(runs, run{common, from})
		}
	}
	return found
}

// ordered are all lines that may be in a macro, in the order of the sequences that begin there.
func (r *repeats) ordered() (places []int) {
	for i, stays := range r.stays {
		if !stays {
			places = append(places, i)
		}
	}
	slices.SortFunc(places, func(a, b int) int {
		n := r.common(a, b)
		return cmp.Or(r.code(a+n)-r.code(b+n), a-b)
	})
	return places
}

// code is that of a line, or less than all others where a sequence ends.
func (r *repeats) code(i int) int {
	if i == len(r.codes) || r.stays[i] {
		return -1
	}
	return r.codes[i]
}

// common is how many lines the sequences that begin at two places have in common.
func (r *repeats) common(a, b int) (n int) {
	for r.code(a+n) >= 0 && r.code(a+n) == r.code(b+n) {
		n++
	}
	return n
}

// apart leaves out places that overlap with an earlier one or with a macro, and counts the bytes
// that the others save.
func (r *repeats) apart(s sequence) sequence {
	var places []int
	next := 0
	for _, at := range s.places {
		if at >= next && !slices.Contains(r.stays[at:at+s.lines], true) {
			places = append(places, at)
			next = at + s.lines
		}
	}
	if s.places, s.saves = places, 0; len(places) > 1 {
		size := 0
		for _, line := range r.lines[places[0]:next][:s.lines] {
			size += len(line) + 1
		}
		const name, definition = 16, 40 // about what these take
		s.saves = (len(places)-1)*size - len(places)*name - definition
	}
	return s
}

// written are the macros, in the order of their first uses and named after the kernel of that, and
// the lines with their names.
func (r *repeats) written() (definitions, rest []byte) {
	slices.SortFunc(r.macros, func(a, b sequence) int { return a.places[0] - b.places[0] })
	count, uses, lines := map[string]int{}, map[int]string{}, map[int]int{}
	for _, s := range r.macros {
		first := s.places[0]
		count[r.kernels[first]]++
		name := fmt.Sprintf("%s_part%d", r.kernels[first], count[r.kernels[first]])
		definitions = append(definitions, define(name, r.lines[first:first+s.lines])...)
		for _, at := range s.places {
			uses[at], lines[at] = name, s.lines
		}
	}
	var kept []string
	for i := 0; i < len(r.lines); i += max(1, lines[i]) {
		if name := uses[i]; name != "" {
			kept = append(kept, "\t"+name)
		} else {
			kept = append(kept, r.lines[i])
		}
	}
	return definitions, []byte(strings.Join(kept, "\n"))
}

// define is a macro in lines of up to 100 columns.
func define(name string, lines []string) string {
	const columns = 98 // and a backslash
	text := "#define " + name
	last := columns
	for _, line := range lines {
		instruction := strings.TrimPrefix(line, "\t")
		if last+len("; ")+len(instruction) > columns {
			text += " \\\n\t" + instruction
			last = len(line)
			continue
		}
		text += "; " + instruction
		last += len("; ") + len(instruction)
	}
	return text + "\n\n"
}

var (
	macroText = regexp.MustCompile(`(?m)^#define (\w+) \\\n((?:.* \\\n)*.*)`)
	macroName = regexp.MustCompile(`\b\w+_part\d+\b`)
)

// Expanded has the instructions of the macros that Repeats makes where these are used. A definition
// becomes as many empty lines.
func Expanded(text []byte) []byte {
	macros := map[string][]byte{}
	text = macroText.ReplaceAllFunc(text, func(all []byte) []byte {
		m := macroText.FindSubmatch(all)
		macros[string(m[1])] = bytes.ReplaceAll(bytes.TrimSpace(m[2]), []byte(" \\\n\t"), []byte("; "))
		return bytes.Repeat([]byte("\n"), bytes.Count(all, []byte("\n")))
	})
	return macroName.ReplaceAllFunc(text, func(name []byte) []byte { return macros[string(name)] })
}
