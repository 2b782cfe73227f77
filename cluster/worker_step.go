package cluster

// step cuts, appends, and then attends. A copy whose append failed has no state of its tokens
// either: its attention returns that it is stale, its append the reason.
func (w *Worker) step(client clientID, r *stepRequest, cost *load) *stepReply {
	x := replyTo(r)
	changes := x.changes
	for i := range r.cuts {
		p, err := w.part(client, r.cuts[i].copy)
		if err == nil {
			err = p.truncate(&r.cuts[i])
		}
		changes[i].err = err
	}
	changes = changes[len(r.cuts):]
	for i := range r.appends {
		p, err := w.part(client, r.appends[i].copy)
		if err == nil {
			changes[i].length, err = p.append(&r.appends[i])
		}
		changes[i].err = err
	}
	a := attending{Worker: w, load: cost, asked: make([]asked, len(r.attends))}
	defer a.close()
	for i := range r.attends {
		a.asked[i].attendRequest, a.asked[i].answer = &r.attends[i], &x.attends[i]
	}
	a.computeRequests(client)
	for i := range a.asked {
		a.asked[i].reply()
	}
	if x.error() != nil {
		w.refused.Add(1)
	}
	return &x
}
