package cluster

// step appends, and then attends. A copy that has not taken its tokens has no state of them either:
// its attention says that it is stale, its append why.
func (w *Worker) step(client clientID, d *decoder) ([]byte, error) {
	var r stepRequest
	if err := r.decode(d); err != nil {
		return nil, err
	}
	reply := stepReply{make([]appendOutcome, len(r.appends)), make([]attendOutcome, len(r.attends))}
	for i := range r.appends {
		o := &reply.appends[i]
		o.length, o.err = w.appendTo(client, &r.appends[i])
	}
	a := attending{Worker: w, load: d.load, asked: make([]asked, len(r.attends))}
	defer a.close()
	for i := range r.attends {
		a.asked[i].attendRequest = r.attends[i]
	}
	a.run(client)
	for i := range a.asked {
		x, o := &a.asked[i], &reply.attends[i]
		if o.err = x.err; o.err == nil {
			o.attendReply = x.reply()
		}
	}
	return reply.encode(), nil
}
