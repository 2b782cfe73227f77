package cluster

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/seed-1415985d/attn"
)

// simUser is who has a sequence: what it does with that it does with one machine's, too, and
// compares.
type simUser struct {
	*world
	name   string
	rand   *rand.Rand
	config SequenceConfig
	heads  int
	store  *attn.Store
	far    *Sequence
	near   []*attn.Sequence // layers
}

func (w *world) user(name string, seed uint64) *simUser {
	r := rand.New(rand.NewPCG(w.seed, seed))
	c := SequenceConfig{Layers: 1 + r.IntN(3), KVHeads: 1, HeadDim: 4, ValueDim: 4}
	f := formats[r.IntN(len(formats))]
	c.Format, c.ValueFormat = f.keys, f.values
	u := &simUser{world: w, name: name, rand: r, config: c, heads: 2}
	store, err := attn.NewStore(attn.StoreConfig{KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		ValueDim: c.ValueDim, Pages: 512, Format: c.Format, ValueFormat: c.ValueFormat})
	must(w, err)
	u.store = store
	u.fresh()
	return u
}

// fresh begins a new sequence.
func (u *simUser) fresh() {
	for _, s := range u.near {
		s.Release()
	}
	u.near = nil
	for range u.config.Layers {
		u.near = append(u.near, u.store.NewSequence())
	}
	var err error
	if u.far, err = u.client.NewSequence(u.config); err != nil {
		u.Errorf("NewSequence: %v", err)
	}
}

func (u *simUser) tensor(heads, n, d int) attn.Tensor {
	x := make([]float32, heads*n*d)
	for i := range x {
		x[i] = float32(u.rand.IntN(2000)-1000) / 500
	}
	return attn.BLHD(x, 1, n, heads, d)
}

// until is when something that begins now has to end: often there is ample time, sometimes little.
func (u *simUser) until() time.Time {
	d := between(u.rand, 20*time.Second, 40*time.Second)
	switch u.rand.IntN(10) {
	case 0, 1:
		d = between(u.rand, time.Millisecond, time.Second)
	case 2:
		d = between(u.rand, time.Second, 5*time.Second)
	}
	return time.Now().Add(d)
}

// later calls something after a moment, with as much more time: what begins together does not run
// out of time at the same instant, when it would end in any order.
func (u *simUser) later(until time.Time, call func(ctx context.Context)) func() {
	moment := between(u.rand, 0, time.Microsecond)
	return func() {
		time.Sleep(moment)
		ctx, cancel := context.WithDeadline(context.Background(), until.Add(moment))
		defer cancel()
		call(ctx)
	}
}

// act does something with the sequence.
func (u *simUser) act() {
	until := u.until()
	switch x := u.rand.IntN(100); {
	case x < 35:
		u.afterLoss(u.append(until, u.all(), u.count()))
	case x < 48:
		u.afterLoss(u.append(until, []int{u.layer()}, u.count()))
	case x < 78:
		u.afterLoss(u.attend(until, u.layer(), 1+u.rand.IntN(3)))
	case x < 86:
		u.afterLoss(u.truncate(until))
	case x < 91:
		u.afterLoss(u.appendAndAttend(until))
	case x < 94:
		u.afterLoss(u.appendAndTruncate(until))
	case x < 96:
		u.release()
	default:
		time.Sleep(between(u.rand, 0, 2*time.Second))
	}
}

func (u *simUser) layer() int { return u.rand.IntN(u.config.Layers) }

func (u *simUser) all() (layers []int) {
	for i := range u.config.Layers {
		layers = append(layers, i)
	}
	return layers
}

// count is a number of tokens to append: mostly few, sometimes more than a part.
func (u *simUser) count() int {
	switch u.rand.IntN(8) {
	case 0:
		return 1
	case 1:
		return u.rand.IntN(1300)
	case 2:
		return u.rand.IntN(300)
	}
	return 1 + u.rand.IntN(70)
}

// simMost is how many tokens a layer may get here.
const simMost = 5000

// simTokens are what is to be appended to a layer.
type simTokens struct {
	layer int
	k, v  attn.Tensor
}

func (u *simUser) tokens(layers []int, n int) (all []simTokens) {
	for _, layer := range layers {
		if u.near[layer].Len()+n <= simMost {
			all = append(all, simTokens{layer, u.tensor(u.config.KVHeads, n, u.config.HeadDim),
				u.tensor(u.config.KVHeads, n, u.config.ValueDim)})
		}
	}
	return all
}

// append adds tokens to layers at the same time.
func (u *simUser) append(until time.Time, layers []int, n int) error {
	all := u.tokens(layers, n)
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, x := range all {
		wg.Go(u.later(until, func(ctx context.Context) {
			errs[i] = u.far.Append(ctx, x.layer, x.k, x.v)
		}))
	}
	wg.Wait()
	for i, x := range all {
		if u.documented("Append", errs[i]) == nil {
			must(u, u.near[x.layer].Append(x.k, x.v))
		}
		if got, want := u.far.Len(x.layer), u.near[x.layer].Len(); got != want {
			u.Errorf("%s: layer %d has %d tokens, want %d after an append of %d: %v", u.name, x.layer, got,
				want, x.k.L, errs[i])
		}
	}
	return errors.Join(errs...)
}

// attend compares the attention of some rows over a layer.
func (u *simUser) attend(until time.Time, layer, rows int) (err error) {
	ask := u.question(layer, rows)
	u.later(until, func(ctx context.Context) { err = ask(ctx) })()
	return err
}

// question prepares attention over the tokens that a layer has now, and returns what asks and
// compares.
func (u *simUser) question(layer, rows int) func(ctx context.Context) error {
	opt := attn.Options{Causal: attn.BottomRight}
	if u.rand.IntN(3) == 0 {
		opt.Window = attn.Window{Left: 1 + u.rand.IntN(2000), Right: 1}
	}
	opt.Integers = u.config.Format >= attn.I8 && u.rand.IntN(2) == 0
	q := u.tensor(u.heads, rows, u.config.HeadDim)
	want, got := u.output(rows), u.output(rows)
	near := opt
	near.QueryLens = []int{rows}
	must(u, attn.AttendSequences(want, q, u.near[layer:layer+1], &near))
	untouched := slices.Clone(got.Data)
	return func(ctx context.Context) error {
		err := u.far.Attend(ctx, layer, got, q, &opt)
		expected := want.Data
		if u.documented("Attend", err) != nil {
			expected = untouched
		}
		for i := range expected {
			if math.Float32bits(got.Data[i]) != math.Float32bits(expected[i]) {
				u.Errorf("%s: layer %d: element %d is %v, want %v: %v", u.name, layer, i, got.Data[i],
					expected[i], err)
				break
			}
		}
		return err
	}
}

// output is a tensor of which it is seen whether anything is written.
func (u *simUser) output(rows int) attn.Tensor {
	x := u.tensor(u.heads, rows, u.config.ValueDim)
	for i := range x.Data {
		x.Data[i] = 12345
	}
	return x
}

// truncate cuts all layers.
func (u *simUser) truncate(until time.Time) error {
	before, longest := u.lengths()
	n := longest - u.rand.IntN(min(longest, 80)+1)
	if u.rand.IntN(3) == 0 {
		n = u.rand.IntN(longest + 1)
	}
	var err error
	u.later(until, func(ctx context.Context) {
		err = u.documented("Truncate", u.far.Truncate(ctx, n))
	})()
	u.cutTo(n, before, err)
	return err
}

func (u *simUser) lengths() (all []int, longest int) {
	for _, s := range u.near {
		all = append(all, s.Len())
		longest = max(longest, s.Len())
	}
	return all, longest
}

// cutTo cuts what the one machine has as the cluster has been: all layers, or after an error perhaps
// none.
func (u *simUser) cutTo(n int, before []int, err error) {
	cut := err == nil
	for layer, length := range before {
		cut = cut || u.far.Len(layer) < length
	}
	for layer, length := range before {
		want := length
		if cut {
			want = min(n, length)
		}
		if got := u.far.Len(layer); got != want {
			u.Errorf("%s: layer %d has %d tokens, want %d after Truncate to %d of %d: %v", u.name, layer, got,
				want, n, length, err)
		}
		must(u, u.near[layer].Truncate(want))
	}
}

// appendAndAttend attends to the tokens that there are, while more come.
func (u *simUser) appendAndAttend(until time.Time) error {
	ask := u.question(u.layer(), 1)
	var err error
	var wg sync.WaitGroup
	wg.Go(u.later(until, func(ctx context.Context) { err = ask(ctx) }))
	appended := u.append(until, u.all(), u.count())
	wg.Wait()
	return errors.Join(err, appended)
}

// appendAndTruncate appends to a layer while all are cut: one is before the other.
func (u *simUser) appendAndTruncate(until time.Time) error {
	all := u.tokens([]int{u.layer()}, u.count())
	_, longest := u.lengths()
	if len(all) == 0 || longest == 0 {
		return nil
	}
	x, n := all[0], u.rand.IntN(longest)
	var appended, truncated error
	var wg sync.WaitGroup
	wg.Go(u.later(until, func(ctx context.Context) {
		appended = u.documented("Append", u.far.Append(ctx, x.layer, x.k, x.v))
	}))
	wg.Go(u.later(until, func(ctx context.Context) {
		truncated = u.documented("Truncate", u.far.Truncate(ctx, n))
	}))
	wg.Wait()
	for layer, s := range u.near {
		length := s.Len()
		all := []simPrefix{{min(n, length), 0}} // what the layer may have now: cut,
		if truncated != nil {
			all = append(all, simPrefix{length, 0}) // as it was,
		}
		if layer == x.layer && appended == nil {
			all = append(all, simPrefix{min(n, length), x.k.L}, // cut before it grew,
				simPrefix{min(n, length), max(0, min(n-length, x.k.L))}) // or grown before it was cut
			if truncated != nil {
				all = append(all, simPrefix{length, x.k.L})
			}
		}
		got := u.far.Len(layer)
		i := slices.IndexFunc(all, func(p simPrefix) bool { return p.keep+p.add == got })
		if i < 0 {
			u.Errorf("%s: layer %d has %d tokens, want one of %v: Append to %d of %d: %v, Truncate to %d: %v",
				u.name, layer, got, all, x.layer, x.k.L, appended, n, truncated)
			continue
		}
		must(u, s.Truncate(all[i].keep))
		must(u, s.Append(x.k.Slice(0, all[i].add), x.v.Slice(0, all[i].add)))
	}
	return errors.Join(appended, truncated)
}

// simPrefix is how many tokens of a layer stay, and how many of an append follow them.
type simPrefix struct{ keep, add int }

// release gives the sequence back, and begins another one.
func (u *simUser) release() {
	u.far.Release()
	u.fresh()
}

// documented notes an error, which has to be one that the documentation names.
func (u *simUser) documented(what string, err error) error {
	kind := "done"
	if err != nil {
		kind = "UNDOCUMENTED"
		for name, x := range map[string]error{"lost": ErrLost, "unavailable": ErrUnavailable,
			"capacity": attn.ErrCapacity, "limit": ErrLimit, "length": attn.ErrLength,
			"protocol": ErrProtocol, "busy": ErrBusy} {
			if errors.Is(err, x) {
				kind = name
			}
		}
	}
	u.mu.Lock()
	u.stats[what+" "+kind]++
	u.mu.Unlock()
	if kind == "UNDOCUMENTED" {
		u.Errorf("%s: %s: %v is no error that the documentation names", u.name, what, err)
	}
	if kind == "length" && what != "Append" {
		u.Errorf("%s: %s: %v", u.name, what, err)
	}
	return err
}

// afterLoss makes sure that what is said to be lost is, and begins anew.
func (u *simUser) afterLoss(err error) {
	var lost *LostError
	if !errors.As(err, &lost) {
		return
	}
	if u.safe {
		u.Errorf("%s: %v, though a copy was left of everything", u.name, err)
	}
	for part := lost.From / u.far.tokens; part*u.far.tokens < lost.To; part++ {
		if holder := u.holder(u.far, part); holder != "" {
			u.Errorf("%s: %v, but %s has a copy", u.name, err, holder)
		}
	}
	u.release()
}

// holder is a worker that has all tokens of a part in a copy that the client has counted on, and
// that it could reach all the time, "" if there is none.
func (u *simUser) holder(s *Sequence, index int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index >= len(s.parts) {
		return ""
	}
	want, epoch := s.lengthsIn(s.parts[index], s.lengths), s.parts[index].epoch
	for _, n := range u.running() {
		lately := time.Now().Add(-4 * time.Second) // when what comes now may have been sent
		if n.process.away.After(lately) || u.caller.away.After(lately) {
			continue
		}
		w := n.worker
		w.mu.Lock()
		o := w.clients[s.client.id]
		var parts []*part
		if o != nil {
			for _, p := range o.copies {
				parts = append(parts, p)
			}
		}
		w.mu.Unlock()
		for _, p := range parts {
			if p.sequence != s.id || int(p.part) != index || p.epoch != epoch || !u.counted[p.copy] {
				continue
			}
			whole := true
			for i, n := range p.lengths() {
				whole = whole && n >= want[i]
			}
			if whole {
				return n.name
			}
		}
	}
	return ""
}
