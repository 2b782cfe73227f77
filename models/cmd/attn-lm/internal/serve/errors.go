package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/gauge"
	"github.com/seed-1415985d/attn/models/lm"
)

// problem is an error in a response.
type problem struct {
	status  int
	message string
	kind    string
	param   string // a field of the request; "" for none
	code    string // "" for none
	after   int    // seconds to wait before another try; 0: none
	allow   string // allowed methods of the path
	final   bool   // another try does not help
}

func (p *problem) Error() string { return p.message }

const (
	invalidRequest = "invalid_request_error"
	serverError    = "server_error"
)

// invalid returns an error about a field of the request; "" for none.
func invalid(param, format string, args ...any) *problem {
	return &problem{status: http.StatusBadRequest, kind: invalidRequest, param: param,
		message: fmt.Sprintf(format, args...)}
}

func (p *problem) coded(status int, code string) *problem {
	p.status, p.code = status, code
	return p
}

// unavailable returns the error of a server that cannot answer now.
func unavailable(code, text string) *problem {
	return &problem{status: http.StatusServiceUnavailable, kind: serverError, code: code,
		message: text, after: 1}
}

// busy returns the error of a server with too many requests.
func busy(g *gate, format string, args ...any) *problem {
	return &problem{status: http.StatusTooManyRequests, kind: "rate_limit_error", code: "queue_full",
		message: fmt.Sprintf(format, args...), after: g.after()}
}

// errAnswerTime is the error of an answer that runs for too long.
var errAnswerTime = errors.New("the answer takes too long")

// statusGone is the status in metrics of a client that disconnected, as in nginx.
const statusGone = 499

// errGone is the error of a client that does not read its response.
var errGone = errors.New("the client does not read")

// problemOf returns the problem for an error.
func (s *Server) problemOf(err error) *problem {
	var p *problem
	const contextLength = "context_length_exceeded"
	switch text := err.Error(); {
	case errors.As(err, &p):
		return p
	case errors.Is(err, lm.ErrContext), errors.Is(err, gauge.ErrCut), errors.Is(err, attn.ErrMemory):
		return invalid("", "%s", text).coded(http.StatusBadRequest, contextLength)
	case errors.Is(err, lm.ErrTemplate):
		return invalid("messages", "%s", text)
	case errors.Is(err, attn.ErrOption):
		return invalid("", "%s", text)
	case errors.Is(err, errAnswerTime):
		p = unavailable("answer_timeout", fmt.Sprintf("the answer took longer than %v", s.Answer))
		p.after, p.final = 0, true
		return p
	case errors.Is(err, errEnding), errors.Is(err, attn.ErrClosed):
		return unavailable("server_ending", "the server ends, and answers no new requests")
	case errors.Is(err, context.Canceled), errors.Is(err, errGone): // nobody reads this response
		return invalid("", "the client has gone").coded(statusGone, "cancelled")
	}
	if s.Log != nil {
		s.Log.Printf("internal error: %v", err)
	}
	return &problem{status: http.StatusInternalServerError, kind: serverError, code: "internal_error",
		message: "the server made a mistake, which its log has"}
}

// body returns the problem in JSON.
func (p *problem) body() any {
	text := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	type inner struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	return struct {
		Error inner `json:"error"`
	}{inner{p.message, p.kind, text(p.param), text(p.code)}}
}

// write writes the problem as the whole response.
func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	if p.after > 0 {
		h.Set("Retry-After", strconv.Itoa(p.after))
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	if p.final {
		h.Set("X-Should-Retry", "false") // OpenAI's clients obey it
	}
	if p.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	writeJSON(w, p.status, p.body())
}
