package cluster

// stepRequest is what a worker does at once: all appends, and then all attentions, which see what
// was appended. Each has an outcome of its own.
type stepRequest struct {
	appends []appendRequest
	attends []attendRequest
}

// mostSteps is how many appends, and attentions, a request has at most.
const mostSteps = 4096

func (r *stepRequest) encode(client clientID) []byte {
	size := 64
	for i := range r.appends {
		size += r.appends[i].size()
	}
	for i := range r.attends {
		size += r.attends[i].size()
	}
	e := &encoder{newBuffer(size)}
	e.begin(opStep, client)
	e.u32(uint32(len(r.appends)))
	for i := range r.appends {
		r.appends[i].write(e)
	}
	e.u32(uint32(len(r.attends)))
	for i := range r.attends {
		r.attends[i].write(e)
	}
	return e.data
}

func (r *stepRequest) decode(d *decoder) error {
	r.appends = make([]appendRequest, d.atMost("appends", leastAppend, 0, mostSteps))
	for i := range r.appends {
		r.appends[i].read(d)
	}
	r.attends = make([]attendRequest, d.atMost("attentions", leastAttend, 0, mostSteps))
	for i := range r.attends {
		r.attends[i].read(d)
	}
	return d.end()
}

// stepReply is an outcome for each append and each attention.
type stepReply struct {
	appends []appendOutcome
	attends []attendOutcome
}

// appendOutcome is how many tokens the layer has then, or why they were not appended.
type appendOutcome struct {
	length int
	err    error
}

// attendOutcome is the states, or why there are none.
type attendOutcome struct {
	attendReply
	err error
}

// size is about how many bytes the reply has.
func (r *stepReply) size() int {
	size := 8
	for i := range r.appends {
		size += 5 + faultSize(r.appends[i].err)
	}
	for i := range r.attends {
		a := &r.attends[i]
		size += faultSize(a.err) + a.attendReply.size()
	}
	return size
}

func (r *stepReply) encode() []byte {
	e := &encoder{newBuffer(r.size())}
	e.ok()
	for _, a := range r.appends {
		if e.fault(a.err); a.err == nil {
			e.u32(uint32(a.length))
		}
	}
	for i := range r.attends {
		a := &r.attends[i]
		if e.fault(a.err); a.err == nil {
			a.write(e)
		}
	}
	return e.data
}

// decode reads the outcomes of a number of appends, and of attentions over some parts each.
func (r *stepReply) decode(d *decoder, worker string, appends int, parts []int) error {
	r.appends, r.attends = make([]appendOutcome, appends), make([]attendOutcome, len(parts))
	for i := range r.appends {
		a := &r.appends[i]
		if a.err = d.fault(worker); a.err == nil {
			a.length = d.size("tokens")
		}
		if d.err != nil {
			return d.err
		}
	}
	for i := range r.attends {
		a := &r.attends[i]
		if a.err = d.fault(worker); a.err == nil {
			a.read(d, worker, parts[i])
		}
		if d.err != nil {
			return d.err
		}
	}
	return d.end()
}
