package cluster

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/seed-1415985d/attn"
)

// part is a copy of a part of a sequence, on a worker. Changes of all layers hold the part's lock
// for writing, changes of a layer that layer's.
type part struct {
	createRequest
	arena   *arena
	long    int                                // most tokens of a run
	copying chan struct{}                      // has an element while a request to copy runs,
	copied  int                                // which continues with this layer,
	copier  atomic.Pointer[context.CancelFunc] // and this ends the previous one

	mu     sync.RWMutex
	gone   bool
	layers []partLayer
}

// partLayer is the tokens of a layer.
type partLayer struct {
	mu     sync.RWMutex
	length int
	runs   []*run
	grown  bool // tokens were appended: nothing is copied to it any more
}

func newPart(r createRequest, a *arena) *part {
	return &part{createRequest: r, arena: a, long: runTokens(&r), copying: make(chan struct{}, 1),
		layers: make([]partLayer, r.shape.Layers)}
}

// runBytes is about the largest size of a run of several segments: memory pauses at the end of a
// run, but a run is read by one thread, and copied by one message.
const runBytes = 4 << 20

// runBytes returns about the largest size of a run of the part, in memory and in messages.
func (p *part) runBytes() int64 {
	config := p.shape.storeConfig()
	return int64(p.long) / attn.Block * pageBytes(&config)
}

// runTokens returns the most tokens of a run of a part: a power of two of segments.
func runTokens(r *createRequest) int {
	config := r.shape.storeConfig()
	n := attn.Segment
	for 2*n <= r.tokens && 2*int64(n)/attn.Block*pageBytes(&config) <= runBytes {
		n *= 2
	}
	return n
}

// layer locks the part for reading and returns one of its layers, or an error if the epoch or the
// layer is wrong. The caller unlocks the part if there is no error.
func (p *part) layer(epoch, layer uint32) (*partLayer, error) {
	p.mu.RLock()
	var err error
	switch {
	case p.gone:
		err = fail(errUnknown, "copy %d was released", p.copy)
	case p.epoch != epoch:
		err = fail(errStale, "copy %d is of epoch %d, want %d", p.copy, p.epoch, epoch)
	case int64(layer) >= int64(len(p.layers)):
		err = fail(attn.ErrOption, "layer is %d, want 0 to %d", layer, len(p.layers)-1)
	default:
		return &p.layers[layer], nil
	}
	p.mu.RUnlock()
	return nil, err
}

// append adds the tokens of a message that the layer does not have yet, all or none.
func (p *part) append(r *appendRequest) (length int, err error) {
	l, err := p.layer(r.epoch, r.layer)
	if err != nil {
		return 0, err
	}
	defer p.mu.RUnlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	tokens := r.tokens()
	switch {
	case int64(r.position)+tokens > int64(p.tokens):
		return 0, fail(attn.ErrLength, "position %d and %d tokens, want at most %d in a part", r.position,
			tokens, p.tokens)
	case r.position > l.length:
		return 0, fail(errStale, "position is %d, want at most %d, the tokens that are there", r.position,
			l.length)
	}
	for i := range r.pieces {
		if err := r.pieces[i].check(p); err != nil {
			return 0, err
		}
	}
	l.grown = true
	before, at := l.length, r.position
	for i := range r.pieces {
		if err := p.appendPiece(l, &r.pieces[i], at); err != nil {
			p.cut(l, before)
			return 0, err
		}
		at += r.pieces[i].tokens
	}
	return l.length, nil
}

// appendPiece adds the tokens of a piece, which begins at position, that the layer does not have
// yet.
func (p *part) appendPiece(l *partLayer, added *tokenPiece, position int) error {
	if l.length >= position+added.tokens {
		return nil
	}
	if len(added.saved) > 0 {
		if l.length != position || l.length%p.long != 0 {
			return fail(errStale, "a run begins at %d after %d tokens, want it after them, at a multiple "+
				"of %d", position, l.length, p.long)
		}
		return p.appendRun(l, added.saved, added.tokens)
	}
	for l.length < position+added.tokens {
		if err := p.appendSome(l, added, l.length-position); err != nil {
			return err
		}
	}
	return nil
}

// appendSome adds tokens of a piece from number at on, as many as fit one run.
func (p *part) appendSome(l *partLayer, added *tokenPiece, at int) (err error) {
	n := min(added.tokens-at, p.long-l.length%p.long)
	last, fresh := l.last(), false
	if last == nil || l.length%p.long == 0 {
		last, fresh = nil, true
	} else if l.length%attn.Block == 0 && last.slab.store.FreePages() == 0 {
		last, fresh = nil, true
	}
	if fresh {
		if last, err = p.arena.newRun(p.shape.storeConfig(), pagesOf(n)); err != nil {
			return err
		}
	}
	err = added.appendTo(last, &p.shape, at, at+n)
	if errors.Is(err, attn.ErrCapacity) { // the slab has fewer pages, and others use the rest
		room := -l.length&(attn.Block-1) + attn.Block*last.slab.store.FreePages()
		if n = min(n, room); n > 0 {
			err = added.appendTo(last, &p.shape, at, at+n)
		}
	}
	if err != nil {
		if fresh {
			p.arena.free(last)
		}
		return err
	}
	if fresh {
		l.runs = append(l.runs, last)
	}
	p.grow(l, n)
	return nil
}

// grow counts added tokens of a layer, or removed ones if negative. Its lock is held.
func (p *part) grow(l *partLayer, tokens int) {
	l.length += tokens
	p.arena.tokens.Add(int64(tokens))
}

// pagesOf returns the number of pages of some tokens.
func pagesOf(tokens int) int { return (tokens + attn.Block - 1) / attn.Block }

// last returns the last run of a layer, nil if there is none.
func (l *partLayer) last() *run {
	if len(l.runs) == 0 {
		return nil
	}
	return l.runs[len(l.runs)-1]
}

// cut keeps the first n tokens of a layer. Its lock is held.
func (p *part) cut(l *partLayer, n int) {
	for l.length > n {
		last := l.last()
		first := l.length - last.Len()
		if first < n {
			_ = last.Truncate(n - first) // it has more
			p.grow(l, n-l.length)
			return
		}
		p.arena.free(last)
		l.runs = l.runs[:len(l.runs)-1]
		p.grow(l, first-l.length)
	}
}

// truncate cuts all layers, and from then on refuses requests of an earlier epoch.
func (p *part) truncate(r *truncateRequest) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.gone:
		return fail(errUnknown, "copy %d was released", p.copy)
	case len(r.lengths) != len(p.layers):
		return fail(attn.ErrLength, "%d lengths, want one for each of %d layers", len(r.lengths),
			len(p.layers))
	case r.epoch == p.epoch:
		return nil // the request was repeated
	case r.epoch < p.epoch:
		return fail(errStale, "copy %d is of epoch %d, want less than %d", p.copy, p.epoch, r.epoch)
	case p.epoch < r.since:
		return fail(errStale, "copy %d is of epoch %d, want at least %d", p.copy, p.epoch, r.since)
	}
	for i := range p.layers {
		if l := &p.layers[i]; int64(l.length) < int64(r.lengths[i]) {
			return fail(errStale, "layer %d has %d tokens, want at least %d", i, l.length, r.lengths[i])
		}
	}
	p.epoch = r.epoch
	for i := range p.layers {
		p.cut(&p.layers[i], int(r.lengths[i]))
	}
	return nil
}

// release frees everything.
func (p *part) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	for i := range p.layers {
		p.cut(&p.layers[i], 0)
	}
}

// read returns a run of a layer, none if it has fewer runs.
func (p *part) read(r *readRequest) (reply readReply, err error) {
	l, err := p.layer(r.epoch, r.layer)
	if err != nil {
		return reply, err
	}
	defer p.mu.RUnlock()
	l.mu.RLock()
	defer l.mu.RUnlock()
	reply.runs = len(l.runs)
	if int64(r.run) < int64(len(l.runs)) {
		x, b := l.runs[r.run], bytes.Buffer{}
		size := (x.Len() + attn.Block - 1) / attn.Block * int(pageBytes(&x.slab.config))
		b.Grow(size + size/8 + 1024) // with scales and checksums
		_, err = x.Save(&b)
		reply.saved = b.Bytes()
	}
	return reply, err
}

// load stores a run from another copy as run number i. A copy request may arrive twice, and late: a
// run that was loaded already, or a layer that was appended to since, does not change.
func (p *part) load(epoch uint32, layer, i int, saved []byte) error {
	l, err := p.layer(epoch, uint32(layer))
	if err != nil {
		return err
	}
	defer p.mu.RUnlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grown || i > len(l.runs) {
		return fail(errStale, "run %d of a layer that has %d: it was appended to, or one is missing", i,
			len(l.runs))
	}
	if i < len(l.runs)-1 {
		return nil
	}
	before := l.length // tokens before the run
	if i < len(l.runs) {
		before -= l.last().Len()
	}
	r, err := p.loadRun(saved, 0, before)
	if err != nil {
		return err
	}
	if before+r.Len() <= l.length {
		p.arena.free(r)
		return nil
	}
	p.cut(l, before)
	l.runs = append(l.runs, r)
	p.grow(l, r.Len())
	return nil
}

// appendRun appends a saved run to a layer, whose lock is held.
func (p *part) appendRun(l *partLayer, saved []byte, tokens int) error {
	r, err := p.loadRun(saved, tokens, l.length)
	if err != nil {
		return err
	}
	l.runs = append(l.runs, r)
	p.grow(l, tokens)
	return nil
}

// loadRun reads a saved run, after before tokens. It must have tokens tokens, unless tokens is 0.
func (p *part) loadRun(saved []byte, tokens, before int) (*run, error) {
	config := p.shape.storeConfig()
	pages := len(saved)/int(pageBytes(&config)) + 1 // with checksums, slightly more than it needs
	if tokens > 0 {
		pages = pagesOf(tokens)
	}
	r, err := p.arena.newRun(config, min(pages, p.long/attn.Block))
	if err != nil {
		return nil, err
	}
	read, err := r.Load(bytes.NewReader(saved))
	n := r.Len()
	switch {
	case err != nil:
	case int(read) != len(saved) || r.First() != 0 || n == 0 || before%attn.Block != 0,
		n > p.long-before%p.long, before+n > p.tokens, tokens > 0 && n != tokens:
		err = fail(ErrProtocol, "a run of %d tokens after %d, want an end at a multiple of %d or "+
			"before", n, before, p.long)
	}
	if err != nil {
		p.arena.free(r)
		return nil, err
	}
	return r, nil
}

// lengths returns the number of tokens of each layer.
func (p *part) lengths() []uint32 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	n := make([]uint32, len(p.layers))
	for i := range p.layers {
		l := &p.layers[i]
		l.mu.RLock()
		n[i] = uint32(l.length)
		l.mu.RUnlock()
	}
	return n
}
