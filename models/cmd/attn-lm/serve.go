package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/models/cmd/attn-lm/internal/serve"
	"github.com/seed-1415985d/attn/models/embed"
)

const serveAbout = `attn-lm serve [flags]

Answers clients of OpenAI's interface until a signal comes. Then it refuses new requests, and ends
when answers have ended, or after -grace; a second signal ends it at once. SIGHUP lets it read -keys
again.

`

// serveFlags are the flags of attn-lm serve.
type serveFlags struct {
	modelFlags
	serve.Config
	listen, embed, rerank string
	random                bool
}

func parseServe(args []string, help io.Writer) (*serveFlags, error) {
	o := &serveFlags{}
	f := flags.New(serveAbout)
	o.modelFlags.register(f)
	f.Lookup("model").Usage = "GGUF `file` or folder with config.json, model.safetensors and " +
		"tokenizer.json, for answers"
	f.Lookup("size").Usage = "size of a random model for answers, which mean nothing: tiny or 0.5b"
	f.Lookup("size").DefValue, o.size = "", ""
	f.Lookup("seed").Usage = "random seed of the random model's weights"
	c := &o.Config
	f.StringVar(&o.embed, "embed", "", "GGUF `file` or folder of a model for embeddings")
	f.StringVar(&o.rerank, "rerank", "", "GGUF `file` or folder of a model that scores texts")
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "`address` to listen at")
	f.Func("alias", "`name` of the -model in requests (default the name of its file or folder); "+
		"embed=NAME and rerank=NAME name the other models; may be given several times", o.setAlias)
	f.IntVar(&c.Queue, "queue", 256, "most answers that wait for a place; more are refused")
	f.IntVar(&c.Tokens, "tokens", 0, "most tokens of an answer (default what the context leaves)")
	byteFlag(f, &o.Memory, "memory", "most `bytes` of keys, values and states, such as 8GiB (default "+
		"half of what the system has free)")
	c.Body = 4 << 20
	byteFlag(f, &c.Body, "body", "most `bytes` of a request (default 4MiB)")
	f.StringVar(&c.Keys, "keys", "", "`file` with keys, one a line; a request must show one of them")
	f.Func("origins",
		"origins of web pages that may send requests, such as https://example.com, with commas; "+
			"* for all (default none)", o.setOrigins)
	f.DurationVar(&c.Grace, "grace", serve.UsualGrace, "longest `time` for answers to end after a "+
		"signal")
	f.DurationVar(&c.Read, "read-time", serve.UsualRead, "longest `time` to send a request")
	f.DurationVar(&c.Write, "write-time", serve.UsualWrite, "longest `time` to read a part of a "+
		"response")
	f.DurationVar(&c.Answer, "answer-time", serve.UsualAnswer, "longest `time` of an answer")
	err := flags.ParseAll(f, args, help)
	if err == nil {
		err = o.check(f)
	}
	return o, err
}

// setAlias adds a name of a model.
func (o *serveFlags) setAlias(text string) error {
	to, name := &o.Names, text
	for prefix, names := range map[string]*[]string{"embed=": &o.EmbedNames,
		"rerank=": &o.RerankNames} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			to, name = names, rest
		}
	}
	if name == "" || strings.TrimSpace(name) != name {
		return errors.New("want a name, embed=NAME or rerank=NAME")
	}
	*to = append(*to, name)
	return nil
}

func (o *serveFlags) setOrigins(text string) error {
	for origin := range strings.SplitSeq(text, ",") {
		u, err := url.Parse(origin)
		whole := err == nil && u.Scheme != "" && u.Host != "" && u.Scheme+"://"+u.Host == origin
		if origin != "*" && !whole {
			return fmt.Errorf("%q is no origin, want one as https://example.com, or *", origin)
		}
		o.Origins = append(o.Origins, origin)
	}
	return nil
}

// byteFlag registers a flag for a number of bytes.
func byteFlag(f *flag.FlagSet, to *int64, name, about string) {
	f.Func(name, about, func(text string) error {
		number, unit := strings.TrimRight(text, "KMGTiB"), int64(1)
		n, err := strconv.ParseInt(number, 10, 64)
		known := map[string]int64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
			"TiB": 1 << 40}
		unit, ok := known[text[len(number):]]
		if err != nil || !ok || n < 1 || n > math.MaxInt64/unit {
			return errors.New("want a number of bytes, as 8GiB, 512MiB or 1000000")
		}
		*to = n * unit
		return nil
	})
}

// check refuses flags that do not fit together.
func (o *serveFlags) check(f *flag.FlagSet) error {
	said := map[string]bool{}
	f.Visit(func(x *flag.Flag) { said[x.Name] = true })
	o.random = said["size"]
	answers := o.path != "" || o.random
	if !answers && o.embed == "" && o.rerank == "" {
		return flags.Errorf("there is no model, want -model, -embed or -rerank, or -size for a random " +
			"model")
	}
	for _, name := range []string{"context", "sequences", "memory", "tokens", "chunk", "cache",
		"weights", "products", "pack", "draft", "guesses"} {
		if said[name] && !answers {
			return flags.Errorf("-%s is there without -model, want both or none", name)
		}
	}
	for what, is := range map[string]struct {
		names []string
		there bool
	}{"-alias ": {o.Names, answers}, "-alias embed=": {o.EmbedNames, o.embed != ""},
		"-alias rerank=": {o.RerankNames, o.rerank != ""}} {
		if len(is.names) > 0 && !is.there {
			return flags.Errorf("%s%s is of a model that is not there, want its file, too", what,
				is.names[0])
		}
	}
	if !o.random {
		o.size = "tiny"
	}
	if err := o.modelFlags.check(f); err != nil {
		return err
	}
	return o.checkBounds(said)
}

func (o *serveFlags) checkBounds(said map[string]bool) error {
	switch {
	case o.Queue < 0:
		return flags.Errorf("-queue is %d, want 0 or more", o.Queue)
	case o.Tokens < 0 || said["tokens"] && o.Tokens == 0:
		return flags.Errorf("-tokens is %d, want 1 or more", o.Tokens)
	case o.Grace < 0:
		return flags.Errorf("-grace is %v, want 0 or more", o.Grace)
	}
	for name, is := range map[string]time.Duration{"read-time": o.Read, "write-time": o.Write,
		"answer-time": o.Answer} {
		if is <= 0 {
			return flags.Errorf("-%s is %v, want more than 0", name, is)
		}
	}
	if _, port, err := net.SplitHostPort(o.listen); err != nil || port == "" {
		return flags.Errorf("-listen is %q, want an address as 127.0.0.1:8080", o.listen)
	}
	return nil
}

// usualName sets the name of a model without an alias.
func usualName(names *[]string, path string) {
	if len(*names) == 0 {
		path, _ = filepath.Abs(path) // so that "." has a name, too
		*names = []string{strings.TrimSuffix(filepath.Base(path), ".gguf")}
	}
}

// openModels opens all models; closing closes them.
func (o *serveFlags) openModels(out, errs io.Writer) (closing func(), err error) {
	var open []io.Closer
	closing = func() {
		for _, m := range open {
			_ = m.Close() // it is open, so Close cannot fail
		}
	}
	if o.path != "" || o.random {
		model, closeModel, err := o.open()
		if err != nil {
			return closing, ofMemory(err)
		}
		open = append(open, closer(closeModel))
		if err := o.describe(out, errs, model); err != nil {
			return closing, err
		}
		if o.Model = model; o.path == "" {
			o.path = "random"
		}
		usualName(&o.Names, o.path)
	}
	for _, m := range []struct {
		flag, path string
		to         **embed.Model
		names      *[]string
	}{{"embed", o.embed, &o.Embed, &o.EmbedNames}, {"rerank", o.rerank, &o.Rerank, &o.RerankNames}} {
		if m.path == "" {
			continue
		}
		model, err := embed.Open(m.path, embed.Options{Workers: o.Workers})
		if err != nil {
			return closing, fmt.Errorf("-%s: %w", m.flag, err)
		}
		*m.to, open = model, append(open, model)
		usualName(m.names, m.path)
	}
	return closing, nil
}

// closer is a function that closes.
type closer func()

func (f closer) Close() error {
	f()
	return nil
}

func serveModels(args []string, _ io.Reader, out, errs io.Writer) error {
	o, err := parseServe(args, errs)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("-listen %s: %w", o.listen, err)
	}
	defer func() { _ = listener.Close() }() // the server closes it, too
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, hangUp)
	defer signal.Stop(signals)
	closing, err := o.openModels(out, errs)
	defer closing()
	if err != nil {
		return err
	}
	o.Log = log.New(errs, "attn-lm serve: ", 0)
	s, err := serve.New(o.Config)
	if err != nil {
		return ofMemory(err)
	}
	o.greet(out, errs, listener.Addr())
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(listener) }()
	return o.watch(s, signals, failed)
}

// ofMemory puts flags into an error about too little memory.
func ofMemory(err error) error {
	if !errors.Is(err, attn.ErrMemory) {
		return err
	}
	return flags.Errorf("%s; want more -memory, or a shorter -context",
		strings.ReplaceAll(err.Error(), "Options.Memory", "-memory"))
}

// greet prints the server's address, and a warning if anybody can send requests.
func (o *serveFlags) greet(out, errs io.Writer, at net.Addr) {
	names := append(append(append([]string{}, o.Names...), o.EmbedNames...), o.RerankNames...)
	fmt.Fprintf(out, "%s at http://%v/v1\n", strings.Join(names, ", "), at)
	if tcp, ok := at.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() && o.Keys == "" {
		fmt.Fprintln(errs, "warning: all who reach this address can send requests; set -keys")
	}
}

// watch ends the server on signals.
func (o *serveFlags) watch(s *serve.Server, signals <-chan os.Signal, failed <-chan error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var ended chan error // nil until a signal comes
	for {
		select {
		case err := <-failed:
			if ended == nil {
				return err
			}
			failed = nil
		case err := <-ended:
			return err
		case sign := <-signals:
			switch {
			case sign == hangUp:
				if err := s.ReadKeys(); err != nil {
					o.Log.Printf("-keys: %v; the keys stay as they are", err)
				}
			case ended == nil:
				ended = make(chan error, 1)
				go func() { ended <- s.End(ctx) }()
			default:
				cancel()
			}
		}
	}
}
