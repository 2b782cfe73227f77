package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/inspect"
	"github.com/seed-1415985d/attn/internal/flags"
)

// callForm is the syntax of -call.
const callForm = "H=…,Lq=…,D=…[,B=1][,KVH=H][,Lk=Lq][,Dv=D]" +
	"[,layout=bhld|blhd|cache][,causal=0|1][,workers=1]"

// callFlag is the value of -call: the shape of a call.
type callFlag struct {
	inspect.Call
	given []string // given keys, as callKeys spells them
}

// callKey is a key of -call, with the destination of its value and the valid values.
type callKey struct {
	name string
	set  func(c *inspect.Call, value string) bool
	want string
}

var callKeys = []callKey{
	wholeNumber("B", maxDimension, func(c *inspect.Call) *int { return &c.B }),
	wholeNumber("H", maxDimension, func(c *inspect.Call) *int { return &c.H }),
	wholeNumber("KVH", maxDimension, func(c *inspect.Call) *int { return &c.KVH }),
	wholeNumber("Lq", maxDimension, func(c *inspect.Call) *int { return &c.Lq }),
	wholeNumber("Lk", maxDimension, func(c *inspect.Call) *int { return &c.Lk }),
	wholeNumber("D", maxDimension, func(c *inspect.Call) *int { return &c.D }),
	wholeNumber("Dv", maxDimension, func(c *inspect.Call) *int { return &c.Dv }),
	{"layout", setLayout, "bhld, blhd or cache"},
	{"causal", setCausal, "0 or 1"},
	wholeNumber("workers", attn.MaxWorkers, func(c *inspect.Call) *int { return &c.Workers }),
}

// wholeNumber is a key whose value is a count from 1 to most.
func wholeNumber(name string, most int, field func(c *inspect.Call) *int) callKey {
	set := func(c *inspect.Call, value string) bool {
		n, err := strconv.Atoi(value)
		*field(c) = n
		return err == nil && n >= 1 && n <= most
	}
	return callKey{name, set, fmt.Sprintf("a whole number from 1 to %d", most)}
}

func setLayout(c *inspect.Call, value string) bool {
	c.Layout = strings.ToLower(value)
	return slices.Contains([]string{"bhld", "blhd", "cache"}, c.Layout)
}

func setCausal(c *inspect.Call, value string) bool {
	c.Causal = value == "1"
	return value == "0" || value == "1"
}

// Set reads a list of keys and values, whatever the case of the keys.
func (f *callFlag) Set(list string) error {
	*f = callFlag{Call: inspect.Call{B: 1, Layout: "bhld", Workers: 1}}
	for _, item := range strings.Split(list, ",") {
		if err := f.setItem(strings.TrimSpace(item)); err != nil {
			return err
		}
	}
	for _, name := range []string{"H", "Lq", "D"} {
		if !slices.Contains(f.given, name) {
			return fmt.Errorf("%s is missing, want %s", name, callForm)
		}
	}
	f.fill("KVH", &f.KVH, f.H)
	f.fill("Lk", &f.Lk, f.Lq)
	f.fill("Dv", &f.Dv, f.D)
	if f.H%f.KVH != 0 {
		return fmt.Errorf("KVH is %d, want a divisor of H = %d", f.KVH, f.H)
	}
	return nil
}

func (f *callFlag) setItem(item string) error {
	name, value, ok := strings.Cut(item, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	i := slices.IndexFunc(callKeys, func(k callKey) bool { return strings.EqualFold(k.name, name) })
	switch {
	case !ok:
		return fmt.Errorf("%q is no key=value, want %s", item, callForm)
	case i < 0:
		return fmt.Errorf("%q is no key, want %s", name, callForm)
	case slices.Contains(f.given, callKeys[i].name):
		return fmt.Errorf("%s is given twice", callKeys[i].name)
	}
	if k := callKeys[i]; !k.set(&f.Call, value) {
		return fmt.Errorf("%s is %q, want %s", k.name, value, k.want)
	}
	f.given = append(f.given, callKeys[i].name)
	return nil
}

// fill sets the default of a key that is not in the list.
func (f *callFlag) fill(name string, field *int, value int) {
	if !slices.Contains(f.given, name) {
		*field = value
	}
}

func (f *callFlag) String() string { return "" } // no default

var schedule = inspect.Schedule // which tests replace

// print prints how package attn would compute the call.
func (f *callFlag) print(stdout io.Writer) error {
	text, err := schedule(f.Call)
	if err != nil {
		return flags.Errorf("-call: %s", oneLine(err))
	}
	_, err = fmt.Fprintln(stdout, strings.TrimRight(text, "\n"))
	return err
}
