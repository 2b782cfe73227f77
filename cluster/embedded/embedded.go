// Package embedded runs a NATS server in this process, for tests and for programs that bring their
// own cluster. Package cluster does not import it: a program that connects to servers elsewhere is
// built without one.
package embedded

import (
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// patience is how long a server may take until it takes connections.
const patience = 10 * time.Second

// Start runs a server, and returns it when it takes connections, which go to its ClientURL. Options
// mean what they mean to NATS, with other defaults: an empty Host is 127.0.0.1, so that only this
// machine reaches the server, and Port 0 is any free port. Signals stay the program's. End the
// server with [Stop].
func Start(o *server.Options) (*server.Server, error) {
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	o.NoSigs = true
	s, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("the embedded NATS server: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		s.Shutdown()
		return nil, fmt.Errorf("the embedded NATS server is not ready after %v", patience)
	}
	return s, nil
}

// Stop ends a server, and its connections with it, and waits until it has ended.
func Stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}
