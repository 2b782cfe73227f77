package main

import (
	"errors"
	"testing"

	"github.com/seed-1415985d/attn/inspect"
)

// answer makes package attn's answer for a test.
func answer(t *testing.T, with func(inspect.Call) (string, error)) {
	old := schedule
	t.Cleanup(func() { schedule = old })
	schedule = with
}

// Every key reaches the package, and what is not given has its default.
func TestInfoOfCall(t *testing.T) {
	for list, want := range map[string]inspect.Call{
		"H=8,Lq=1,D=64": {B: 1, H: 8, KVH: 8, Lq: 1, Lk: 1, D: 64, Dv: 64, Layout: "bhld", Workers: 1},
		"h=8, kvh = 2,LQ=3,lk=4096,d=128,DV=64,Layout=CACHE,CAUSAL=1,b=2,Workers=16": {
			B: 2, H: 8, KVH: 2, Lq: 3, Lk: 4096, D: 128, Dv: 64, Layout: "cache", Causal: true, Workers: 16},
		"H=8,Lq=2,D=64,causal=0,layout=blhd": {B: 1, H: 8, KVH: 8, Lq: 2, Lk: 2, D: 64, Dv: 64,
			Layout: "blhd", Workers: 1},
	} {
		var got inspect.Call
		answer(t, func(c inspect.Call) (string, error) {
			got = c
			return "rows 4 queries of a tile\n", nil
		})
		status, stdout, stderr := call("info", "-call", list)
		if status != 0 || stdout != "rows 4 queries of a tile\n" || stderr != "" || got != want {
			t.Errorf("%s: status %d, stdout %q, stderr %q, call %+v, want %+v", list, status, stdout, stderr,
				got, want)
		}
	}
}

func TestInfoOfCallRefuses(t *testing.T) {
	answer(t, func(inspect.Call) (string, error) { return "", errors.New("attn: not like this") })
	for list, want := range map[string]string{
		"":                            `"" is no key=value, want H=`,
		"H":                           `"H" is no key=value, want H=`,
		"H=1,Lq=1,D=1,":               `"" is no key=value`,
		"H=1,Z=1":                     `"Z" is no key, want H=`,
		"H=1,h=1":                     "H is given twice",
		"Lq=1,D=1":                    "H is missing, want H=",
		"H=1,D=1":                     "Lq is missing",
		"H=1,Lq=1":                    "D is missing",
		"H=x,Lq=1,D=1":                `H is "x", want a whole number from 1 to 268435456`,
		"H=1,Lq=0,D=1":                `Lq is "0", want a whole number`,
		"H=1,Lq=1,D=1,B=-1":           `B is "-1"`,
		"H=1,Lq=1,D=1,Dv=268435457":   `Dv is "268435457"`,
		"H=1,Lq=1,D=1,Lk=1e3":         `Lk is "1e3"`,
		"H=1,Lq=1,D=1,workers=4097":   `workers is "4097", want a whole number from 1 to 4096`,
		"H=1,Lq=1,D=1,layout=lhbd":    `layout is "lhbd", want bhld, blhd or cache`,
		"H=1,Lq=1,D=1,causal=topleft": `causal is "topleft", want 0 or 1`,
		"H=8,KVH=3,Lq=1,D=1":          "KVH is 3, want a divisor of H = 8",
		"H=1,Lq=1,D=1":                "-call: not like this",
	} {
		status, stdout, stderr := call("info", "-call", list)
		checkRefusal(t, 2, status, stdout, stderr, want)
	}
}
