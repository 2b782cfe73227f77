// Package serve answers requests of OpenAI's interface with models of packages lm and embed.
//
// Each key of a request is obeyed, has no effect by definition, or is an error that names it. An
// answer has the same bits as package lm gives for its prompt, sampling and seed, whatever other
// requests run.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/embed"
	"github.com/seed-1415985d/attn/models/internal/gauge"
	"github.com/seed-1415985d/attn/models/lm"
)

// Default times of a server.
const (
	UsualRead, UsualWrite = 30 * time.Second, 30 * time.Second
	UsualAnswer           = 10 * time.Minute
	UsualGrace            = 25 * time.Second
	usualComment          = 10 * time.Second
	usualBody             = 4 << 20
)

// Config is the models of a server, and its bounds. A time of 0 means the default, except for
// Grace.
type Config struct {
	Model         *lm.Model    // nil for none
	Embed, Rerank *embed.Model // nil for none
	// Names are the names of each model in requests; lists show the first one.
	Names, EmbedNames, RerankNames []string

	Queue   int      // most answers that wait for a place
	Tokens  int      // most tokens of an answer; 0: as many as the context leaves
	Body    int64    // most bytes of a request; 0: 4 MiB
	Keys    string   // file with a key on each line; "": no key is needed
	Origins []string // of web pages that may send requests; "*": all

	Read, Write time.Duration // longest times to send a request, and to read a part of a response
	Answer      time.Duration // longest time of an answer
	Grace       time.Duration // longest time for answers to end in; 0: none
	Comment     time.Duration // between comments in a stream that waits

	Log *log.Logger // of errors that are not the client's; nil: no log
}

// Server is a handler of requests.
type Server struct {
	Config
	fingerprint string
	started     time.Time
	keys        atomic.Pointer[keys] // nil: no key is needed
	answers     *gate                // of the language model
	vectors     *gate                // of the other models
	requests    atomic.Int64         // being read or answered
	ending      atomic.Bool
	idle        chan struct{} // holds one: the last request ended
	metrics     *metrics
	routes      map[string]route
	embeds      reads
	http        *http.Server
	abort       context.CancelCauseFunc // ends all answers
}

// readers is how many requests may be read or refused in addition to those being answered.
const readers = 64

// New makes a server. It checks that the models' memory suffices for the bounds.
func New(c Config) (*Server, error) {
	if c.Model == nil && c.Embed == nil && c.Rerank == nil {
		return nil, errors.New("there is no model")
	}
	set(&c.Body, usualBody)
	set(&c.Read, UsualRead)
	set(&c.Write, UsualWrite)
	set(&c.Answer, UsualAnswer)
	set(&c.Comment, usualComment)
	s := &Server{Config: c, started: time.Now(), idle: make(chan struct{}, 1),
		answers: newGate(0, 0), vectors: newGate(1, c.Queue)}
	if err := s.checkNames(); err != nil {
		return nil, err
	}
	if err := s.ReadKeys(); err != nil {
		return nil, err
	}
	if err := s.checkModels(); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(s)
	s.routes = s.allRoutes()
	base, abort := context.WithCancelCause(context.Background())
	s.abort = abort
	s.http = &http.Server{Handler: s, ReadTimeout: c.Read, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 32 << 10, ErrorLog: c.Log,
		BaseContext: func(net.Listener) context.Context { return base }}
	return s, nil
}

// set sets a default.
func set[T comparable](x *T, usual T) {
	var zero T
	if *x == zero {
		*x = usual
	}
}

// checkModels runs each model once.
func (s *Server) checkModels() error {
	if s.Embed != nil {
		var err error
		if s.embeds, err = readsOf(s.Embed); err != nil {
			return fmt.Errorf("the model for embeddings: %w", err)
		}
	}
	if s.Rerank != nil {
		if _, err := s.Rerank.Rerank("query", []string{"text"}); err != nil {
			return fmt.Errorf("the model for scores: %w", err)
		}
	}
	if s.Model != nil {
		return s.checkModel()
	}
	return nil
}

// checkModel checks that the memory holds an answer of the whole context, and describes the model.
func (s *Server) checkModel() (err error) {
	if s.fingerprint, err = s.Model.Fingerprint(); err != nil {
		return err
	}
	for _, err := range s.Model.Generate(context.Background(), []int32{0}, lm.Generation{}) {
		if errors.Is(err, attn.ErrMemory) {
			return fmt.Errorf("a sequence of %d tokens, Options.Context, does not fit: %w",
				s.Model.Context(), err)
		}
		if err != nil {
			return err
		}
		break
	}
	s.answers = newGate(gauge.OfModel(s.Model).Places, s.Queue)
	return nil
}

// checkNames refuses a name for two models.
func (s *Server) checkNames() error {
	known := map[string]bool{}
	for _, m := range s.models() {
		if len(m.names) == 0 {
			return fmt.Errorf("the model of %s has no name", m.what)
		}
		for _, name := range m.names {
			if known[name] || name == "" {
				return fmt.Errorf("a model of %s is called %q, want a name that no other has", m.what, name)
			}
			known[name] = true
		}
	}
	return nil
}

// Serve answers requests to a listener, until [Server.End].
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

var errEnding = errors.New("the server ends")

// End refuses new requests, waits until answers have ended, for at most Config.Grace or until ctx
// is done, and closes all connections. The error says how many answers were ended early.
func (s *Server) End(ctx context.Context) error {
	s.ending.Store(true)
	grace, cancel := context.WithTimeout(ctx, s.Grace)
	defer cancel()
	cut := s.wait(grace)
	s.abort(errEnding)
	if cut > 0 { // time for the last writes
		last, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.wait(last)
	}
	closing, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(closing) != nil {
		_ = s.http.Close() // no request is left
	}
	if cut > 0 {
		return fmt.Errorf("%d answers were ended early", cut)
	}
	return nil
}

// wait waits until no request is being answered, or ctx is done. It returns how many are.
func (s *Server) wait(ctx context.Context) int64 {
	for {
		n := s.requests.Load()
		if n == 0 {
			return 0
		}
		select {
		case <-s.idle:
		case <-ctx.Done():
			return n
		}
	}
}

// begin counts a request that is being read and answered. It refuses one that is too many.
func (s *Server) begin() error {
	n := s.requests.Add(1)
	if s.ending.Load() {
		return errEnding
	}
	if most := s.answers.most() + s.vectors.most() + readers; n > int64(most) {
		return busy(s.answers, "there are %d requests, want at most %d at a time", n, most)
	}
	return nil
}

// end counts the end of a request.
func (s *Server) end() {
	if s.requests.Add(-1) == 0 {
		select {
		case s.idle <- struct{}{}:
		default: // a signal is pending
		}
	}
}
