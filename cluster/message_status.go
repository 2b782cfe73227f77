package cluster

// Status is what a worker says about itself.
type Status struct {
	Worker    string // its name
	Instance  uint64 // another one after each start
	Memory    int64  // bytes for keys and values that it may take,
	Used      int64  // and that it has taken from the system, in use or not
	Spare     int64  // of Used, what has no tokens: for more of the same shape
	Sequences int    // of which it has a part
	Copies    int    // of parts
	Tokens    int64  // of all copies and layers
	Clients   int    // whose lease has not ended
	Running   int    // calls
	Calls     uint64 // since it started
	Refused   uint64 // of these, those that ended with an error, or of which a part failed
	Malformed uint64 // messages that were none
	Kernels   string // attn.Implementation
	Leaving   bool   // it takes no new copies, and ends when others have those that it has
}

// Free is the bytes that there may still be tokens in.
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

// encode makes a status a message of its own, an announcement or a reply.
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
