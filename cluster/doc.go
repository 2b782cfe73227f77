// Package cluster spreads the keys and values of long sequences over many machines, and attends
// over them with the bits of one machine.
//
// A [Worker] keeps parts of sequences, each of a power of two segments of [attn.Segment] tokens. A
// [Client] finds the workers, and gives out sequences: [Sequence.Append] sends tokens to the
// workers that hold their part, [Sequence.Attend] sends the queries to one worker for each part,
// merges the states that come back in the order of their keys, and finishes. Because segments merge
// as a binary tree, the result is, bit for bit, that of [attn.AttendSequences] over the same tokens
// on one machine.
//
// Each part has several copies, two unless told otherwise, on different workers. Where a worker
// dies, hangs, comes back without its memory or answers what cannot be read, another copy answers
// within the deadline of the call, and lost copies are made again from those that are left. A call
// that returns no error has seen every token. Parts move away from workers whose memory is full,
// and from those that are told to leave, [Worker.Drain].
//
// Messages travel by a [Transport]. That of this package is NATS, [DialNATS]: discovery,
// authorization, encryption and reconnection are its work. A prefix of subjects for each tenant
// keeps tenants apart where the server's permissions say so.
//
// Files, from the top: client*, sequence*, place, call*, batch, gather and ride* are the caller's
// side; worker*, part and arena the side that holds tokens; message* and wire what they say to each
// other; transport* and frame how that travels; redact what errors leave out. health is what a
// worker is to a client, and gate the order of locks.
//
// A [Sequence.Append], an Attend or a Step is a call, of tokens, of queries or of both. Messages of
// tokens go to all copies of a part, toAll; the last one rides with the queries if it can. A gather
// asks one copy of each part for states, and others where that does not answer. A batch is the
// calls of [Client.Steps], whose requests to a worker are one.
package cluster
