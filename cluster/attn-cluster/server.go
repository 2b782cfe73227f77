package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn/cluster/embedded"
)

// ownServer is the NATS server that a worker brings if it is not told where one is.
type ownServer struct{ listen, config string }

// defaultListen is where clients look for a server, too. Tests have another one.
var defaultListen = "127.0.0.1:4222"

func (o *ownServer) register(fs *flag.FlagSet) {
	fs.StringVar(&o.listen, "listen", "", "`address` of the NATS server that is part of this process "+
		"without -url (default "+defaultListen+", or who listens there already)")
	fs.StringVar(&o.config, "nats", "", "`file` with the configuration of that server, as NATS has it: "+
		"users, permissions, TLS, routes to others")
}

// start starts the server, unless there is one at the default address. It returns where to connect,
// and how: from within the process no certificate is needed.
func (o *ownServer) start(stdout io.Writer) (url string, how []nats.Option, stop func(),
	err error) {
	if *o == (ownServer{}) && answers(defaultListen) {
		return "nats://" + defaultListen, nil, func() {}, nil
	}
	options, err := o.options()
	if err != nil {
		return "", nil, nil, err
	}
	if err := probe(options); err != nil {
		return "", nil, nil, fmt.Errorf("the NATS server of this process: %w", err)
	}
	s, err := embedded.Start(options)
	if err != nil {
		return "", nil, nil, err
	}
	fmt.Fprintf(stdout, "NATS is part of this process, at %s\n", s.ClientURL())
	how = []nats.Option{embedded.Connect(s)}
	return "nats://in-process", how, func() { embedded.Stop(s) }, nil
}

// answers reports whether somebody listens at an address.
func answers(address string) bool {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// options are those of the file, and the address.
func (o *ownServer) options() (*server.Options, error) {
	options := new(server.Options)
	if o.config != "" {
		var err error
		if options, err = server.ProcessConfigFile(o.config); err != nil {
			return nil, fmt.Errorf("-nats %s: %s", o.config, withoutSecrets(o.config, err.Error()))
		}
	}
	listen := o.listen
	if listen == "" && options.Port == 0 {
		listen = defaultListen
	}
	if listen != "" {
		host, port, err := net.SplitHostPort(listen)
		if err == nil {
			options.Port, err = strconv.Atoi(port)
		}
		if err != nil {
			return nil, usagef("-listen is %q, want an address like %s", listen, defaultListen)
		}
		options.Host = host
	}
	if options.Host == "" {
		options.Host = "0.0.0.0" // as NATS means it
	}
	if options.Port == 0 {
		options.Port = server.RANDOM_PORT
	}
	return options, nil
}

// secret is a password or a token of a configuration, which may be quoted or, by mistake, be taken
// for a variable.
var secret = regexp.MustCompile(`(?i)\b(?:pass|password|token)\b["']?\s*[:=]?\s*["'$]*([^\s"',}]+)`)

// withoutSecrets is what NATS says about a configuration, which quotes from it.
func withoutSecrets(file, says string) string {
	text, _ := os.ReadFile(file) // what cannot be read is not quoted
	for _, found := range secret.FindAllStringSubmatch(string(text), -1) {
		says = strings.ReplaceAll(says, found[1], "xxxxx")
	}
	return says
}

// probe reports why nothing can listen where a server is to. The server itself would only say that
// it is not ready, seconds later.
func probe(o *server.Options) error {
	l, err := net.Listen("tcp", net.JoinHostPort(o.Host, strconv.Itoa(max(0, o.Port))))
	if err != nil {
		return err
	}
	return l.Close()
}
