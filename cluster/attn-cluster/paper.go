package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// paper computes the cost of a token for a model and machines that need not exist.
type paper struct {
	layers, heads, kvHeads, dim int
	tokens                      int
	part                        int           // tokens
	element                     int           // bytes of a key's or value's element
	memory                      float64       // bytes a second that a machine reads from memory
	roundTrip                   time.Duration // of a small request
}

// paperModel has the shape of published models with eight billion weights, and F16 keys and values.
var paperModel = paper{layers: 32, heads: 32, kvHeads: 8, dim: 128, tokens: 1 << 20, part: 16384,
	element: 2, memory: 200e9, roundTrip: 200 * time.Microsecond}

// roundTrips is the number of round trips of a layer: its queries travel with its new token.
const roundTrips = 1

// keys returns the bytes of keys and values of a layer.
func (p *paper) keys() float64 {
	return float64(p.tokens) * float64(p.kvHeads) * float64(2*p.dim) * float64(p.element)
}

// parts returns the number of states from all machines together.
func (p *paper) parts() int { return (p.tokens + p.part - 1) / p.part }

// traffic returns the bytes of a layer over the client's link: queries to each machine, and a
// maximum, a sum and an output for each head and part.
func (p *paper) traffic(machines int) (sent, received float64) {
	return float64(4 * machines * p.heads * p.dim), float64(4 * p.parts() * p.heads * (p.dim + 2))
}

// alone returns the seconds of a token on one machine that reads everything.
func (p *paper) alone() float64 { return float64(p.layers) * p.keys() / p.memory }

// spread returns the seconds of a token on many machines, with links of some bytes a second: the
// round trips, the slower direction of the link, and reading. The bytes of appends are negligible.
func (p *paper) spread(machines int, link float64) float64 {
	sent, received := p.traffic(machines)
	return float64(p.layers) * (roundTrips*p.roundTrip.Seconds() + max(sent, received)/link +
		p.keys()/p.memory/float64(machines))
}

// print writes the table.
func (p *paper) print(w io.Writer) {
	one := p.alone()
	fmt.Fprintf(w, "One machine: %.0f GiB of keys and values at %.0f GB/s, %.2f tokens a second.\n\n",
		float64(p.layers)*p.keys()/(1<<30), p.memory/1e9, 1/one)
	links := []float64{10e9 / 8, 100e9 / 8}
	fmt.Fprintln(w, "| machines | GiB each | sent a token | received | round trips | 10 Gbit/s: "+
		"tokens/s | times one | 100 Gbit/s: tokens/s | times one |\n|"+strings.Repeat("---:|", 9))
	for machines := 2; machines <= 64; machines *= 2 {
		sent, received := p.traffic(machines)
		layers := float64(p.layers)
		fmt.Fprintf(w, "| %d | %.1f | %.1f MiB | %.1f MiB | %d |", machines,
			layers*p.keys()/(1<<30)/float64(machines), layers*sent/(1<<20), layers*received/(1<<20),
			roundTrips*p.layers)
		for _, link := range links {
			s := p.spread(machines, link)
			fmt.Fprintf(w, " %.2f | %.1f |", 1/s, one/s)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "\n| tokens | machines | one: tokens/s | 10 Gbit/s: times one | 100 Gbit/s: "+
		"times one |\n|"+strings.Repeat("---:|", 5))
	for tokens := 1 << 15; tokens <= 1<<22; tokens *= 2 {
		q := *p
		q.tokens = tokens
		machines := min(8, q.parts())
		fmt.Fprintf(w, "| %d Ki | %d | %.2f |", tokens/1024, machines, 1/q.alone())
		for _, link := range links {
			fmt.Fprintf(w, " %.1f |", q.alone()/q.spread(machines, link))
		}
		fmt.Fprintln(w)
	}
}
