package cluster

// stepRequest is what a worker does at once: all cuts, all appends, and then all attentions, which
// see what was appended. Each has an outcome of its own.
type stepRequest struct {
	cuts    []truncateRequest
	appends []appendRequest
	attends []attendRequest
}

// mostSteps is how many cuts, appends, and attentions, a request has at most.
const mostSteps = 4096

func (r *stepRequest) encode(id clientID) []byte { return encodeRequest(opStep, id, r) }

func (r *stepRequest) wire(c *codec) {
	n := c.limited(len(r.cuts), leastCut, "cuts", 0, mostSteps)
	each(c, &r.cuts, n, stepCost, func(x *truncateRequest) { x.wire(c) })
	n = c.limited(len(r.appends), leastAppend, "appends", 0, mostSteps)
	each(c, &r.appends, n, stepCost, func(x *appendRequest) { x.wire(c) })
	n = c.limited(len(r.attends), leastAttend, "attentions", 0, mostSteps)
	each(c, &r.attends, n, stepCost, func(x *attendRequest) { x.wire(c) })
}

// leastCut is the bytes of a cut without layers, and stepCost about what is made of each of a step,
// but for its lists.
const (
	leastCut = 20
	stepCost = 512
)

// truncateRequest leaves a number of tokens of each layer, if the copy is of an earlier epoch, but
// not of one before since: it may have other tokens than those that are meant.
type truncateRequest struct {
	copy         uint64
	epoch, since uint32
	lengths      []uint32
}

func (r *truncateRequest) wire(c *codec) {
	c.u64(&r.copy)
	c.u32(&r.epoch)
	c.u32(&r.since)
	c.u32s(&r.lengths)
}

// stepReply is an outcome for each cut and append, and for each attention: of as many as were asked
// for.
type stepReply struct {
	changes []changeReply
	attends []attendReply
}

// changeReply is how many tokens the layer has after an append, or why it or a cut was not made.
type changeReply struct {
	length int
	err    error
}

// replyTo has room for the outcomes of what a request asks for: for those of all groups, and of all
// parts, side by side.
func replyTo(r *stepRequest) (x stepReply) {
	x.changes = make([]changeReply, len(r.cuts)+len(r.appends))
	x.attends = make([]attendReply, len(r.attends))
	groups, parts := 0, 0
	for i := range r.attends {
		groups += len(r.attends[i].groups)
		for _, g := range r.attends[i].groups {
			parts += len(g.parts)
		}
	}
	replies, errs := make([]groupReply, groups), make([]error, parts)
	for i := range r.attends {
		n := len(r.attends[i].groups)
		x.attends[i].groups, replies = replies[:n:n], replies[n:]
		for j, g := range r.attends[i].groups {
			n := len(g.parts)
			x.attends[i].groups[j].errors, errs = errs[:n:n], errs[n:]
		}
	}
	return x
}

func (r *stepReply) wire(c *codec) {
	for i := range r.changes {
		x := &r.changes[i]
		if c.fault(&x.err); x.err == nil {
			c.size("tokens", &x.length)
		}
	}
	for i := range r.attends {
		r.attends[i].wire(c)
	}
}

// error is the first error of an outcome.
func (r *stepReply) error() error {
	for i := range r.changes {
		if err := r.changes[i].err; err != nil {
			return err
		}
	}
	for i := range r.attends {
		if err := r.attends[i].err; err != nil {
			return err
		}
	}
	return nil
}
