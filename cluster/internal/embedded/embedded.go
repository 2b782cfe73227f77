// Package embedded runs a NATS server in this process.
package embedded

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Start runs a server with some options, on a free port unless one is given, and returns it when it
// takes connections.
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
	if !s.ReadyForConnections(10 * time.Second) {
		s.Shutdown()
		return nil, errors.New("the embedded NATS server is not ready after 10 seconds")
	}
	return s, nil
}

// Stop ends a server.
func Stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}
