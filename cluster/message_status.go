package cluster

// Status is a worker's description of itself.
type Status struct {
	Worker    string // its name
	Instance  uint64 // different after each start
	Memory    int64  // limit of bytes for keys and values,
	Used      int64  // and bytes allocated from the system, in use or not
	Spare     int64  // bytes of Used without tokens, for more tokens of the same shape
	Sequences int    // sequences with a part here
	Copies    int    // of parts
	Tokens    int64  // of all copies and layers
	Clients   int    // clients whose lease has not ended
	Running   int    // running calls
	Calls     uint64 // calls since the start
	Refused   uint64 // of these, calls that ended with an error, or a part of which failed
	Malformed uint64 // invalid messages
	Kernels   string // attn.Implementation
	Leaving   bool   // it accepts no new copies, and ends when other workers have its copies
}

// Free returns the bytes that are available for more tokens.
func (s *Status) Free() int64 { return max(0, s.Memory-s.Used+s.Spare) }

func (s *Status) wire(c *codec) {
	c.text(&s.Worker, 64)
	c.u64(&s.Instance)
	for _, n := range []*int64{&s.Memory, &s.Used, &s.Spare, &s.Tokens} {
		amount(c, n)
	}
	for _, n := range []*int{&s.Sequences, &s.Copies, &s.Clients, &s.Running} {
		amount(c, n)
	}
	for _, n := range []*uint64{&s.Calls, &s.Refused, &s.Malformed} {
		c.u64(n)
	}
	c.text(&s.Kernels, 64)
	c.flag(&s.Leaving)
}

// encode returns a message with the status: an announcement or a reply.
func (s *Status) encode() []byte { return encodeReply(s) }

// decodeStatus reads an announcement.
func decodeStatus(data []byte) (s Status, err error) {
	d, err := decodeReply("?", data)
	if err == nil {
		err = d.read(&s)
	}
	if err == nil {
		err = checkName("a worker", s.Worker)
	}
	return s, err
}
