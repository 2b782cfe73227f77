package attn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Options.Distance by its definition: a number for each pair, which is a bias.

// bucket is the index of the number of a distance.
func (x *Distance) bucket(d int) int {
	n := max(x.Query.D, x.Key.D)
	if x.Buckets != nil {
		n = len(x.Buckets)
	}
	d = min(max(d, -(n/2)), n/2) + n/2
	if x.Buckets != nil {
		return int(x.Buckets[d])
	}
	return d
}

// number is the number of a query and a key at a distance.
func (x *Distance) number(b, h, i, j, d int) float32 {
	at := x.bucket(d)
	element := func(t Tensor, row int) float32 { return t.Row(b%t.B, h%t.H, row%t.L)[at] }
	switch {
	case x.Key.none():
		return element(x.Query, i)
	case x.Query.none():
		return element(x.Key, j)
	}
	return element(x.Query, i) + element(x.Key, j)
}

// distance is how far key j is after query i, and whether they are of one document.
func (o *Options) distance(b, i, j, queries, keys int) (d int, together bool) {
	if o.Documents != nil {
		n, lens := 0, o.keyDocuments()
		for i >= o.Documents[n] {
			i, j, n = i-o.Documents[n], j-lens[n], n+1
		}
		queries, keys = o.Documents[n], lens[n]
		if j < 0 || j >= keys {
			return 0, false
		}
	}
	if o.QueryLens != nil {
		queries = o.QueryLens[b]
	}
	if o.KeyLens != nil {
		keys = o.KeyLens[b]
	}
	switch {
	case o.Tree != nil:
		path, first := ancestorsOf(o.Tree, i), keys-queries
		if j >= first {
			j = first + path[j-first] // of own tokens that it does not see this may be anything
		}
		return j - first - path[i], true
	case o.Causal == BottomRight:
		return j - i - (keys - queries), true
	}
	return j - i - o.Offset, true
}

// biasOfDistance is Bias and Distance of some entries, heads, queries and keys, as one Bias.
func (o *Options) biasOfDistance(batch, heads, lq, lk int) Tensor {
	x := zeros(batch, heads, lq, lk)
	for at := range batch * heads * lq {
		b, h, i := at/lq/heads, at/lq%heads, at%lq
		for j := range lk {
			var e float32
			if d, together := o.distance(b, i, j, lq, lk); together {
				e = o.Distance.number(b, h, i, j, d)
			}
			if bias := o.Bias; !bias.none() {
				e += bias.Row(b%bias.B, h%bias.H, i)[j]
			}
			x.row(b, h, i)[j] = e
		}
	}
	return x
}

// withoutDistance is options that mean the same.
func (o Options) withoutDistance(batch, heads, lq, lk int) Options {
	if !o.Distance.none() {
		o.Bias, o.Distance = o.biasOfDistance(batch, heads, lq, lk), Distance{}
	}
	return o
}

// randomDistance draws tables for a call: of one of them or both, with and without buckets, that
// reach less or more far than the keys. Some numbers are −Inf.
func randomDistance(r *rand.Rand, kind distribution, batch, heads, lq, lk int) (x Distance) {
	n := 1 + r.IntN(40)
	if r.IntN(3) == 0 { // up to a table of a megabyte
		most := max(40, 1<<18/max(1, batch*heads*max(lq, lk)))
		n = 1 + r.IntN(min(most, 2*(lq+lk)))
	}
	table := func(rows int) Tensor {
		t := tensor(r, kind, oneOr(r, batch), oneOr(r, heads), rows, n)
		if len(t.Data) > 0 && r.IntN(3) == 0 {
			for range r.IntN(1 + len(t.Data)/8) {
				t.Data[r.IntN(len(t.Data))] = negInf
			}
		}
		return t
	}
	switch r.IntN(3) {
	case 0: // of a few, or as many as the call has keys
		reach := r.IntN(20)
		if r.IntN(2) == 0 {
			reach = r.IntN(lq + lk)
		}
		x.Buckets = make([]int32, 2*reach+1)
		for i := range x.Buckets {
			x.Buckets[i] = int32(r.IntN(n))
		}
	case 1: // one for each distance near 0, and then for several
		reach := n/2 + r.IntN(lk+1)
		x.Buckets = make([]int32, 2*reach+1)
		for i := range x.Buckets {
			d := i - reach
			if few := n / 4; d < -few {
				d = -few + (d+few)/3
			} else if d > few {
				d = few + (d-few)/3
			}
			x.Buckets[i] = int32(min(max(d+n/2, 0), n-1))
		}
	default:
		n |= 1
	}
	which := r.IntN(4)
	if which != 0 {
		rows := lq
		if which == 1 || r.IntN(3) == 0 {
			rows = 1
		}
		x.Query = table(rows)
	}
	if which == 0 || which == 3 {
		x.Key = table(lk)
	}
	return x
}

// Numbers by distance have the bits of a bias that holds them, for every way to attend.
// [TestVisibility] composes them with other options.
func TestDistanceIsItsBias(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		for range budget(200) {
			anyTuning(t, r)
			p := newProblem(r, randomKind(r), visibleShape(r, 60_000))
			if p.opt.Causal = Causal(r.IntN(3)); p.opt.Causal != BottomRight {
				p.opt.Offset = r.IntN(2*p.k.L) - p.k.L
			}
			p.opt.Distance = randomDistance(r, normal, p.q.B, p.q.H, p.q.L, p.k.L)
			biased := *p
			biased.opt = p.opt.withoutDistance(p.q.B, p.q.H, p.q.L, p.k.L)
			want := biased.solve(t, Attend)
			for _, way := range ways {
				p.same(t, way.name, p.solve(t, way.attend), want)
			}
		}
	})
}

func TestDistanceErrors(t *testing.T) {
	q, k, dst := zeros(1, 2, 3, 4), zeros(1, 1, 5, 4), zeros(1, 2, 3, 4)
	row := zeros(1, 1, 1, 3)
	far := zeros(1, 1, 5, 5)
	for _, c := range []struct {
		of   Distance
		kind error
		text string
	}{
		{Distance{Buckets: []int32{0}}, ErrOption,
			"Distance has 1 Buckets without numbers, want Query or Key"},
		{Distance{Query: row, Buckets: []int32{}}, ErrOption,
			"len(Distance.Buckets) is 0, want an odd number: distances -R to R"},
		{Distance{Query: row, Buckets: []int32{0, 1}}, ErrOption,
			"len(Distance.Buckets) is 2, want an odd number: distances -R to R"},
		{Distance{Query: row, Buckets: []int32{0, 1, 3}}, ErrOption,
			"Distance.Buckets[2] is 3, want 0 to 2"},
		{Distance{Key: far, Buckets: []int32{-1}}, ErrOption,
			"Distance.Buckets[0] is -1, want 0 to 4"},
		{Distance{Query: zeros(1, 2, 3, 4)}, ErrOption,
			"Distance has rows of 4 numbers, want an odd number without Buckets"},
		{Distance{Query: Tensor{Data: far.Data, B: 1, H: 1, L: 1}, Key: far}, ErrShape,
			"Distance.Query.D is 0, want 1 to 268435456"},
		{Distance{Query: row, Key: Tensor{Data: far.Data, B: 1, H: 1, L: 5}}, ErrShape,
			"Distance.Key.D is 0, want 1 to 268435456"},
		{Distance{Query: Tensor{B: 1, H: 1, L: 3}, Key: far}, ErrShape,
			"Distance.Query.D is 0, want 1 to 268435456"},
		{Distance{Query: row, Key: far}, ErrShape, "Distance.Key.D is 5, want Query's 3"},
		{Distance{Query: zeros(1, 2, 2, 3)}, ErrShape,
			"Distance.Query is [1 2 2 3], want [1, 2 or 1, 3 or 1, 3]; a stride of attn.Broadcast repeats " +
				"elements, too"},
		{Distance{Key: zeros(1, 2, 1, 3)}, ErrShape,
			"Distance.Key is [1 2 1 3], want [1, 2 or 1, 5, 3]"},
		{Distance{Query: Tensor{B: 1, H: 1, L: 1, D: 3}}, ErrLength,
			"len(Distance.Query.Data) is 0, want at least 1·1·1·3: without strides it is contiguous " +
				"[B H L D]"},
		{Distance{Query: Tensor{Data: dst.Data, B: 1, H: 1, L: 1, D: 3}}, ErrOverlap,
			"dst overlaps Distance.Query, want separate memory"},
		{Distance{Key: BHLD(dst.Data, 1, 1, 5, 3)}, ErrOverlap,
			"dst overlaps Distance.Key, want separate memory"},
	} {
		fillWith(dst.Data, 7)
		err := Attend(dst, q, k, k, &Options{Distance: c.of})
		mustFail(t, c.text, err, c.kind, c.text)
		if slices.ContainsFunc(dst.Data, func(e float32) bool { return e != 7 }) {
			t.Errorf("%v: something was written", err)
		}
	}
	o := Options{Distance: Distance{Query: row}}
	s, err := NewState(StateConfig{1, 2, 3, 4})
	must(t, err)
	const text = "Distance is set in an Update, want none: use Bias"
	mustFail(t, "State", s.Update(q, k, k, &o), ErrOption, text)
	seq := sequenceOf(t, StoreConfig{KVHeads: 1, HeadDim: 4, ValueDim: 4, Pages: 1})
	must(t, seq.Append(k, k))
	mustFail(t, "UpdateSequence", s.UpdateSequence(q, seq, &o), ErrOption, text)
	o.Distance, o.QueryLens = Distance{Key: far}, []int{3}
	mustFail(t, "AttendSequences", AttendSequences(dst, q, []*Sequence{seq}, &o), ErrOption,
		"Distance.Key is set over sequences, want Query alone")
}

// logBuckets has a bucket for each distance up to few, and after it for ever more of them, as T5
// and DeBERTa have it.
func logBuckets(reach, few, n int) []int32 {
	buckets := make([]int32, 2*reach+1)
	for i := range buckets {
		d := i - reach
		at := max(d, -d)
		if at > few {
			more := math.Log(float64(at)/float64(few)) / math.Log(float64(reach)/float64(few))
			at = min(few+int(more*float64(n/2-1-few)), n/2-1)
		}
		if d < 0 {
			at = -at
		}
		buckets[i] = int32(n/2 + at)
	}
	return buckets
}

// BenchmarkDistance compares the time of numbers by distance with that of an equal Bias, and with
// that of a call without.
func BenchmarkDistance(b *testing.B) {
	r := random("distance")
	for _, s := range []shape{{1, 4, 1, 512, 512, 64, 64}, {4, 4, 1, 128, 128, 64, 64},
		{1, 8, 1, 1, 4096, 64, 64}} {
		table := func(rows, n int) Tensor { return tensor(r, normal, s.b, s.kvh, rows, n) }
		for _, c := range []struct {
			name string
			of   Distance
		}{
			{"T5", Distance{Query: tensor(r, normal, 1, s.kvh, 1, 32), Buckets: logBuckets(128, 8, 32)}},
			{"Query of all", Distance{Query: tensor(r, normal, 1, s.kvh, 1, 2*s.lk-1)}},
			{"DeBERTa's Query", Distance{Query: table(s.lq, 512), Buckets: logBuckets(512, 128, 512)}},
			{"DeBERTa's Key", Distance{Key: table(s.lk, 512), Buckets: logBuckets(512, 128, 512)}},
			{"DeBERTa", Distance{Query: table(s.lq, 512), Key: table(s.lk, 512),
				Buckets: logBuckets(512, 128, 512)}},
			{"Shaw", Distance{Query: table(s.lq, 33)}},
		} {
			p := newProblem(r, normal, s)
			dst := zeros(s.b, s.kvh, s.lq, s.dv)
			call := func(o Options) func() error {
				return func() error { return Attend(dst, p.q, p.k, p.v, &o) }
			}
			o := Options{Distance: c.of, Offset: s.lk - s.lq}
			bias := o.withoutDistance(s.b, s.kvh, s.lq, s.lk)
			at := fmt.Sprintf("B=%d/Lq=%d/Lk=%d/%s", s.b, s.lq, s.lk, c.name)
			b.Run(at+"/of=Bias", func(b *testing.B) { ratio(b, call(o), call(bias)) })
			b.Run(at+"/of=none", func(b *testing.B) { ratio(b, call(o), call(Options{})) })
		}
	}
}
