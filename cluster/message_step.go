package cluster

// stepRequest is a batch for a worker: all cuts, all appends, and then all attentions, which see
// the appended tokens. Each has its own outcome.
type stepRequest struct {
	cuts    []truncateRequest
	appends []appendRequest
	attends []attendRequest
}

// mostSteps bounds the number of cuts, of appends and of attentions of a request.
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

// leastCut is the bytes of a cut without layers, and stepCost about the memory of each decoded item
// of a step, without its lists.
const (
	leastCut = 20
	stepCost = 512
)

// truncateRequest truncates each layer to a number of tokens, if the copy's epoch is earlier, but
// not before since: then it may have other tokens than the client means.
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

// stepReply has an outcome for each cut, append and attention of the request.
type stepReply struct {
	changes []changeReply
	attends []attendReply
}

// changeReply is the number of tokens of the layer after an append, or the error of an append or a
// cut.
type changeReply struct {
	length int
	err    error
}

// replyTo allocates the outcomes of a request: of all groups and of all parts, contiguous.
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

// error returns the first error of all outcomes.
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
