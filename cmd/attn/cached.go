package main

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/flags"
)

// cacheTypes are the values of -cache, one or a pair of them.
var cacheTypes = []attn.Format{attn.F32, attn.F16, attn.BF16, attn.I8, attn.I4}

// cacheName is the name of a type on the command line.
func cacheName(t attn.Format) string { return strings.ToLower(t.String()) }

// formats are the formats of the keys and of the values of a cache.
type formats struct{ keys, values attn.Format }

// integers reports whether both are integers.
func (f formats) integers() bool { return min(f.keys, f.values) >= attn.I8 }

// cacheType returns the formats that -cache names.
func (f *runFlags) cacheType() (formats, error) {
	keys, values, two := strings.Cut(f.cache, ",")
	if !two {
		values = keys
	}
	named := func(name string) int {
		return slices.IndexFunc(cacheTypes, func(t attn.Format) bool { return cacheName(t) == name })
	}
	i, j := named(keys), named(values)
	if i < 0 || j < 0 || cacheTypes[j] == attn.F32 && i != j {
		return formats{}, flags.Errorf("-cache is %q, want f32, f16, bf16, i8 or i4, or two of them "+
			"for keys and values, such as i8,i4; values in f32 need keys in f32", f.cache)
	}
	return formats{cacheTypes[i], cacheTypes[j]}, nil
}

// checkCache finds mistakes in -cache.
func (f *runFlags) checkCache() error {
	if f.integers && f.bfloat16 {
		return flags.Errorf("-integers and -bfloat16 are set, want one of them")
	}
	if !f.given["cache"] {
		return nil
	}
	kind, err := f.cacheType()
	if err == nil && f.integers && !kind.integers() {
		return flags.Errorf("-cache is %q with -integers, want i8, i4, both or none", f.cache)
	}
	if err == nil && f.bfloat16 && max(kind.keys, kind.values) >= attn.I8 {
		return flags.Errorf("-cache is %q with -bfloat16, want f32, f16, bf16, two of them or none",
			f.cache)
	}
	return err
}

// cachedAttend attends over a cache of its keys and values. It keeps the last cache, because
// consecutive slices have the same heads.
type cachedAttend struct {
	kind formats
	pool *attn.Pool // nil for one thread

	cache *attn.Cache
	of    [2]tokens // keys and values in the cache
}

// tokens identifies a view that does not change.
type tokens struct {
	data *float32
	size [7]int
}

func tokensOf(x *attn.Tensor) tokens {
	return tokens{unsafe.SliceData(x.Data), [...]int{x.B, x.H, x.L, x.D, x.SB, x.SH, x.SL}}
}

// attend is the call of a job.
func (c *cachedAttend) attend(dst, q, k, v attn.Tensor, opt *attn.Options) error {
	if of := [...]tokens{tokensOf(&k), tokensOf(&v)}; c.cache == nil || c.of != of {
		if err := c.fill(k, v); err != nil {
			return err
		}
		c.of = of
	}
	if c.pool != nil {
		return c.pool.AttendCache(dst, q, c.cache, opt)
	}
	return c.cache.Attend(dst, q, opt)
}

// fill fills a cache with keys and values.
func (c *cachedAttend) fill(k, v attn.Tensor) error {
	c.release()
	cache, err := attn.NewCache(attn.CacheConfig{Batch: k.B, KVHeads: k.H, HeadDim: k.D, ValueDim: v.D,
		Capacity: max(1, k.L), Format: c.kind.keys,
		ValueFormat: c.kind.values})
	if err != nil {
		return err
	}
	if err := cache.Append(k, v); err != nil {
		cache.Close()
		return err
	}
	c.cache = cache
	return nil
}

// release releases the cache's memory.
func (c *cachedAttend) release() {
	if c.cache != nil {
		c.cache.Close()
		c.cache = nil
	}
}
