package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/cpuid/v2"

	"github.com/seed-1415985d/attn/internal/measure"
)

// Report is everything that was measured.
type Report struct {
	measure.Environment
	Note    string     `json:"note,omitempty"` // what else readers need to know of the machine
	Peers   []PeerInfo `json:"peers"`
	Results []Result   `json:"results"`
	// Elsewhere is the reports of other machines, one for each, the newest first.
	Elsewhere []*Report `json:"elsewhere,omitempty"`
}

// PeerInfo is the version of a peer, or why it was not measured.
type PeerInfo struct {
	Name    string `json:"name"`
	About   string `json:"about"`
	Version string `json:"version,omitempty"`
	Missing string `json:"missing,omitempty"`
}

func newReport(cpu string) *Report {
	c := &cpuid.CPU
	if cpu == "" {
		cpu = fmt.Sprintf("%s (family %d, model %d)", measure.CPUName(), c.Family, c.Model)
	}
	r := &Report{Environment: measure.Here()}
	r.CPU = cpu
	return r
}

// adopt adds the cases of an earlier report of the same machine and the same peers, so that some
// cases can be measured again.
func (r *Report) adopt(old *Report) {
	if !r.sameMachine(old) || r.Go != old.Go || !slices.Equal(r.Peers, old.Peers) {
		return
	}
	for _, c := range cases {
		if !slices.ContainsFunc(r.Results, func(x Result) bool { return x.Case == c.Name }) {
			r.Results = append(r.Results, filter(old.Results, func(x Result) bool {
				return x.Case == c.Name
			})...)
		}
	}
}

func (r *Report) sameMachine(x *Report) bool {
	return r.CPU == x.CPU && r.GOARCH == x.GOARCH && r.NumCPU == x.NumCPU
}

// join adds a new report as the first one. It replaces a report of the same machine, whose other
// cases it adopts.
func (r *Report) join(fresh *Report) *Report {
	for _, x := range append([]*Report{r}, r.Elsewhere...) {
		if x.sameMachine(fresh) {
			fresh.adopt(x)
			continue
		}
		older := *x
		older.Elsewhere = nil
		fresh.Elsewhere = append(fresh.Elsewhere, &older)
	}
	return fresh
}

// unseen returns the report without the cases of newer ones: a document shows each case of the
// newest machine that measured it.
func (r *Report) unseen(newer []*Report) *Report {
	rest := *r
	rest.Results = filter(r.Results, func(x Result) bool {
		return !slices.ContainsFunc(newer, func(n *Report) bool {
			return slices.ContainsFunc(n.Results, func(y Result) bool { return y.Case == x.Case })
		})
	})
	return &rest
}

func filter[T any](list []T, keep func(T) bool) (kept []T) {
	for _, x := range list {
		if keep(x) {
			kept = append(kept, x)
		}
	}
	return kept
}

// result returns a peer's result, or nil.
func (r *Report) result(c, name string, threads int) *Result {
	for i := range r.Results {
		if x := &r.Results[i]; x.Case == c && x.Peer == name && x.Threads == threads {
			return x
		}
	}
	return nil
}

// threads returns the numbers of threads that were measured.
func (r *Report) threads() (counts []int) {
	for _, x := range r.Results {
		if !slices.Contains(counts, x.Threads) {
			counts = append(counts, x.Threads)
		}
	}
	slices.Sort(counts)
	return counts
}

// compared returns the cases that a peer other than attn has, for a number of threads.
func (r *Report) compared(threads int) []Case {
	return filter(cases, func(c Case) bool { return r.fastest(c.Name, threads) != nil })
}

// present returns the peers that were measured.
func (r *Report) present() []PeerInfo {
	return filter(r.Peers, func(p PeerInfo) bool { return p.Missing == "" })
}

// fastest returns the best result of the other peers.
func (r *Report) fastest(c string, threads int) (best *Result) {
	for _, p := range r.present() {
		x := r.result(c, p.Name, threads)
		if p.Name != peers[0].name && x != nil && (best == nil || x.Best < best.Best) {
			best = x
		}
	}
	return best
}

func count(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// markdown writes the tables.
func (r *Report) markdown(w io.Writer) {
	version, experiment, _ := strings.Cut(r.Go, "-X:")
	if experiment != "" {
		experiment = "GOEXPERIMENT=" + experiment + " "
	}
	about := fmt.Sprintf("Written by `%sgo run ./peers -o docs`, with `peers.svg`, `peers.png` and "+
		"`peers.json`. %s, %s, %s/%s, %s. %s",
		experiment, r.CPU, count(r.NumCPU, "core"), r.GOOS, r.GOARCH, version, r.Note)
	fmt.Fprintf(w, "# attn beside others\n\n%s\n", wrap(about))
	fmt.Fprint(w, "\n![share of the limit by case and peer](peers.svg)\n\n| peer | version | what "+
		"it computes |\n|---|---|---|\n")
	for _, p := range r.present() {
		fmt.Fprintf(w, "| %s | %s | %s |\n", p.Name, p.Version, p.About)
	}
	for _, p := range r.Peers {
		if p.Missing != "" {
			fmt.Fprintf(w, "\n%s\n", wrap(fmt.Sprintf("Missing on this machine: %s, because %s.", p.Name,
				p.Missing)))
		}
	}
	fmt.Fprint(w, method)
	for _, threads := range r.threads() {
		r.tables(w, threads)
	}
	r.wins(w)
	newer := []*Report{r}
	for _, x := range r.Elsewhere {
		x.unseen(newer).aside(w)
		newer = append(newer, x)
	}
}

// aside writes the tables of an older machine, if it has cases that newer ones lack.
func (r *Report) aside(w io.Writer) {
	if len(r.Results) == 0 {
		return
	}
	var versions []string
	for _, p := range r.measuredPeers(cases) {
		versions = append(versions, p.Name+": "+p.Version)
	}
	fmt.Fprintf(w, "\n# On another machine\n\n%s\n", wrap(fmt.Sprintf("%s, %s, %s/%s, %s; %s. %s",
		r.CPU, count(r.NumCPU, "core"), r.GOOS, r.GOARCH, r.Go, strings.Join(versions, "; "), r.Note)))
	for _, threads := range r.threads() {
		r.tables(w, threads)
	}
	r.wins(w)
}

// measuredPeers returns the peers that have results for some of the cases.
func (r *Report) measuredPeers(of []Case) []PeerInfo {
	return filter(r.present(), func(p PeerInfo) bool {
		return slices.ContainsFunc(r.Results, func(x Result) bool {
			return x.Peer == p.Name && slices.ContainsFunc(of, func(c Case) bool { return c.Name == x.Case })
		})
	})
}

const method = `
Each peer runs in a process of its own, with float32 inputs in the memory order that it prefers and
warm buffers; all run in turns of 60 ms. Before the timing, the result of each is compared with the
result of attn in float32. It differs by at most 1e-5 of the largest element, by 5e-3 with f16, by
5e-2 with i8 and integers, by half with i4, by 2e-2 for a matrix, by a fifth for models
in integers.

A type in the name of a case is the type of keys and values, or of the weights of a matrix, which
all peers share. *Integers* are i8, or rounded to i8 in the call; attn multiplies them as integers,
and so it does i4 and matrices; others compute as they do with i8. A model is a file of random
weights of Qwen2.5's shape with 0.5 billion; caches are f16; *a token* is one after 64 others.

Its q4_k_m is mostly q5_0, since rows of 896 are no multiple of 256. On CPUs with AMX llama.cpp has
no tiles for that (` + "`qtype_has_amx_kernels`" + `), and a prompt needs three times as long as with q8_0.

*Texts* of 8 to 512 tokens and *images* become vectors by an encoder of random weights; *entities*
are tokens of a text with labels. ONNX Runtime runs its fused operators, with integers its operators
of dynamic quantization: texts sorted by length in batches of 1, 4, 8 or 32, whichever is fastest,
others with Attention or MultiHeadAttention. Preprocessing of images is part of attn's time only.

A cell is the least time of a call in milliseconds; peers.json has the medians. *At the limit* is
the time of the work at the rate of loops of multiply-adds, of floats or integers, in the same
turns; for decoding and one row, of loops that read as many bytes with cold caches. *Ahead* is the
least time of the fastest other peer as a multiple of attn's; below 1 that peer is faster. The
picture shows some of the cases, as shares of the limit.
`

// tables writes the cases for a number of threads: first those in float32, which most peers have,
// then the others.
func (r *Report) tables(w io.Writer, threads int) {
	heading := count(threads, "thread")
	fmt.Fprintf(w, "\n## %s\n", strings.ToUpper(heading[:1])+heading[1:])
	for _, floats := range []bool{true, false} {
		r.table(w, threads, filter(r.compared(threads), func(c Case) bool {
			return (c.Type == "f32") == floats
		}))
	}
}

// table has a row for each case, and a column for each peer with one of them.
func (r *Report) table(w io.Writer, threads int, rows []Case) {
	if rows == nil {
		return
	}
	fmt.Fprint(w, "\n| case | size |")
	rule := "|---|---|"
	columns := r.measuredPeers(rows)
	for _, p := range columns {
		fmt.Fprintf(w, " %s |", p.Name)
		rule += "---:|"
	}
	fmt.Fprintf(w, " at the limit | ahead |\n%s---:|---:|\n", rule)
	for _, c := range rows {
		own, other := r.result(c.Name, peers[0].name, threads), r.fastest(c.Name, threads)
		first := other
		if own != nil && own.Best <= other.Best {
			first = own
		}
		fmt.Fprintf(w, "| %s | %s |", c.Name, c.size())
		for _, p := range columns {
			x := r.result(c.Name, p.Name, threads)
			switch x {
			case nil:
				fmt.Fprint(w, " – |")
			case first:
				fmt.Fprintf(w, " **%s** |", milliseconds(x.Best))
			default:
				fmt.Fprintf(w, " %s |", milliseconds(x.Best))
			}
		}
		ahead := "–"
		if own != nil {
			ahead = fmt.Sprintf("%.2f", other.Best/own.Best)
		}
		fmt.Fprintf(w, " %s | %s |\n", milliseconds(first.Limit), ahead)
	}
}

// even is the ratio from which on one of two times is called faster.
const even = 1.05

// wins writes the cases in which attn is not the fastest, if there are any.
func (r *Report) wins(w io.Writer) {
	heading := "\n## Where another is as fast or faster\n\n"
	list := func(line string) {
		fmt.Fprintln(w, heading+wrap(line))
		heading = ""
	}
	for _, threads := range r.threads() {
		for _, c := range r.compared(threads) {
			own, other := r.result(c.Name, peers[0].name, threads), r.fastest(c.Name, threads)
			if own == nil {
				list(fmt.Sprintf("- %s, %s: attn does not have this, %s takes %s ms.", c.Name,
					count(threads, "thread"), other.Peer, milliseconds(other.Best)))
				continue
			}
			if other.Best > even*own.Best {
				continue
			}
			verdict := "is faster"
			if other.Best*even >= own.Best {
				verdict = "is even, within 5 %"
			}
			list(fmt.Sprintf("- %s, %s: %s %s, %s ms against %s of attn.", c.Name,
				count(threads, "thread"), other.Peer, verdict, milliseconds(other.Best),
				milliseconds(own.Best)))
		}
	}
}

// read returns an earlier report, or nil if there is none.
func read(dir string) (*Report, error) {
	text, err := os.ReadFile(filepath.Join(dir, "peers.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := new(Report)
	return r, json.Unmarshal(text, r)
}

// write writes all files of a report to a folder.
func (r *Report) write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	var tables strings.Builder
	r.markdown(&tables)
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "peers.json"), append(text, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "peers.md"), []byte(tables.String()), 0o644),
		r.draw(filepath.Join(dir, "peers.svg")),
		r.draw(filepath.Join(dir, "peers.png")))
}
