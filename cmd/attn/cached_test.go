package main

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
)

// cacheOf is a cache of keys and values.
func cacheOf(t *testing.T, kind formats, k, v attn.Tensor) *attn.Cache {
	t.Helper()
	c, err := attn.NewCache(attn.CacheConfig{Batch: k.B, KVHeads: k.H, HeadDim: k.D, ValueDim: v.D,
		Capacity: k.L, Format: kind.keys, ValueFormat: kind.values})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Append(k, v); err != nil {
		t.Fatal(err)
	}
	return c
}

// Over a cache of any type the command gives the bits of Cache.Attend. For f32 these are Attend's,
// and for f16 and bf16 Attend's over what the cache reads back.
func TestRunOverCache(t *testing.T) {
	const b, h, kv, lq, lk, d, dv = 2, 4, 2, 5, 150, 12, 7
	f := newFolder(t)
	q := attn.BHLD(f.random("q.npy", 1, b, h, lq, d).Data, b, h, lq, d)
	k := attn.BHLD(f.random("k.npy", 2, b, kv, lk, d).Data, b, kv, lk, d)
	v := attn.BHLD(f.random("v.npy", 3, b, kv, lk, dv).Data, b, kv, lk, dv)
	opt := attn.Options{Causal: attn.BottomRight}
	outputs := map[string]bool{}
	for _, kind := range append(allCaches, formats{attn.I8, attn.I4}, formats{attn.F32, attn.BF16}) {
		c, want := cacheOf(t, kind, k, v), attn.BHLD(make([]float32, b*h*lq*dv), b, h, lq, dv)
		if err := c.Attend(want, q, &opt); err != nil {
			t.Fatal(err)
		}
		if kind.keys < attn.I8 {
			read := attn.BHLD(make([]float32, len(k.Data)), b, kv, lk, d)
			values := attn.BHLD(make([]float32, len(v.Data)), b, kv, lk, dv)
			if err := c.Read(read, values, 0); err != nil {
				t.Fatal(err)
			}
			if err := attn.Attend(want, q, read, values, &opt); err != nil {
				t.Fatal(err)
			}
		}
		outputs[fmt.Sprint(want.Data)] = true
		for _, threads := range []string{"1", "3"} {
			name := cacheName(kind.keys) + "," + cacheName(kind.values)
			f.mustRun("-cache", name, "-causal", "bottomright", "-threads", threads)
			f.check("out.npy", []int{b, h, lq, dv}, want.Data)
		}
	}
	if len(outputs) != 7 {
		t.Errorf("%d different outputs of 7 formats: the flag does nothing", len(outputs))
	}
}

// Slices of few rows and few heads, and the weights of a picture, are the same as of one call over
// one cache.
func TestSlicesOverCache(t *testing.T) {
	const b, h, kv, lq, lk, d = 2, 4, 2, 21, 90, 8
	f := newFolder(t)
	c := &cachedAttend{kind: formats{attn.I8, attn.I8}}
	defer c.release()
	j := job{attend: c.attend, threads: 1, group: h / kv,
		q:   attn.BHLD(f.random("q", 1, b*h*lq*d).Data, b, h, lq, d),
		k:   attn.BHLD(f.random("k", 2, b*kv*lk*d).Data, b, kv, lk, d),
		v:   attn.BHLD(f.random("v", 3, b*kv*lk*d).Data, b, kv, lk, d),
		dst: attn.BHLD(make([]float32, b*h*lq*d), b, h, lq, d)}
	want := attn.BHLD(make([]float32, b*h*lq*d), b, h, lq, d)
	if err := cacheOf(t, formats{attn.I8, attn.I8}, j.k, j.v).Attend(want, j.q, nil); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		for head := 0; head < h; head += h / kv {
			for row := 0; row < lq; row += 10 {
				if err := j.slice(slice{i, head, head + h/kv, row, min(row+10, lq)}, j.dst, nil,
					attn.Tensor{}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if !sameBits(j.dst.Data, want.Data) {
		t.Error("slices have other bits than one call")
	}
}

// allCaches are caches of one format.
var allCaches = func() (all []formats) {
	for _, f := range cacheTypes {
		all = append(all, formats{f, f})
	}
	return all
}()

func TestRunOverCacheRefuses(t *testing.T) {
	f := newFolder(t)
	f.random("q.npy", 1, 2, 3, 4)
	f.random("k.npy", 2, 2, 5, 4)
	v := f.random("v.npy", 3, 2, 5, 4)
	for want, args := range map[string]string{
		`-cache is "f64", want f32, f16, bf16, i8 or i4`:               "-cache f64",
		`-cache is "", want f32, f16, bf16, i8 or i4`:                  "-cache=",
		`-cache is "i8,i2", want f32, f16`:                             "-cache i8,i2",
		`-cache is "i8,f32", want f32, f16`:                            "-cache i8,f32",
		`-cache is "f16" with -integers, want i8, i4, both or none`:    "-cache f16 -integers",
		`-cache is "i8,f16" with -integers, want i8, i4, both or none`: "-cache i8,f16 -integers",
		`-integers and -bfloat16 are set, want one of them`:            "-bfloat16 -integers",
		`-cache is "f16,i4" with -bfloat16, want f32, f16, bf16, two`:  "-cache f16,i4 -bfloat16",
	} {
		status, stdout, stderr := f.run(strings.Fields(args)...)
		checkRefusal(t, 2, status, stdout, stderr, want)
	}
	v.Data[(5+3)*4+1] = float32(math.Inf(1))
	f.save("v.npy", v)
	status, stdout, stderr := f.run("-cache", "i8")
	checkRefusal(t, 1, status, stdout, stderr, "v has an element of size +Inf in token 3 of head "+
		"1, batch entry 0")
	f.mustRun("-cache", "f16")
	f.random("k.npy", 2, 2, 0, 4)
	f.random("v.npy", 3, 2, 0, 4)
	f.mustRun("-cache", "i8")
	f.check("out.npy", []int{2, 3, 4}, make([]float32, 24))
}

// With -integers the command gives the bits of Options.Integers, over files as over a cache of i8,
// and with -bfloat16 those of Options.BFloat16, over files as over a cache of f32.
func TestRunArithmetics(t *testing.T) {
	const b, h, kv, lq, lk, d = 2, 4, 2, 5, 150, 12
	f := newFolder(t)
	q := attn.BHLD(f.random("q.npy", 1, b, h, lq, d).Data, b, h, lq, d)
	k := attn.BHLD(f.random("k.npy", 2, b, kv, lk, d).Data, b, kv, lk, d)
	v := attn.BHLD(f.random("v.npy", 3, b, kv, lk, d).Data, b, kv, lk, d)
	attend := func(o attn.Options) []float32 {
		dst := make([]float32, b*h*lq*d)
		o.Causal = attn.TopLeft
		if err := attn.Attend(attn.BHLD(dst, b, h, lq, d), q, k, v, &o); err != nil {
			t.Fatal(err)
		}
		return dst
	}
	exact := attend(attn.Options{})
	for arithmetic, c := range map[string]struct {
		options attn.Options
		cache   string
	}{"-integers": {attn.Options{Integers: true}, "i8"},
		"-bfloat16": {attn.Options{BFloat16: true}, "f32"}} {
		want := attend(c.options)
		if sameBits(want, exact) {
			t.Errorf("%s gives the bits of float32", arithmetic)
		}
		for _, args := range []string{"", "-cache " + c.cache, "-threads 1"} {
			f.mustRun(strings.Fields(arithmetic + " -causal topleft " + args)...)
			f.check("out.npy", []int{b, h, lq, d}, want)
		}
	}
}
