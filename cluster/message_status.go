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
	Refused   uint64 // of these, those that ended with an error
	Malformed uint64 // messages that were none
	Kernels   string // attn.Implementation
	Leaving   bool   // it takes no new copies, and ends when others have those that it has
}

// Free is the bytes that there may still be tokens in.
func (s *Status) Free() int64 { return max(0, s.Memory-s.Used+s.Spare) }

func (e *encoder) status(s *Status) {
	e.text(s.Worker)
	for _, n := range []uint64{s.Instance, uint64(s.Memory), uint64(s.Used), uint64(s.Spare),
		uint64(s.Sequences), uint64(s.Copies), uint64(s.Tokens), uint64(s.Clients), uint64(s.Running),
		s.Calls, s.Refused, s.Malformed} {
		e.u64(n)
	}
	e.text(s.Kernels)
	e.flag(s.Leaving)
}

func (d *decoder) status() (s Status) {
	s.Worker = d.text(64)
	s.Instance, s.Memory, s.Used, s.Spare = d.u64(), d.amount(), d.amount(), d.amount()
	s.Sequences, s.Copies, s.Tokens = int(d.amount()), int(d.amount()), d.amount()
	s.Clients, s.Running = int(d.amount()), int(d.amount())
	s.Calls, s.Refused, s.Malformed = d.u64(), d.u64(), d.u64()
	s.Kernels = d.text(64)
	s.Leaving = d.flag()
	return s
}

// mostAmount is the largest number of bytes or things that a message may have: sums of two are an
// int64.
const mostAmount = 1<<62 - 1

// amount reads a number of bytes or things.
func (d *decoder) amount() int64 {
	n := d.u64()
	if n > mostAmount {
		d.refuse("an amount is %d, want less than 2⁶²", n)
	}
	return int64(n)
}

// encode makes a status a message of its own, an announcement or a reply.
func (s *Status) encode() []byte {
	e := beginReply()
	e.status(s)
	return e.data
}

// decodeStatus reads an announcement.
func decodeStatus(data []byte) (Status, error) {
	d, err := decodeReply("?", data)
	if err != nil {
		return Status{}, err
	}
	s := d.status()
	if err := d.end(); err != nil {
		return Status{}, err
	}
	return s, checkName("a worker", s.Worker)
}
