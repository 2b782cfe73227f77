package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn/cluster/embedded"
	"github.com/seed-1415985d/attn/internal/flags"
)

// ownServer is the NATS server that a worker runs if -url is not given.
type ownServer struct {
	listen, config string
	insecure       bool
}

// defaultListen is also the default address of clients. Tests change it.
var defaultListen = "127.0.0.1:4222"

func (o *ownServer) register(fs *flag.FlagSet) {
	fs.StringVar(&o.listen, "listen", "", "`address` of the NATS server in this process, "+
		"without -url (default "+defaultListen+", or the server that listens there already)")
	fs.StringVar(&o.config, "nats", "", "`file` with that server's configuration, in NATS's format: "+
		"users, permissions, TLS, routes to others")
	fs.BoolVar(&o.insecure, "insecure", false, "let everybody who reaches that server read and "+
		"change all tokens, also from other machines")
}

// start starts the server, unless there is one at the default address. It returns the URL and
// options of connections: from within the process no certificate is needed. A server without a
// configuration requires the key nkey, if given, from all clients.
func (o *ownServer) start(stdout io.Writer, nkey string) (url string, how []nats.Option,
	stop func(), err error) {
	if o.listen == "" && o.config == "" && answers(defaultListen) {
		return "nats://" + defaultListen, nil, func() {}, nil
	}
	options, err := o.options()
	if err == nil && o.config == "" && nkey != "" {
		options.Nkeys, err = userOf(nkey)
	}
	if err == nil && !o.insecure && reachable(options.Host) && open(options) {
		err = flags.Errorf("everybody who reaches the NATS server at %s could read and change all "+
			"tokens of all prefixes: want -nkey, a key that all clients need, or -nats with users and "+
			"permissions, or -insecure if everybody who reaches it may", net.JoinHostPort(options.Host,
			strconv.Itoa(max(0, options.Port))))
	}
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
	fmt.Fprintf(stdout, "NATS is part of this process, at %s\n%s\n", s.ClientURL(),
		o.readers(options))
	how = []nats.Option{embedded.Connect(s)}
	return "nats://in-process", how, func() { embedded.Stop(s) }, nil
}

// userOf returns the user of a file with the seed of an nkey.
func userOf(file string) ([]*server.NkeyUser, error) {
	var o nats.Options
	key, err := nats.NkeyOptionFromSeed(file)
	if err == nil {
		err = key(&o)
	}
	if err != nil {
		return nil, fmt.Errorf("-nkey %s: %w", file, err)
	}
	return []*server.NkeyUser{{Nkey: o.Nkey}}, nil
}

// open reports whether a server accepts everybody.
func open(o *server.Options) bool {
	return o.Username == "" && o.Authorization == "" && len(o.Users) == 0 && len(o.Nkeys) == 0 &&
		len(o.TrustedOperators) == 0 && len(o.TrustedKeys) == 0 && o.AuthCallout == nil &&
		o.CustomClientAuthentication == nil && !o.TLSVerify
}

// reachable reports whether other machines may reach a server that listens at a host.
func reachable(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return !ip.IsLoopback()
	}
	all, err := net.LookupIP(host)
	return err != nil || slices.ContainsFunc(all, func(ip net.IP) bool { return !ip.IsLoopback() })
}

// readers says who may read the data on the server.
func (o *ownServer) readers(options *server.Options) string {
	switch all := open(options); {
	case all && reachable(options.Host):
		return "whoever reaches it may read and change all tokens, as -insecure says"
	case all:
		return "everybody on this machine may read and change all tokens"
	case o.config == "":
		return "who has the key of -nkey may read and change all tokens"
	}
	return "who may read and change what is up to -nats " + o.config
}

// answers reports whether somebody listens at an address.
func answers(address string) bool {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// options returns the options of the file, with the address.
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
			return nil, flags.Errorf("-listen is %q, want an address like %s", listen, defaultListen)
		}
		options.Host = host
	}
	if options.Host == "" {
		options.Host = "0.0.0.0" // as in NATS
	}
	if options.Port == 0 {
		options.Port = server.RANDOM_PORT
	}
	return options, nil
}

// secret matches a password or a token of a configuration, quoted or, by mistake, written like a
// variable.
var secret = regexp.MustCompile(`(?i)\b(?:pass|password|token)\b["']?\s*[:=]?\s*["'$]*([^\s"',}]+)`)

// withoutSecrets removes secrets from NATS's message about a configuration, which may quote it.
func withoutSecrets(file, says string) string {
	text, _ := os.ReadFile(file) // an unreadable file is not quoted
	for _, found := range secret.FindAllStringSubmatch(string(text), -1) {
		says = strings.ReplaceAll(says, found[1], "xxxxx")
	}
	return says
}

// probe returns the error of listening at the server's address. The server itself would only report
// that it is not ready, seconds later.
func probe(o *server.Options) error {
	l, err := net.Listen("tcp", net.JoinHostPort(o.Host, strconv.Itoa(max(0, o.Port))))
	if err != nil {
		return err
	}
	return l.Close()
}
