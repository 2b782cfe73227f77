package cluster

// staff is goroutines that wait for more to do when they have done something. Their stacks have
// grown then: to grow one on the way to the kernels takes a worker as long as all else but
// attention.
type staff struct {
	jobs chan func()
	idle chan struct{}   // has one for each that waits
	stop <-chan struct{} // nobody waits any more
}

// mostIdle is how many goroutines of a staff wait at most.
const mostIdle = 16

func newStaff(stop <-chan struct{}) staff {
	return staff{make(chan func()), make(chan struct{}, mostIdle), stop}
}

// run runs a function on a goroutine that waits, or on a new one if none does.
func (c *staff) run(f func()) {
	select {
	case c.jobs <- f:
	default:
		go c.work(f)
	}
}

// work is the life of a goroutine.
func (c *staff) work(f func()) {
	for f != nil {
		f()
		f = c.next()
	}
}

// next waits for a function, nil for none any more.
func (c *staff) next() (f func()) {
	select {
	case c.idle <- struct{}{}:
		defer func() { <-c.idle }()
	default:
		return nil // enough wait
	}
	select {
	case f = <-c.jobs:
	case <-c.stop:
	}
	return f
}
