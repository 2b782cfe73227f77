// Package embedded runs a NATS server in this process, for tests and for programs that contain
// their cluster. Package cluster does not import it, so a program that connects to other servers is
// built without one.
package embedded

import (
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// patience bounds the time until a server accepts connections.
const patience = 10 * time.Second

// Start runs a server, and returns it when it accepts connections at its ClientURL. Options are
// NATS's, with other defaults: an empty Host is 127.0.0.1, so that only this machine reaches the
// server, and Port 0 is any free port. The server handles no signals. End it with [Stop].
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

// Stop ends a server and its connections, and waits until it has ended.
func Stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}
