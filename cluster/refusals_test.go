package cluster

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed-1415985d/attn"
)

// refusal is what is to be refused, as what, with which words.
type refusal struct {
	kind error
	text string
}

func (r refusal) check(t *testing.T, name string, err error) {
	t.Helper()
	if !errors.Is(err, r.kind) || !strings.Contains(err.Error(), r.text) {
		t.Errorf("%s: the error is %v, want %v with %q", name, err, r.kind, r.text)
	}
}

// A worker refuses requests that are well-formed but wrong, and nothing changes.
func TestRefusedRequests(t *testing.T) {
	l := new(loop)
	w, err := NewWorker(l, WorkerConfig{Name: "w", Memory: 1 << 20, Threads: 1, Copies: 2,
		Sequences: 1})
	must(t, err)
	defer w.Close()
	id := clientID{1}
	ask := func(request []byte) error {
		reply, _ := l.Call(context.Background(), "w", request)
		_, err := outcomes(request, reply)
		return err
	}
	create := func(change func(*createRequest)) []byte {
		r := createRequest{copy: 1, tokens: 1024, lease: 1000,
			shape: shape{2, 1, 4, 4, attn.F32, attn.F32, false}}
		change(&r)
		return r.encode(id)
	}
	tokens := func(change func(*appendRequest)) []byte {
		r := appendRequest{copy: 1, pieces: []tokenPiece{{tokens: 2,
			k: make([]byte, 32), v: make([]byte, 32)}}}
		change(&r)
		return r.encode(id)
	}
	must(t, ask(create(func(*createRequest) {})))
	must(t, ask(tokens(func(*appendRequest) {})))
	before := w.Status()
	for name, x := range map[string]struct {
		request []byte
		refusal
	}{
		"another version": {[]byte("aCm\x02........................"),
			refusal{ErrProtocol, "want 086d4361: version 8"}},
		"no such request": {encodeRequest(77, id, nothing{}),
			refusal{ErrProtocol, "a request asks for 77"}},
		"more behind": {append(encodeRequest(opStatus, id, nothing{}), 1),
			refusal{ErrProtocol, "1 bytes follow the end"}},
		"no layers": {create(func(r *createRequest) { r.shape.Layers = 0 }),
			refusal{attn.ErrShape, "ValueDim are 0, 1, 4 and 4"}},
		"a huge head": {create(func(r *createRequest) { r.shape.HeadDim = 1 << 17 }),
			refusal{attn.ErrShape, "ValueDim are 2, 1, 131072 and 4"}},
		"values beyond keys": {create(func(r *createRequest) {
			r.shape.ValuesInKeys, r.shape.ValueDim = true, 5
		}), refusal{attn.ErrShape, "want at most HeadDim, 4"}},
		"a format": {create(func(r *createRequest) { r.shape.Format = 9 }),
			refusal{attn.ErrOption, "want F32, F16, BF16, I8 or I4"}},
		"a value's format": {create(func(r *createRequest) { r.shape.ValueFormat = 5 }),
			refusal{attn.ErrOption, "ValueFormat is Format(5)"}},
		"values of more bits": {create(func(r *createRequest) { r.shape.Format = attn.I8 }),
			refusal{attn.ErrOption, "ValueFormat is F32, want F16"}},
		"values in keys of another format": {create(func(r *createRequest) {
			r.shape.ValuesInKeys, r.shape.Format, r.shape.ValueFormat = true, attn.I8, attn.I4
		}), refusal{attn.ErrOption, "ValueFormat is I4 with ValuesInKeys"}},
		"a page above all memory": {create(func(r *createRequest) { r.shape.HeadDim = 1 << 16 }),
			refusal{attn.ErrCapacity, "more than the 1048576 bytes"}},
		"a size above sizes": {create(func(r *createRequest) { r.tokens = 1 << 29 }),
			refusal{ErrProtocol, "tokens is 536870912, want at most 268435456"}},
		"another sequence": {create(func(r *createRequest) { r.copy, r.sequence = 2, 2 }),
			refusal{ErrLimit, "1 sequences are here, want at most 1"}},
		"past the part": {tokens(func(r *appendRequest) { r.position = 1023 }),
			refusal{attn.ErrLength, "want at most 1024 in a part"}},
		"too few elements": {tokens(func(r *appendRequest) { r.pieces[0].k = r.pieces[0].k[:31] }),
			refusal{attn.ErrShape, "k and v have 31 and 32 bytes"}},
		"a run beside elements": {tokens(func(r *appendRequest) { r.pieces[0].saved = []byte{1} }),
			refusal{attn.ErrShape, "a run of 2 tokens has 32 and 32 bytes of elements, want none"}},
		"a run in a segment": {tokens(func(r *appendRequest) {
			r.position, r.pieces = 2, []tokenPiece{{tokens: 64, saved: []byte{1}}}
		}), refusal{errStale, "a run begins at 2 after 2 tokens"}},
		"a run that is none": {tokens(func(r *appendRequest) {
			r.layer, r.pieces = 1, []tokenPiece{{tokens: 64, saved: make([]byte, 99)}}
		}), refusal{ErrInternal, "the file begins with"}},
		"more tokens than 32 bits have": {tokens(func(r *appendRequest) {
			for range 9 {
				r.pieces = append(r.pieces, tokenPiece{tokens: maxLength})
			}
		}), refusal{attn.ErrLength, "position 0 and 2415919106 tokens"}},
		"too many pieces": {tokens(func(r *appendRequest) {
			r.pieces = make([]tokenPiece, mostPieces+1)
		}), refusal{ErrProtocol, "there are 65537 pieces, want at most 65536"}},
		"too many pieces of two appends": {(&stepRequest{appends: []appendRequest{
			{pieces: slices.Repeat([]tokenPiece{{tokens: 1}}, mostPieces)},
			{pieces: make([]tokenPiece, 1)}}}).encode(id),
			refusal{ErrProtocol, "there are 65537 pieces, want at most 65536"}},
		"a piece of nothing": {tokens(func(r *appendRequest) {
			r.pieces = append(r.pieces, tokenPiece{})
		}), refusal{ErrProtocol, "a piece has 0 tokens, want at least 1"}},
		"too many parts": {(&attendRequest{groups: []attendGroup{
			{parts: slices.Repeat([]attendPart{{keys: 1}}, mostParts+1)}}}).encode(id),
			refusal{ErrProtocol, "there are 262145 parts, want at most 262144"}},
		"too many parts of two attentions": {(&stepRequest{attends: []attendRequest{
			{groups: []attendGroup{{parts: slices.Repeat([]attendPart{{keys: 1}}, mostParts)}}},
			{groups: apart(attendPart{})}}}).encode(id),
			refusal{ErrProtocol, "there are 262145 parts, want at most 262144"}},
		"too many cuts": {(&stepRequest{cuts: make([]truncateRequest, mostSteps+1)}).encode(id),
			refusal{ErrProtocol, "there are 4097 cuts, want at most 4096"}},
		"too many appends": {(&stepRequest{appends: make([]appendRequest, mostSteps+1)}).encode(id),
			refusal{ErrProtocol, "there are 4097 appends, want at most 4096"}},
		"too many attentions": {(&stepRequest{attends: make([]attendRequest, mostSteps+1)}).encode(id),
			refusal{ErrProtocol, "there are 4097 attentions, want at most 4096"}},
		"a layer": {tokens(func(r *appendRequest) { r.layer = 2 }),
			refusal{attn.ErrOption, "layer is 2, want 0 to 1"}},
		"truncate nothing": {(&truncateRequest{7, 1, 0, []uint32{0, 0}}).encode(id),
			refusal{errUnknown, "copy 7 is not here"}},
		"read nothing": {(&readRequest{copy: 7}).encode(id), refusal{errUnknown, "copy 7 is not here"}},
		"read a layer": {(&readRequest{copy: 1, layer: 3}).encode(id),
			refusal{attn.ErrOption, "layer is 3"}},
		"copy to nothing": {(&copyRequest{copy: 7, from: "w"}).encode(id),
			refusal{errUnknown, "copy 7 is not here"}},
		"copy from nothing": {(&copyRequest{copy: 1, from: "w", source: 9}).encode(id),
			refusal{errUnknown, "copy 9 is not here"}},
	} {
		x.check(t, name, ask(x.request))
	}
	w.kept.layers += maxLayers
	refusal{ErrLimit, "2 more are wanted, want at most 1048576"}.check(t, "a layer above all",
		ask(create(func(r *createRequest) { r.copy = 2 })))
	w.kept.layers -= maxLayers
	must(t, ask(create(func(r *createRequest) { r.copy = 2 })))
	refusal{ErrLimit, "2 copies are here, want at most 2"}.check(t, "a third copy",
		ask(create(func(r *createRequest) { r.copy = 3 })))
	after := w.Status()
	if after.Tokens != before.Tokens || after.Copies != 2 || after.Used != before.Used {
		t.Errorf("%+v, and before %+v", after, before)
	}
}

// What is asked of a part is refused for that part, and the others are answered.
func TestRefusedAttention(t *testing.T) {
	l := new(loop)
	w, err := NewWorker(l, WorkerConfig{Name: "w", Memory: 1 << 24, Threads: 1, Reply: 1000})
	must(t, err)
	defer w.Close()
	id := clientID{1, 2, 3} // as samples
	for _, request := range samples()[:2] {
		_, err := l.Call(context.Background(), "w", request)
		must(t, err)
	}
	ask := func(change func(*attendRequest)) (attendReply, error) {
		r := attendRequest{heads: 1, rows: 1, q: []float32{1, 2}, options: new(attn.Options),
			groups: apart(attendPart{copy: 1, keys: 2})}
		change(&r)
		data, err := l.Call(context.Background(), "w", r.encode(id))
		must(t, err)
		a, err := outcomes(r.encode(id), data)
		if err != nil {
			return attendReply{}, err
		}
		return a.attends[0], nil
	}
	for name, x := range map[string]struct {
		change func(*attendRequest)
		refusal
	}{
		"no copy": {func(r *attendRequest) { r.groups[0].parts[0].copy = 2 },
			refusal{errUnknown, "copy 2"}},
		"an epoch": {func(r *attendRequest) { r.groups[0].parts[0].epoch = 3 },
			refusal{errStale, "epoch 0, want 3"}},
		"a layer": {func(r *attendRequest) { r.layer = 2 }, refusal{attn.ErrOption, "layer is 2"}},
		"a third key": {func(r *attendRequest) { r.groups[0].parts[0].keys = 3 },
			refusal{errStale, "want at most 2"}},
		"another q": {func(r *attendRequest) { r.q = []float32{1} },
			refusal{attn.ErrShape, "q has 1"}},
		"Integers of F32": {func(r *attendRequest) { r.options.Integers = true },
			refusal{attn.ErrOption, "Integers"}},
		"a softcap": {func(r *attendRequest) { r.options.Softcap = -1 },
			refusal{attn.ErrOption, "Softcap"}},
		"heads of two": {func(r *attendRequest) { r.options.Slopes = []float32{1, 2} },
			refusal{attn.ErrLength, "Slopes"}},
	} {
		a, err := ask(func(r *attendRequest) {
			x.change(r)
			r.groups = append(r.groups, apart(attendPart{copy: 1, keys: 2})...)
		})
		must(t, err)
		x.check(t, name, a.groups[0].errors[0])
	}
	if _, err := ask(func(r *attendRequest) {
		r.heads, r.rows, r.q = 10, 10, make([]float32, 200)
	}); !errors.Is(err, ErrLimit) {
		t.Errorf("a reply above the limit: the error is %v", err)
	}
	for name, change := range map[string]func(*attendRequest){
		"more heads than elements": func(r *attendRequest) { r.heads = 3 },
		"a mask of more heads": func(r *attendRequest) {
			r.pairs.mask, r.groups[0].parts[0].mask = 2, make([]bool, 4)
		},
		"a mask of huge size": func(r *attendRequest) {
			r.pairs.mask, r.groups[0].parts[0].keys = 1, maxLength
		},
		"a bias of huge size": func(r *attendRequest) {
			p := &r.groups[0].parts[0]
			r.pairs.bias, p.keys, p.bias = 1, maxLength, make([]float32, 1)
		},
		"blocks of huge size": func(r *attendRequest) {
			r.pairs.blocks, r.groups[0].parts[0].keys = 1, maxLength
		},
		"no keys":            func(r *attendRequest) { r.groups[0].parts[0].keys = 0 },
		"an offset":          func(r *attendRequest) { r.groups[0].offset = 2*maxLength + 1 },
		"a group of nothing": func(r *attendRequest) { r.groups[0].parts = nil },
		"outputs of parts apart": func(r *attendRequest) {
			r.whole, r.groups = true, append(r.groups, r.groups[0])
		},
		"a window": func(r *attendRequest) { r.options.Window = attn.Window{Left: math.MaxInt} },
	} {
		_, err := ask(change)
		refusal{ErrProtocol, ""}.check(t, name, err)
	}
}

// A worker with as many calls as it may have refuses another one at once.
func TestBusy(t *testing.T) {
	l := new(loop)
	w, err := NewWorker(l, WorkerConfig{Name: "w", Memory: 1 << 20, Threads: 1, Calls: 1})
	must(t, err)
	defer w.Close()
	w.running <- struct{}{}
	reply, _ := l.Call(context.Background(), "w", samples()[8])
	_, err = decodeReply("w", reply)
	refusal{ErrBusy, "1 calls are running, want at most 1"}.check(t, "the second call", err)
	if s := w.Status(); s.Refused != 1 || s.Calls != 0 || s.Running != 1 {
		t.Errorf("%+v, want 1 refused and none done", s)
	}
	<-w.running
}

// Errors keep their kind on the way, and nothing of a worker's text can disturb a terminal.
func TestErrorsTravel(t *testing.T) {
	for code, kind := range codes {
		if kind == nil {
			continue
		}
		_, err := decodeReply("w", errorReply(fail(kind, "because\x1b[31m of \xff\n%d", code)))
		refusal{kind, "worker w: "}.check(t, kind.Error(), err)
		if strings.ContainsAny(err.Error(), "\x1b\n") || !utf8.ValidString(err.Error()) {
			t.Errorf("the text is %q", err.Error())
		}
	}
	_, err := decodeReply("w", errorReply(errors.New("something else")))
	refusal{ErrInternal, "something else"}.check(t, "an unknown kind", err)
	lost := &LostError{Sequence: 0xab, From: 5, To: 8, Cause: errStale}
	refusal{ErrLost, "positions 5 to 7 of sequence ab have no copy left"}.check(t, "LostError", lost)
	refusal{errStale, ""}.check(t, "LostError", lost)
}

// A client refuses arguments before anything is sent.
func TestRefusedArguments(t *testing.T) {
	b := newBench(t, 1, quick)
	for name, x := range map[string]struct {
		config ClientConfig
		refusal
	}{
		"Segments": {ClientConfig{Segments: 3}, refusal{attn.ErrOption, "Segments is 3, want a power"}},
		"Copies":   {ClientConfig{Copies: -1}, refusal{attn.ErrOption, "want numbers above 0"}},
		"Lease":    {ClientConfig{Lease: time.Millisecond}, refusal{attn.ErrOption, "at least a second"}},
	} {
		_, err := NewClient(b.client.transport, x.config)
		x.check(t, name, err)
	}
	for name, x := range map[string]struct {
		config SequenceConfig
		refusal
	}{
		"Layers": {SequenceConfig{KVHeads: 1, HeadDim: 1, ValueDim: 1},
			refusal{attn.ErrShape, "sizes of 1"}},
		"Format": {SequenceConfig{Layers: 1, KVHeads: 1, HeadDim: 1, ValueDim: 1, Format: 9},
			refusal{attn.ErrOption, "want F32, F16, BF16, I8 or I4"}},
		"ValueFormat": {SequenceConfig{Layers: 1, KVHeads: 1, HeadDim: 1, ValueDim: 1, ValueFormat: -2},
			refusal{attn.ErrOption, "SequenceConfig.ValueFormat is Format(-2), want F16"}},
	} {
		_, err := b.client.NewSequence(x.config)
		x.check(t, name, err)
	}
	ctx := context.Background()
	s, err := b.client.NewSequence(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 4, ValueDim: 4})
	must(t, err)
	two, three := b.tensor(2, 3, 4), b.tensor(3, 3, 4)
	must(t, s.Append(ctx, 0, two, two))
	short := two
	short.Data = short.Data[:5]
	refusal{attn.ErrShape, "k is [1 3"}.check(t, "heads of k", s.Append(ctx, 0, three, two))
	refusal{attn.ErrShape, "v is [1 3"}.check(t, "heads of v", s.Append(ctx, 0, two, three))
	refusal{attn.ErrLength, "k.Data"}.check(t, "elements of k", s.Append(ctx, 0, short, two))
	refusal{attn.ErrOption, "layer is 1, want 0 to 0"}.check(t, "a layer", s.Append(ctx, 1, two, two))
	refusal{attn.ErrLength, "n is 4, want 0 to 3"}.check(t, "a length", s.Truncate(ctx, 4))
	refusal{attn.ErrShape, "q is [1 3"}.check(t, "heads of q", s.Attend(ctx, 0, three, three, nil))
	refusal{attn.ErrShape, "dst is [1 3"}.check(t, "heads of dst", s.Attend(ctx, 0, three, two, nil))
	refusal{attn.ErrLength, "dst.Data"}.check(t, "elements of dst", s.Attend(ctx, 0, short, two, nil))
	mask := attn.BHLD(make([]bool, 9), 1, 1, 3, 3)
	mask.Data = mask.Data[:8]
	refusal{attn.ErrLength, "len(Mask.Data) is 8, want at least 9"}.check(t, "elements of Mask",
		s.Attend(ctx, 0, two, two, &attn.Options{Mask: mask}))
	bias := attn.BHLD(make([]float32, 9), 1, 1, 3, 3)
	bias.SL = -3
	refusal{attn.ErrStride, "Bias.SL is -3"}.check(t, "strides of Bias",
		s.Attend(ctx, 0, two, two, &attn.Options{Bias: bias}))
	if s.Len(0) != 3 || s.Len(1) != 0 || s.Len(-1) != 0 {
		t.Errorf("lengths are %d, %d and %d, want 3 and none", s.Len(0), s.Len(1), s.Len(-1))
	}
	b.client.Close()
	_, err = b.client.NewSequence(SequenceConfig{Layers: 1, KVHeads: 1, HeadDim: 1, ValueDim: 1})
	refusal{attn.ErrClosed, "the client was closed"}.check(t, "a closed client", err)
	refusal{attn.ErrClosed, "the client was closed"}.check(t, "a closed client", b.client.Wait(ctx, 2))
	refusal{attn.ErrClosed, "the sequence was released"}.check(t, "a closed client",
		s.Attend(ctx, 0, two, two, nil))
}

// Calls end with their context, and say what they waited for.
func TestDeadlines(t *testing.T) {
	c := quick
	c.Copies = 1
	b := newBench(t, 1, c)
	f, client := b.faulty(c, 1)
	s, err := client.NewSequence(SequenceConfig{Layers: 1, KVHeads: 1, HeadDim: 4, ValueDim: 4})
	must(t, err)
	x := b.tensor(1, 3, 4)
	must(t, s.Append(context.Background(), 0, x, x))
	defer f.set("", nil)
	brief := func(call func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		return call(ctx)
	}
	refused := func(call func(context.Context) error) error { // until it has been, some times
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var times atomic.Int32
		f.set("w0", func(_ context.Context, _, _ []byte) ([]byte, error) {
			if times.Add(1) == 6 {
				cancel()
			}
			return errorReply(ErrBusy), nil
		})
		return call(ctx)
	}
	dst := attn.BHLD(make([]float32, 12), 1, 1, 3, 4)
	refusal{ErrUnavailable, "no answer for positions 0 to 2 of sequence"}.check(t, "Attend",
		refused(func(ctx context.Context) error { return s.Attend(ctx, 0, dst, x, nil) }))
	sameBits(t, "dst", dst.Data, make([]float32, 12))
	refusal{ErrBusy, ""}.check(t, "Append",
		refused(func(ctx context.Context) error { return s.Append(ctx, 0, x, x) }))
	refusal{ErrUnavailable, "1 workers are there, want 2"}.check(t, "Wait",
		brief(func(ctx context.Context) error { return client.Wait(ctx, 2) }))
	f.set("", nil)
	must(t, s.Append(context.Background(), 0, x, x))
	if s.Len(0) != 6 {
		t.Errorf("%d tokens, want 6", s.Len(0))
	}

	p := s.parts[0]
	p.moving <- struct{}{} // somebody else makes a copy, and goes on and on
	full := fail(attn.ErrCapacity, "w0 is full")
	refusal{ErrUnavailable, "moving a part whose workers are full"}.check(t, "makeRoom",
		brief(func(ctx context.Context) error { return s.makeRoom(ctx, p, full) }))
	<-p.moving
}

// Frames whose numbers do not fit each other are refused, though their checksums are right.
func TestRefusedFrames(t *testing.T) {
	good := frame{kind: kindRequest, id: 1, total: 9, offset: 4, payload: []byte("12345")}
	if f, err := decodeFrame(good.append(nil), 9); err != nil || f.offset != 4 || len(f.payload) != 5 {
		t.Fatalf("%+v, %v", f, err)
	}
	for name, x := range map[string]struct {
		change func(*frame)
		refusal
	}{
		"kind 0":         {func(f *frame) { f.kind = 0 }, refusal{ErrProtocol, "kind of a frame is 0"}},
		"kind of none":   {func(f *frame) { f.kind = kinds }, refusal{ErrProtocol, "want 1 to 6"}},
		"too long":       {func(f *frame) { f.total = 10 }, refusal{ErrLimit, "10 bytes, want at most"}},
		"past the end":   {func(f *frame) { f.offset = 5 }, refusal{ErrProtocol, "5 bytes at 5 of"}},
		"begins outside": {func(f *frame) { f.offset = 10 }, refusal{ErrProtocol, "at 10 of"}},
	} {
		f := good
		x.change(&f)
		_, err := decodeFrame(f.append(nil), 9)
		x.check(t, name, err)
	}
	data := good.append(nil)
	_, err := decodeFrame(data[:frameHeader-1], 9)
	refusal{ErrProtocol, "27 bytes are no frame"}.check(t, "a short one", err)
	data[10]++
	_, err = decodeFrame(data, 9)
	refusal{ErrProtocol, "the checksum of a frame is"}.check(t, "a wrong bit", err)
	first, next := frame{total: 9, payload: []byte("123")}, []byte("4")
	for name, pieces := range map[string][]frame{
		"a gap":         {first, {total: 9, offset: 4, payload: next}},
		"another total": {first, {total: 8, offset: 3, payload: next}},
		"nothing":       {first, {total: 9, offset: 3}},
		"no beginning":  {{total: 9, offset: 3, payload: next}},
	} {
		in, err := new(incoming), error(nil)
		for i := range pieces {
			_, err = in.add(&pieces[i])
		}
		refusal{ErrProtocol, "want those at"}.check(t, name, err)
	}
}

// Queries over the beginning of a layer do not see what was appended since.
func TestBeginning(t *testing.T) {
	for _, format := range []attn.Format{attn.F32, attn.I8} {
		l := new(loop)
		w, err := NewWorker(l, WorkerConfig{Name: "w", Memory: 1 << 24, Threads: 1})
		must(t, err)
		defer w.Close()
		ask := func(request []byte) stepReply {
			reply, _ := l.Call(context.Background(), "w", request)
			x, err := outcomes(request, reply)
			must(t, err)
			return x
		}
		ask((&createRequest{tokens: 2048, lease: 60000,
			shape: shape{1, 1, 8, 8, format, format, false}}).encode(clientID{}))
		b := &bench{TB: t, rand: rand.New(rand.NewPCG(1, 2))}
		k, v, q := b.tensor(1, 1500, 8), b.tensor(1, 1500, 8), b.tensor(2, 3, 8)
		ask((&appendRequest{pieces: []tokenPiece{{tokens: 1500,
			k: gatherTokens(format, &k, 0, 1500),
			v: gatherTokens(format, &v, 0, 1500)}}}).encode(clientID{}))
		for _, keys := range []int{1, 64, 70, 1023, 1024, 1100, 1500} {
			part := attendPart{keys: keys, mask: make([]bool, 3*keys), bias: b.tensor(2, 3, keys).Data}
			for i := range part.mask {
				part.mask[i] = i%7 > 0
			}
			r := attendRequest{heads: 2, rows: 3, q: columns(&q, 0, q.L, 0, q.D),
				pairs: pairHeads{mask: 1, bias: 2}, groups: apart(part)}
			reply := ask(r.encode(clientID{})).attends[0]
			must(t, reply.groups[0].errors[0])
			got := new(attn.State)
			must(t, got.UnmarshalBinary(reply.groups[0].state))

			store, err := attn.NewStore(attn.StoreConfig{KVHeads: 1, HeadDim: 8, ValueDim: 8, Pages: 32,
				Format: format})
			must(t, err)
			near := store.NewSequence()
			first := func(x attn.Tensor) attn.Tensor {
				x.L = keys
				return x
			}
			must(t, near.Append(first(k), first(v)))
			mask := attn.BHLD(part.mask, 1, 1, 3, keys)
			bias := attn.BHLD(part.bias, 1, 2, 3, keys)
			out := func() attn.Tensor { return attn.BHLD(make([]float32, 48), 1, 2, 3, 8) }
			x, want := out(), out()
			must(t, got.Finish(x, nil))
			must(t, attn.AttendSequences(want, q, []*attn.Sequence{near},
				&attn.Options{QueryLens: []int{3}, Mask: mask, Bias: bias}))
			sameBits(t, "outputs", x.Data, want.Data)
			must(t, store.Close())
		}
		if s := w.Status(); s.Tokens != 1500 || s.Spare >= s.Used {
			t.Errorf("%v: %+v, want that all tokens are there", format, s)
		}
	}
}
