package cluster

import "time"

// The client's view of a worker: its health, one value, and the table by which it changes. Only
// health decides whether a worker is asked first or last, whether its copies are made again
// elsewhere, and whether they count as lost.
//
//	health    asked   its copies
//	well      first   count
//	slow      then    count: it hangs, or answers nonsense, and may be better in a moment
//	absent    last    count: nobody listens at its name, and it may start again
//	quiet     last    are made again: it was not heard of for Gone, and may have them nevertheless
//	deserted  last    are made again: as quiet, and nobody listens
//	dead      last    are lost: nobody has listened for Gone
//
// Silence during a time without connection of the client means nothing: everything starts again
// when it has one. Workers may have lost theirs, too, and may reconnect later: until a worker is
// heard of, the absence of a listener counts as its end only after Lease, not after Gone.
//
// Besides its health there is the worker's Status: whether it is leaving, and how much memory it
// has. A worker that restarted empty says so when it is asked for a copy, or when copies are
// renewed.
type health uint8

const (
	well health = iota
	slow
	absent
	quiet
	deserted
	dead
	healths
)

// sign is what a client learns about a worker.
type sign uint8

const (
	heardOf  sign = iota // it has answered, or announced itself
	overdue              // it has not answered in time, or sent nonsense
	nobody               // the transport reports that nobody listens at its name,
	still                // and has done so for Gone
	rested               // nothing was late for three times Patience
	silent               // it was not heard of for Gone
	rejoined             // the client had no connection, and has one again
	signs
)

// transitions maps a health and a sign to the next health.
var transitions = [healths][signs]health{
	//         heardOf overdue nobody   still     rested    silent    rejoined
	well:     {well, slow, absent, absent, well, quiet, well},
	slow:     {slow, slow, absent, absent, well, quiet, slow},
	absent:   {well, slow, absent, absent, absent, deserted, slow},
	quiet:    {well, quiet, deserted, deserted, quiet, quiet, slow},
	deserted: {well, quiet, deserted, dead, deserted, deserted, slow},
	dead:     {well, quiet, dead, dead, dead, dead, dead},
}

// condition is a worker's health and its times.
type condition struct {
	health health
	heard  time.Time // when it was last heard of, or the time to count from
	since  time.Time // when it was last late, or nobody listened first
	joined time.Time // when the client rejoined, if it was not heard of since
}

// note applies a sign.
func (x *condition) note(s sign, now time.Time, c *ClientConfig) {
	x.pass(now, c)
	again := x.health == absent || x.health == deserted // nobody listened before
	if s == nobody && again && now.Sub(x.since) >= c.Gone && now.Sub(x.joined) >= c.Lease {
		s = still
	}
	x.health = transitions[x.health][s]
	switch {
	case s == heardOf:
		x.heard, x.joined = now, time.Time{}
	case s == rejoined:
		x.heard, x.joined = now, now
	case s == overdue, s == nobody && !again:
		x.since = now
	}
}

// pass applies the signs that time brings.
func (x *condition) pass(now time.Time, c *ClientConfig) {
	if now.Sub(x.since) >= 3*c.Patience {
		x.health = transitions[x.health][rested]
	}
	if now.Sub(x.heard) >= c.Gone {
		x.health = transitions[x.health][silent]
	}
}

// at returns the health at a time.
func (x condition) at(now time.Time, c *ClientConfig) health {
	x.pass(now, c)
	return x.health
}

// answers reports whether a worker was heard of recently and somebody listens.
func (h health) answers() bool { return h <= slow }

// gone reports whether copies must be made again.
func (h health) gone() bool { return h >= quiet }
