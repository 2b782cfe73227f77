package cluster

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/seed-1415985d/attn"
)

// simUser is who has some sequences of a shape: what it does with them it does with one machine's,
// too, and compares.
type simUser struct {
	*world
	name      string
	rand      *rand.Rand
	pairs     *rand.Rand // another one, for what has an element for each pair of query and key
	config    SequenceConfig
	heads     int
	store     *attn.Store
	sequences []*simSequence
	ample     bool // what it does has ample time
}

// sharedSource is random numbers of what goes on at the same time.
type sharedSource struct {
	drawing sync.Mutex
	source  rand.Source
}

func (s *sharedSource) Uint64() uint64 {
	s.drawing.Lock()
	defer s.drawing.Unlock()
	return s.source.Uint64()
}

// simSequence is a sequence of the cluster, and the same on one machine.
type simSequence struct {
	*simUser
	far  *Sequence
	near []*attn.Sequence // layers
}

func (w *world) user(name string, seed uint64) *simUser {
	r := rand.New(&sharedSource{source: rand.NewPCG(w.seed, seed)})
	c := SequenceConfig{Layers: 1 + r.IntN(3), KVHeads: 1, HeadDim: 4, ValueDim: 4}
	f := formats[r.IntN(len(formats))]
	c.Format, c.ValueFormat = f.keys, f.values
	u := &simUser{world: w, name: name, rand: r, config: c, heads: 2,
		pairs: rand.New(rand.NewPCG(w.seed, seed|1<<33))}
	store, err := attn.NewStore(attn.StoreConfig{KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		ValueDim: c.ValueDim, Pages: 1024, Format: c.Format, ValueFormat: c.ValueFormat})
	must(w, err)
	u.store = store
	for range 1 + r.IntN(2) {
		s := &simSequence{simUser: u}
		s.fresh()
		u.sequences = append(u.sequences, s)
	}
	return u
}

// act does something with one of the sequences, or with all.
func (u *simUser) act() {
	for _, s := range u.sequences {
		if s.closed() {
			s.fresh()
		}
	}
	if u.rand.IntN(8) == 0 {
		u.steps(u.until(), u.rand.IntN(u.config.Layers))
		return
	}
	u.sequences[u.rand.IntN(len(u.sequences))].act()
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
	u.ample = false
	switch u.rand.IntN(10) {
	case 0, 1:
		d = between(u.rand, time.Millisecond, time.Second)
	case 2:
		d = between(u.rand, time.Second, 5*time.Second)
	default:
		u.ample = true
	}
	return time.Now().Add(d)
}

// later calls something after a moment, with as much more time: what begins together does not run
// out of time at the same instant, when it would end in any order.
func (u *simUser) later(until time.Time, call func(ctx context.Context)) func() {
	moment := between(u.rand, 0, time.Millisecond)
	return func() {
		time.Sleep(moment)
		ctx, cancel := context.WithDeadline(context.Background(), until.Add(moment))
		defer cancel()
		call(ctx)
	}
}

// fresh begins a new sequence.
func (u *simSequence) fresh() {
	for _, s := range u.near {
		s.Release()
	}
	u.near = nil
	for range u.config.Layers {
		u.near = append(u.near, u.store.NewSequence())
	}
	var err error
	if u.far, err = u.theClient().NewSequence(u.config); err != nil {
		u.Errorf("NewSequence: %v", err)
	}
}

// act does something with the sequence.
func (u *simSequence) act() {
	until := u.until()
	switch x := u.rand.IntN(100); {
	case x < 15:
		u.afterLoss(u.append(until, u.all(), u.count()))
	case x < 35:
		layers := []int{u.layer()}
		if u.tight {
			layers = u.all()
		}
		u.afterLoss(u.stepLayers(until, layers, 1+u.rand.IntN(3)))
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

func (u *simSequence) tokens(layers []int, n int) (all []simTokens) {
	for _, layer := range layers {
		if u.near[layer].Len()+n <= simMost {
			all = append(all, simTokens{layer, u.tensor(u.config.KVHeads, n, u.config.HeadDim),
				u.tensor(u.config.KVHeads, n, u.config.ValueDim)})
		}
	}
	return all
}

// append adds tokens to layers at the same time.
func (u *simSequence) append(until time.Time, layers []int, n int) error {
	all := u.tokens(layers, n)
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, x := range all {
		wg.Go(u.later(until, func(ctx context.Context) {
			errs[i] = u.documented(u.far, "Append", u.far.Append(ctx, x.layer, x.k, x.v))
		}))
	}
	wg.Wait()
	for i, x := range all {
		if errs[i] == nil {
			must(u, u.near[x.layer].Append(x.k, x.v))
		}
		if got, want := u.far.Len(x.layer), u.near[x.layer].Len(); got != want && !u.closed() {
			u.Errorf("%s: layer %d has %d tokens, want %d after an append of %d: %v", u.name, x.layer, got,
				want, x.k.L, errs[i])
		}
	}
	return errors.Join(errs...)
}

// attend compares the attention of some rows over a layer.
func (u *simSequence) attend(until time.Time, layer, rows int) (err error) {
	x := u.compare("Attend", layer, rows, true)
	u.later(until, func(ctx context.Context) { err = x.ask(ctx) })()
	return err
}

// step adds some tokens to a layer, and compares what they see.
func (u *simSequence) step(until time.Time, layer, n int) error {
	return u.stepLayers(until, []int{layer}, n)
}

// stepLayers is step for layers at the same time.
func (u *simSequence) stepLayers(until time.Time, layers []int, n int) error {
	all := u.tokens(layers, n)
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, t := range all {
		must(u, u.near[t.layer].Append(t.k, t.v))
		x := u.compare("Step", t.layer, n, true)
		wg.Go(u.later(until, func(ctx context.Context) {
			errs[i] = u.far.Step(ctx, t.layer, x.got, x.q, t.k, t.v, &x.opt)
			x.check(errs[i])
		}))
	}
	wg.Wait()
	for i, t := range all {
		if errs[i] != nil {
			must(u, u.near[t.layer].Truncate(u.near[t.layer].Len()-n))
		}
		u.sameLength(t.layer, errs[i])
	}
	return errors.Join(errs...)
}

func (u *simSequence) sameLength(layer int, err error) {
	if got, want := u.far.Len(layer), u.near[layer].Len(); got != want && !u.closed() {
		u.Errorf("%s: layer %d has %d tokens, want %d: %v", u.name, layer, got, want, err)
	}
}

// steps adds a token to a layer of each sequence, and compares what it sees.
func (u *simUser) steps(until time.Time, layer int) {
	var far []*Sequence
	var all []*simAnswer
	var tokens []simTokens
	for _, s := range u.sequences {
		more := s.tokens([]int{layer}, 1)
		if len(more) == 0 {
			return
		}
		tokens = append(tokens, more[0])
	}
	for i, s := range u.sequences {
		must(u, s.near[layer].Append(tokens[i].k, tokens[i].v))
		far, all = append(far, s.far), append(all, s.compare("Steps", layer, 1, false))
		all[i].opt = all[0].opt
		all[i].expect()
		all[i].begun = time.Now()
	}
	n := len(far)
	pack := func(heads, d int, of func(i int) attn.Tensor) attn.Tensor {
		x := attn.BLHD(make([]float32, n*heads*d), 1, n, heads, d)
		for i := range n {
			for h := range heads {
				copy(x.Row(0, h, i), of(i).Row(0, h, 0))
			}
		}
		return x
	}
	c := &u.config
	q := pack(u.heads, c.HeadDim, func(i int) attn.Tensor { return all[i].q })
	k := pack(c.KVHeads, c.HeadDim, func(i int) attn.Tensor { return tokens[i].k })
	v := pack(c.KVHeads, c.ValueDim, func(i int) attn.Tensor { return tokens[i].v })
	dst := pack(u.heads, c.ValueDim, func(i int) attn.Tensor { return all[i].got })
	errs := make([]error, n)
	u.later(until, func(ctx context.Context) {
		err := far[0].client.Steps(ctx, layer, dst, q, k, v, far, &all[0].opt)
		if some := new(StepsError); errors.As(err, &some) {
			copy(errs, some.Errs)
		} else if err != nil {
			u.Errorf("%s: Steps: %v", u.name, err)
		}
	})()
	for i, s := range u.sequences {
		for h := range u.heads {
			copy(all[i].got.Row(0, h, 0), dst.Row(0, h, i))
		}
		all[i].check(errs[i])
		if errs[i] != nil {
			must(u, s.near[layer].Truncate(s.near[layer].Len()-1))
		}
		s.sameLength(layer, errs[i])
		s.afterLoss(errs[i])
	}
}

// simAnswer is what is asked, and what the answer has to be.
type simAnswer struct {
	*simSequence
	what      string
	layer     int
	opt       attn.Options
	q         attn.Tensor
	got, want attn.Tensor
	begun     time.Time // if not zero: an error is of any time since then
}

// ask asks, and compares.
func (x *simAnswer) ask(ctx context.Context) error {
	err := x.far.Attend(ctx, x.layer, x.got, x.q, &x.opt)
	x.check(err)
	return err
}

// compare prepares a question to the tokens that one machine has now, which may have something for
// each pair of a query and a key.
func (u *simSequence) compare(what string, layer, rows int, pairs bool) *simAnswer {
	x := &simAnswer{simSequence: u, what: what, layer: layer,
		opt: attn.Options{Causal: attn.BottomRight}, q: u.tensor(u.heads, rows, u.config.HeadDim),
		got: u.output(rows), want: u.output(rows)}
	if u.rand.IntN(3) == 0 {
		x.opt.Window = attn.Window{Left: 1 + u.rand.IntN(2000), Right: 1}
	}
	x.opt.Integers = u.config.Format >= attn.I8 && u.rand.IntN(2) == 0
	if pairs {
		x.drawPairs(u.near[layer].Len())
	}
	x.expect()
	return x
}

// drawPairs sometimes gives a question Blocks, a Mask or a Bias, which often hide whole parts.
func (x *simAnswer) drawPairs(keys int) {
	r, rows := x.pairs, x.q.L
	kind := r.IntN(9)
	if kind > 2 || keys == 0 {
		return
	}
	sees := make([]bool, blocksOf(keys))
	for i := range sees {
		if sees[i] = r.IntN(3) == 0; i%16 > 0 && r.IntN(8) > 0 {
			sees[i] = sees[i-1]
		}
	}
	switch kind {
	case 0:
		x.opt.Blocks = attn.BHLD(sees, 1, 1, 1, len(sees))
	case 1:
		m := attn.BHLD(make([]bool, rows*keys), 1, 1, rows, keys)
		for i := range m.Data {
			m.Data[i] = sees[i%keys/attn.Block] && i%5 > 0
		}
		x.opt.Mask = m
	case 2:
		b := attn.BHLD(make([]float32, x.heads*rows*keys), 1, x.heads, rows, keys)
		for i := range b.Data {
			if b.Data[i] = float32(i % 7); !sees[i%keys/attn.Block] {
				b.Data[i] = float32(math.Inf(-1))
			}
		}
		x.opt.Bias = b
	}
}

// expect lets one machine answer.
func (x *simAnswer) expect() {
	opt := x.opt
	opt.QueryLens = []int{x.q.L}
	must(x, attn.AttendSequences(x.want, x.q, x.near[x.layer:x.layer+1], &opt))
}

// check compares an answer. With an error, nothing was written.
func (x *simAnswer) check(err error) {
	if x.documentedSince(x.far, x.what, err, cmp.Or(x.begun, time.Now())) != nil {
		x.want = x.output(x.q.L)
	}
	for i, want := range x.want.Data {
		if got := x.got.Data[i]; math.Float32bits(got) != math.Float32bits(want) {
			x.Errorf("%s: %s of layer %d: element %d is %v, want %v: %v", x.name, x.what, x.layer, i, got,
				want, err)
			return
		}
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
func (u *simSequence) truncate(until time.Time) error {
	_, longest := u.lengths()
	n := longest - u.rand.IntN(min(longest, 80)+1)
	if u.rand.IntN(3) == 0 {
		n = u.rand.IntN(longest + 1)
	}
	return u.truncateTo(until, n)
}

// truncateTo leaves n tokens of each layer.
func (u *simSequence) truncateTo(until time.Time, n int) (err error) {
	before, _ := u.lengths()
	u.later(until, func(ctx context.Context) {
		err = u.documented(u.far, "Truncate", u.far.Truncate(ctx, n))
	})()
	u.cutTo(n, before, err)
	return err
}

func (u *simSequence) lengths() (all []int, longest int) {
	for _, s := range u.near {
		all = append(all, s.Len())
		longest = max(longest, s.Len())
	}
	return all, longest
}

// cutTo cuts what the one machine has as the cluster has been: all layers, or after an error
// perhaps none.
func (u *simSequence) cutTo(n int, before []int, err error) {
	cut := err == nil
	for layer, length := range before {
		cut = cut || u.far.Len(layer) < length
	}
	for layer, length := range before {
		want := length
		if cut {
			want = min(n, length)
		}
		if got := u.far.Len(layer); got != want && !u.closed() {
			u.Errorf("%s: layer %d has %d tokens, want %d after Truncate to %d of %d: %v", u.name, layer,
				got, want, n, length, err)
		}
		must(u, u.near[layer].Truncate(want))
	}
}

// appendAndAttend attends to the tokens that there are, while more come.
func (u *simSequence) appendAndAttend(until time.Time) error {
	x := u.compare("Attend", u.layer(), 1, false) // there may be more keys, or fewer
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { // before there is more
		ctx, cancel := context.WithDeadline(context.Background(), until)
		defer cancel()
		err = x.ask(ctx)
	})
	appended := u.append(until, u.all(), u.count())
	wg.Wait()
	return errors.Join(err, appended)
}

// appendAndTruncate appends to a layer while all are cut: one is before the other.
func (u *simSequence) appendAndTruncate(until time.Time) error {
	all := u.tokens([]int{u.layer()}, u.count())
	_, longest := u.lengths()
	if len(all) == 0 || longest == 0 {
		return nil
	}
	x, n := all[0], u.rand.IntN(longest)
	var appended, truncated error
	var wg sync.WaitGroup
	wg.Go(u.later(until, func(ctx context.Context) {
		appended = u.documented(u.far, "Append", u.far.Append(ctx, x.layer, x.k, x.v))
	}))
	wg.Go(u.later(until, func(ctx context.Context) {
		truncated = u.documented(u.far, "Truncate", u.far.Truncate(ctx, n))
	}))
	wg.Wait()
	for layer, s := range u.near {
		if u.closed() {
			break
		}
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
			u.Errorf("%s: layer %d has %d tokens, want one of %v: Append to %d of %d: %v, Truncate to "+
				"%d: %v", u.name, layer, got, all, x.layer, x.k.L, appended, n, truncated)
			continue
		}
		must(u, s.Truncate(all[i].keep))
		must(u, s.Append(x.k.Slice(0, all[i].add), x.v.Slice(0, all[i].add)))
	}
	return errors.Join(appended, truncated)
}

// simPrefix is how many tokens of a layer stay, and how many of an append follow them.
type simPrefix struct{ keep, add int }

// closed reports whether the client has vanished, and with it what the sequence had.
func (u *simSequence) closed() bool { return u.far.client != u.theClient() }

// release gives the sequence back, and begins another one.
func (u *simSequence) release() {
	u.far.Release()
	u.fresh()
}

// documented notes an error, which has to be one that the documentation names.
func (u *simUser) documented(from *Sequence, what string, err error) error {
	return u.documentedSince(from, what, err, time.Now())
}

// documentedSince is documented for an error that has come at some time since then.
func (u *simUser) documentedSince(from *Sequence, what string, err error, then time.Time) error {
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
		if errors.Is(err, attn.ErrClosed) && from.client != u.theClient() {
			kind = "closed"
		}
	}
	u.mu.Lock()
	u.stats[what+" "+kind]++
	u.mu.Unlock()
	if kind == "UNDOCUMENTED" {
		u.Errorf("%s: %s: %v is no error that the documentation names", u.name, what, err)
	}
	if u.calm && u.ample && err != nil && kind != "length" {
		u.Errorf("%s: %s: %v, where nothing fails", u.name, what, err)
	}
	if kind == "length" && what != "Append" {
		u.Errorf("%s: %s: %v", u.name, what, err)
	}
	u.trulyLost(from, err, then)
	return err
}

// trulyLost makes sure that what is said to be lost is.
func (u *simUser) trulyLost(from *Sequence, err error, then time.Time) {
	var lost *LostError
	if !errors.As(err, &lost) {
		return
	}
	if u.safe {
		u.Errorf("%s: %v, though a copy was left of everything", u.name, err)
	}
	for part := lost.From / from.tokens; part*from.tokens < lost.To; part++ {
		if holder := u.holder(from, part, then); holder != "" {
			u.Errorf("%s: %v, but %s has a copy", u.name, err, holder)
		}
	}
}

// afterLoss begins anew where something is lost.
func (u *simSequence) afterLoss(err error) {
	if errors.Is(err, ErrLost) {
		u.release()
	}
}

// holder is a worker that has all tokens of a part in a copy that the client has counted on since
// before then, and that it could reach all the time, "" if there is none.
func (u *simUser) holder(s *Sequence, index int, then time.Time) string {
	u.mu.Lock()
	counted := u.counted[simPart{s.client.id, s.id, index}] // which is not written to any more
	u.mu.Unlock()
	parts := s.all()
	if index >= len(parts) {
		return ""
	}
	// What an append that failed has brought to a copy, others were given up for.
	s.mu.Lock()
	want, epoch := s.lengthsIn(parts[index], s.taken), parts[index].epoch
	s.mu.Unlock()
	for _, n := range u.running() {
		lately := then.Add(-4 * time.Second) // when what came then may have been sent
		if n.process.away.After(lately) || u.caller.away.After(lately) {
			continue
		}
		for _, p := range n.worker.copiesOf(s.client.id) {
			x, ok := counted[p.copy]
			if !ok || x.since.After(then) || p.epoch != epoch {
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
