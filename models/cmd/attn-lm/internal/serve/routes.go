package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// route is the handlers of a path.
type route struct {
	get  func(w http.ResponseWriter, r *http.Request) error              // nil for none
	post func(w http.ResponseWriter, r *http.Request, body []byte) error // nil for none
	open bool                                                            // needs no key
}

const modelsPath = "/v1/models"

// allRoutes returns the paths that the server's models can answer.
func (s *Server) allRoutes() map[string]route {
	all := map[string]route{"/health": {get: s.health, open: true}, "/metrics": {get: s.metrics.get},
		modelsPath: {get: s.listModels}}
	if s.Model != nil {
		all["/v1/completions"] = route{post: s.completions}
		all["/v1/chat/completions"] = route{post: s.chatCompletions}
		all["/v1/tokenize"] = route{post: s.tokenize}
		all["/v1/detokenize"] = route{post: s.detokenize}
	}
	if s.Embed != nil {
		all["/v1/embeddings"] = route{post: s.embeddings}
	}
	if s.Rerank != nil {
		all["/v1/rerank"] = route{post: s.rerank}
	}
	return all
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from := time.Now()
	name, known := s.routeOf(r.URL.Path)
	out := &response{ResponseWriter: w, limit: s.Write}
	defer func() { s.metrics.request(name, out.status, time.Since(from)) }()
	out.Header().Set("X-Request-Id", newID("req-"))
	out.Header().Set("X-Content-Type-Options", "nosniff")
	if err := s.answer(out, r, known); err != nil {
		out.fail(s.problemOf(err))
	}
}

// routeOf returns the name of a path for metrics, and its route; nil for an unknown path.
func (s *Server) routeOf(path string) (name string, known *route) {
	if rest, ok := strings.CutPrefix(path, modelsPath+"/"); ok && rest != "" {
		return modelsPath + "/{id}", &route{get: s.oneModel}
	}
	if found, ok := s.routes[path]; ok {
		return path, &found
	}
	return "other", nil
}

func (s *Server) answer(w *response, r *http.Request, known *route) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("panic: %v\n%s", what, debug.Stack())
		}
	}()
	if err := checkHost(r); err != nil {
		return err
	}
	if s.share(w, r) {
		return nil
	}
	if known == nil || !known.open {
		if err := s.checkKey(r); err != nil {
			return err
		}
	}
	switch {
	case s.ending.Load():
		return s.problemOf(errEnding)
	case known == nil:
		return invalid("", "there is no %s, want one of %s", shortText(r.URL.Path), s.paths()).
			coded(http.StatusNotFound, "not_found")
	case known.get != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		return known.get(w, r)
	case known.post != nil && r.Method == http.MethodPost:
		return s.post(w, r, known)
	}
	allow := "GET, HEAD"
	if known.post != nil {
		allow = "POST"
	}
	p := invalid("", "the method is %s, want %s", shortText(r.Method), allow).
		coded(http.StatusMethodNotAllowed, "method_not_allowed")
	p.allow = allow
	return p
}

// paths lists the known paths.
func (s *Server) paths() string {
	all := slices.Sorted(maps.Keys(s.routes))
	return strings.Join(append(all, modelsPath+"/{id}"), ", ")
}

// post reads a request and answers it.
func (s *Server) post(w *response, r *http.Request, known *route) error {
	defer s.end()
	if err := s.begin(); err != nil {
		return err
	}
	body, err := s.read(w, r)
	if err != nil {
		return err
	}
	return known.post(w, r, body)
}

// read reads the body of a request, which must be JSON.
func (s *Server) read(w *response, r *http.Request) ([]byte, error) {
	given := r.Header.Get("Content-Type")
	kind, parameters, err := mime.ParseMediaType(given)
	charset, ok := parameters["charset"]
	if err != nil || kind != "application/json" || ok && !strings.EqualFold(charset, "utf-8") {
		return nil, invalid("", "Content-Type is %q, want application/json", shortText(given)).
			coded(http.StatusUnsupportedMediaType, "unsupported_media_type")
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, invalid("", "Content-Encoding is %q, want none", shortText(coding)).
			coded(http.StatusUnsupportedMediaType, "unsupported_media_type")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w.ResponseWriter, r.Body, s.Body))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, invalid("", "the body has more than %d bytes, want at most these", s.Body).
			coded(http.StatusRequestEntityTooLarge, "request_too_large")
	case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
		return nil, invalid("", "the body cannot be read: %v", err)
	case err != nil:
		return nil, invalid("", "the body did not come whole within %v", s.Read)
	}
	return body, nil
}

// checkHost refuses requests over the loopback interface whose Host is another name: a page in a
// browser can reach local servers by a name that resolves to them.
func checkHost(r *http.Request) error {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return nil
	}
	if at, err := netip.ParseAddrPort(local.String()); err != nil || !at.Addr().Unmap().IsLoopback() {
		return nil
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	ip, err := netip.ParseAddr(host)
	if host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		err == nil && ip.Unmap().IsLoopback() {
		return nil
	}
	return invalid("", "Host is %q, want localhost or an address of this machine: on the loopback "+
		"interface other names are refused", shortText(r.Host)).coded(http.StatusBadRequest,
		"host_not_local")
}

// share lets pages of Config.Origins read responses. It reports whether the request is answered.
func (s *Server) share(w *response, r *http.Request) bool {
	if len(s.Origins) == 0 {
		return false
	}
	h, origin := w.Header(), r.Header.Get("Origin")
	h.Add("Vary", "Origin")
	if origin == "" || !slices.Contains(s.Origins, "*") && !slices.Contains(s.Origins, origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Retry-After, X-Request-Id")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	// OpenAI's clients send headers of their own, which have no effect here.
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// response is a response whose reader has a bounded time for each part.
type response struct {
	http.ResponseWriter
	limit  time.Duration
	status int            // 0 before the header is sent
	broken func(*problem) // writes an error into a stream; nil for other responses
}

// Unwrap is for http.NewResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.wait()
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.wait()
	return w.ResponseWriter.Write(data)
}

// wait starts the time for the next part.
func (w *response) wait() {
	// A writer without a connection, as in tests, has no deadline.
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.limit))
}

// fail ends a response with an error.
func (w *response) fail(p *problem) {
	switch {
	case w.status == 0:
		p.write(w)
	case w.broken != nil:
		w.broken(p)
	}
}

// writeJSON writes a whole response. A client that does not read it has gone.
func writeJSON(w http.ResponseWriter, status int, value any) {
	data, err := encode(value)
	if err != nil { // cannot happen: the types are of JSON
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

// encode returns a value in JSON, without escapes of <, > and &.
func encode(value any) ([]byte, error) {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return []byte(text.String()), err
}

// shortText returns a client's text for an error.
func shortText(text string) string {
	const most = 100
	if runes := []rune(text[:min(len(text), 4*most)]); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
