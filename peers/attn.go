package main

import (
	"runtime/debug"

	"github.com/seed-1415985d/attn"
)

// self is attn.
type self struct{}

func (self) version() string { return attn.Implementation() + " kernels" }

func (self) prepare(c *Case, in inputs, threads int) (call func() error, result func() []float32,
	err error) {
	if c.matrix() {
		return products(c, in, threads)
	}
	if _, _, ok := c.model(); ok {
		d, err := openDecoder(c, in.dir, threads)
		if err != nil {
			return nil, nil, err
		}
		return modelCalls(c, d)
	}
	if _, integers, ok := c.encoder(); ok {
		return encoderCall(c, in.dir, integers, threads)
	}
	dst := attn.BHLD(make([]float32, c.queries()), c.Batch, c.Heads, c.Lq, c.Dim)
	q := attn.BHLD(in.q, c.Batch, c.Heads, c.Lq, c.Dim)
	k, v := attn.BHLD(in.k, c.Batch, c.KV, c.Lk, c.Dim), attn.BHLD(in.v, c.Batch, c.KV, c.Lk, c.Dim)
	opt := &attn.Options{Integers: c.Type == "integers" || c.Type == "i4"}
	if c.Causal {
		opt.Causal = attn.TopLeft
	}
	var pool *attn.Pool
	if threads > 1 {
		pool = attn.NewPool(threads)
	}
	var cache *attn.Cache
	if c.decode() {
		kind := map[int]attn.Format{32: attn.F32, 16: attn.F16, 8: attn.I8, 4: attn.I4}[c.bits()]
		cache, err = attn.NewCache(attn.CacheConfig{Batch: c.Batch, KVHeads: c.KV, HeadDim: c.Dim,
			ValueDim: c.Dim, Capacity: c.Lk, Format: kind})
		if err != nil {
			return nil, nil, err
		}
		if err := cache.Append(k, v); err != nil {
			return nil, nil, err
		}
	}
	call = func() error {
		switch {
		case cache != nil && pool != nil:
			return pool.AttendCache(dst, q, cache, opt)
		case cache != nil:
			return cache.Attend(dst, q, opt)
		case pool != nil:
			return pool.Attend(dst, q, k, v, opt)
		}
		return attn.Attend(dst, q, k, v, opt)
	}
	return call, func() []float32 { return dst.Data }, nil
}

// moduleVersion returns the version of a module in this program.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "of unknown version"
}
