package main

import (
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
)

// A mask that can be read in two ways is refused, until the flag says which is meant.
func TestAmbiguousDimensions(t *testing.T) {
	const b, h, lq, lk, d = 3, 3, 3, 5, 4
	f := newFolder(t)
	view := func(name string, seed uint64, l int) attn.Tensor {
		return attn.BLHD(f.random(name, seed, b, l, h*d).Data, b, l, h, d)
	}
	q, k, v := view("q.npy", 1, lq), view("k.npy", 2, lk), view("v.npy", 3, lk)
	of := attn.View[float32]{Data: f.random("three.npy", 4, 3, lq, lk).Data, B: b, H: h, L: lq, D: lk}
	two := attn.View[float32]{Data: f.random("two.npy", 5, 3, lk).Data, B: b, H: h, L: lq, D: lk}
	status, stdout, stderr := f.run("-heads", "3", "-bias", "@three.npy")
	checkRefusal(t, 1, status, stdout, stderr,
		"three.npy is (3, 3, 5), which may be h,q,k or b,q,k: say with -bias-dims which is meant")
	status, stdout, stderr = f.run("-heads", "3", "-bias", "@two.npy")
	checkRefusal(t, 1, status, stdout, stderr, "two.npy is (3, 5), which may be q,k or b,k: say with")
	for flags, strides := range map[string][3]int{
		"three.npy -bias-dims b,q,k": {lq * lk, attn.Broadcast, lk},
		"three.npy -bias-dims h,q,k": {attn.Broadcast, lq * lk, lk},
		"two.npy -bias-dims b,k":     {lk, attn.Broadcast, attn.Broadcast},
		"two.npy -bias-dims h,k":     {attn.Broadcast, lk, attn.Broadcast},
		"two.npy -bias-dims q,k":     {attn.Broadcast, attn.Broadcast, lk},
	} {
		bias := of
		if strings.HasPrefix(flags, "two") {
			bias = two
		}
		bias.SB, bias.SH, bias.SL = strides[0], strides[1], strides[2]
		want := attn.BLHD(make([]float32, b*lq*h*d), b, lq, h, d)
		if err := attn.Attend(want, q, k, v, &attn.Options{Bias: bias}); err != nil {
			t.Fatal(err)
		}
		f.mustRun(strings.Fields("-heads 3 -bias @" + flags)...)
		if got := f.read("out.npy"); !sameBits(got.Data, want.Data) {
			t.Errorf("%s: other bits than the option", flags)
		}
	}
}

// What repeats in both ways, or fits in one, has no need of a flag.
func TestNoAmbiguity(t *testing.T) {
	f := newFolder(t)
	for i, name := range []string{"q.npy", "k.npy", "v.npy"} {
		f.random(name, uint64(i), 2, 2, 4, 8)
	}
	for _, shape := range [][]int{{4}, {1, 4}, {4, 4}, {1, 4, 4}, {2, 1, 4, 4}} {
		f.random("bias.npy", 9, shape...)
		f.mustRun("-bias", "@bias.npy")
	}
}
