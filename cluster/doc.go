// Package cluster spreads the keys and values of long sequences over many machines, and attends
// over them with the bits of one machine.
//
// A [Worker] keeps parts of sequences, each of a power of two segments of [attn.Segment] tokens. A
// [Client] finds the workers, and creates sequences: [Sequence.Append] sends tokens to the workers
// that hold their part, [Sequence.Attend] sends the queries to one worker for each part, merges the
// returned states in the order of their keys, and finishes. Because segments merge as a binary
// tree, the result has the same bits as [attn.AttendSequences] over the same tokens on one machine.
//
// Each part has several copies, two by default, on different workers. If a worker dies, hangs,
// restarts without its memory or sends an unreadable answer, another copy answers within the
// deadline of the call, and lost copies are made again from the remaining ones. A call that returns
// no error has seen every token. Parts move away from workers whose memory is full, and from
// workers that leave ([Worker.Drain]).
//
// A [Transport] carries messages. This package has one over NATS, [DialNATS], which provides
// discovery, authorization, encryption and reconnection. A prefix of subjects for each tenant
// separates tenants, if the server's permissions enforce it.
//
// Files, from the top: client*, sequence*, place, call*, batch, gather and ride* are the caller's
// side; worker*, part and arena the side that holds tokens; message* and wire the messages between
// them; transport* and frame their transport; redact removes secrets from errors. health is a
// client's view of a worker, and gate has the order of locks.
//
// A [Sequence.Append], an Attend or a Step is a call, with tokens, queries or both. Messages with
// tokens go to all copies of a part (toAll); the last one rides with the queries if it can. A
// gather asks one copy of each part for states, and another copy if that does not answer. A batch
// is the calls of [Client.Steps], which send one request to each worker.
package cluster
