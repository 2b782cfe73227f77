package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-1415985d/attn/models/lm"
)

const chatBody = `{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3}`

// TestRoutes has known and unknown paths; unknown ones are errors.
func TestRoutes(t *testing.T) {
	x := start(t, Config{Names: []string{"org/model", "alias"}})
	for _, path := range []string{"/health", "/metrics", "/v1/models", "/v1/models/org/model",
		"/v1/models/org%2Fmodel", "/v1/models/alias"} {
		for _, method := range []string{"GET", "HEAD"} {
			if a := x.do(method, path, ""); a.status != 200 || method == "HEAD" && len(a.body) > 0 {
				t.Errorf("%s %s: status %d, %s", method, path, a.status, a.body)
			}
		}
		x.refuses(x.post(path, `{}`), 405, "", "method_not_allowed", "want GET")
	}
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/completions/", "/v1/responses",
		"/v1/embeddings", "/v1/rerank", "/health/", "/v1//models", "/V1/models", "/v1/models/"} {
		a := x.do("GET", path, "")
		x.refuses(a, 404, "", "not_found", "/v1/chat/completions")
	}
	x.refuses(x.do("GET", "/v1/models/x", ""), 404, "model", "model_not_found", "org/model or alias")
	for _, path := range []string{"/v1/completions", "/v1/chat/completions", "/v1/tokenize",
		"/v1/detokenize"} {
		for _, method := range []string{"GET", "PUT", "DELETE", "OPTIONS"} {
			a := x.do(method, path, "")
			if x.refuses(a, 405, "", "method_not_allowed", "want POST"); a.header.Get("Allow") != "POST" {
				t.Errorf("Allow is %q", a.header.Get("Allow"))
			}
		}
	}
	for path, own := range map[string]string{"/v1/completions": `"prompt": "x"`,
		"/v1/chat/completions": `"messages": [{"role": "user", "content": "x"}]`,
		"/v1/tokenize":         `"prompt": "x"`, "/v1/detokenize": `"tokens": []`} {
		x.refuses(x.post(path, `{"model": "x", `+own+`}`), 404, "model", "model_not_found", "alias")
	}
	var list struct {
		Object string
		Data   []struct {
			ID, Object string
			Owner      string `json:"owned_by"`
			Created    int64
		}
	}
	x.do("GET", "/v1/models", "").into(t, &list)
	if list.Object != "list" || len(list.Data) != 2 || list.Data[0].ID != "org/model" ||
		list.Data[1].ID != "alias" || list.Data[0].Object != "model" || list.Data[0].Created == 0 {
		t.Errorf("the models are %+v", list)
	}
	for _, name := range []string{"org/model", "alias"} {
		got := x.ok("/v1/chat/completions", chatBody[:len(chatBody)-1]+`, "model": "`+name+`"}`)
		if got.Model != name || got.Fingerprint != "fp_"+x.fingerprint[:16] || got.Created == 0 ||
			got.Object != "chat.completion" || !strings.HasPrefix(got.ID, "chatcmpl-") {
			t.Errorf("the response is %+v", got)
		}
	}
}

// TestContentType: a page in a browser cannot send JSON to other origins without permission.
func TestContentType(t *testing.T) {
	x := start(t, Config{})
	for kind, status := range map[string]int{"application/json": 200, "Application/JSON": 200,
		"application/json; charset=utf-8": 200, `application/json; charset="UTF-8"`: 200,
		"application/json; charset=latin1": 415, "text/plain": 415, "": 415, "application/jsonl": 415,
		"application/x-www-form-urlencoded": 415, "text/plain; application/json": 415, "a b": 415} {
		a := x.post("/v1/chat/completions", chatBody, "Content-Type", kind)
		if a.status != status {
			t.Errorf("%q: status %d, want %d", kind, a.status, status)
		}
		if status == 415 {
			x.refuses(a, 415, "", "unsupported_media_type", "application/json")
		}
	}
	x.refuses(x.post("/v1/chat/completions", chatBody, "Content-Encoding", "gzip"), 415, "",
		"unsupported_media_type", "Content-Encoding")
}

// TestHost: names elsewhere are refused on the loopback interface.
func TestHost(t *testing.T) {
	x := start(t, Config{})
	for host, status := range map[string]int{"localhost": 200, "LOCALHOST:99": 200, "127.0.0.1": 200,
		"127.1.2.3:8080": 200, "[::1]": 200, "[::1]:80": 200, "a.localhost": 200, "localhost.": 200,
		"evil.example": 400, "localhost.evil.example": 400, "10.0.0.1": 400, "127.0.0.1.nip.io": 400,
		"evillocalhost": 400, "0.0.0.0": 400, "[::ffff:127.0.0.1]": 200, "x@localhost": 400} {
		for path, body := range map[string]string{"/health": "", "/v1/chat/completions": chatBody} {
			method := "GET"
			if body != "" {
				method = "POST"
			}
			a := x.do(method, path, body, "Host", host)
			if a.status != status && !(host == "x@localhost" && a.status >= 400) {
				t.Errorf("%s %s: status %d, want %d", host, path, a.status, status)
			}
			if a.status == 400 && host != "x@localhost" {
				x.refuses(a, 400, "", "host_not_local", "Host")
			}
		}
	}
}

// TestOrigins: without them no page may read a response.
func TestOrigins(t *testing.T) {
	for _, c := range []struct {
		origins []string
		origin  string
		shared  bool
	}{{nil, "https://a.example", false}, {[]string{"https://a.example"}, "https://a.example", true},
		{[]string{"https://a.example"}, "https://b.example", false},
		{[]string{"https://a.example"}, "http://a.example", false},
		{[]string{"https://a.example"}, "https://a.example.evil", false},
		{[]string{"https://a.example", "http://localhost:3000"}, "http://localhost:3000", true},
		{[]string{"*"}, "https://b.example", true}, {[]string{"*"}, "", false}} {
		x := start(t, Config{Origins: c.origins, Keys: writeKeys(t, "k\n")})
		a := x.do("OPTIONS", "/v1/chat/completions", "", "Origin", c.origin,
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers",
			"authorization,content-type,x-stainless-os")
		shared := a.header.Get("Access-Control-Allow-Origin")
		if c.shared != (shared == c.origin && a.status == 204) || !c.shared && shared != "" ||
			!c.shared && a.status == 204 {
			t.Errorf("%q, %q: status %d, shared with %q", c.origins, c.origin, a.status, shared)
		}
		b := x.post("/v1/chat/completions", chatBody, "Origin", c.origin, "Authorization", "Bearer k")
		if c.shared != (b.header.Get("Access-Control-Allow-Origin") != "") || b.status != 200 {
			t.Errorf("%q, %q: status %d, %v", c.origins, c.origin, b.status, b.header)
		}
		x.stop()
	}
}

func writeKeys(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestKeys has right and wrong keys, and reads them again.
func TestKeys(t *testing.T) {
	path := writeKeys(t, "\none\r\ntwo-2  \n\n")
	x := start(t, Config{Keys: path})
	for key, ok := range map[string]bool{"Bearer one": true, "Bearer two-2": true, "bearer one": true,
		"Bearer  one": true, "Bearer three": false, "": false, "Bearer ": false, "Bearer": false,
		"one": false, "Basic one": false, "Bearer one two-2": false, "Bearer on": false,
		"Bearer oneone": false} {
		for _, path := range []string{"/v1/models", "/metrics", "/nothing"} {
			a := x.do("GET", path, "", "Authorization", key)
			if refused := a.status == 401; refused == ok {
				t.Errorf("%q, %s: status %d", key, path, a.status)
			}
			if !ok {
				x.refuses(a, 401, "", "invalid_api_key", "Authorization")
			}
		}
	}
	if a := x.do("GET", "/health", ""); a.status != 200 {
		t.Errorf("health without a key: status %d", a.status)
	}
	x.refuses(x.post("/v1/chat/completions", "no JSON"), 401, "", "invalid_api_key", "")
	write := func(text string) error {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return x.ReadKeys()
	}
	status := func(key string) int {
		return x.do("GET", "/v1/models", "", "Authorization", "Bearer "+key).status
	}
	for _, wrong := range []string{"", "\n \n", "a b\n", "ö\n", "a\x00b"} {
		if err := write(wrong); err == nil || !strings.Contains(err.Error(), path) ||
			strings.Contains(err.Error(), "a b") {
			t.Errorf("%q: the error is %v", wrong, err)
		}
		if status("one") != 200 {
			t.Errorf("%q: the keys are gone", wrong)
		}
	}
	if err := write("three"); err != nil || status("one") != 401 || status("three") != 200 {
		t.Errorf("after a change: %v, %d, %d", err, status("one"), status("three"))
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := x.ReadKeys(); err == nil || status("three") != 200 {
		t.Errorf("without the file: %v", err)
	}
}

// TestBounds has bodies that are too long or too slow.
func TestBounds(t *testing.T) {
	x := start(t, Config{Body: 1000, Read: 200 * time.Millisecond})
	long := `{"prompt": "` + strings.Repeat("x", 1000) + `"}`
	x.refuses(x.post("/v1/completions", long), 413, "", "request_too_large", "1000 bytes")
	at := strings.TrimPrefix(x.base, "http://")
	says := map[string]string{"a body": "did not come whole",
		"a chunk": "invalid byte in chunk length"}
	for what, text := range map[string]string{
		"a chunk": "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" +
			"Content-Type: application/json\r\n" +
			"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"a header": "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-",
		"a body": "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" +
			"Content-Type: application/json\r\n" +
			"Content-Length: 100\r\n\r\n{\"prompt\"",
		"a body that nobody wants": "POST /nothing HTTP/1.1\r\nHost: localhost\r\n" +
			"Content-Length: 100\r\n\r\n"} {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		from := time.Now()
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		data, err := io.ReadAll(c)
		if err != nil || time.Since(from) > 3*time.Second {
			t.Errorf("%s that does not come is waited for %v: %v", what, time.Since(from), err)
		}
		if !strings.Contains(string(data), says[what]) {
			t.Errorf("%s: the answer is %q", what, data)
		}
		_ = c.Close()
	}
	// A long header.
	r := x.do("GET", "/health", "", "X-Long", strings.Repeat("x", 100<<10))
	if r.status != 431 {
		t.Errorf("a long header: status %d", r.status)
	}
}

// TestReadTimeIsOfRequests: an answer may last longer than Config.Read.
func TestReadTimeIsOfRequests(t *testing.T) {
	x := start(t, Config{Model: slowModel(t, lm.Options{}), Read: 30 * time.Millisecond})
	for most, from := 80, time.Now(); ; most *= 2 {
		got := x.ok("/v1/completions", fmt.Sprintf(`{"prompt": "x", "max_tokens": %d,
			"logit_bias": {"257": -100, "258": -100}}`, most))
		if got.Usage.Completion != most {
			t.Fatalf("%d tokens, want %d", got.Usage.Completion, most)
		}
		if took := time.Since(from); took > 100*time.Millisecond {
			return
		}
		from = time.Now()
	}
}

// TestQueue has more requests than places.
func TestQueue(t *testing.T) {
	x := start(t, Config{Model: slowModel(t, lm.Options{Sequences: 1}), Queue: 1})
	const body = `{"prompt": "x", "stream": true, "max_tokens": 400, "logit_bias": {"257": -100,
		"258": -100}}`
	first := x.open(t, body)
	first.line(t)
	second := x.open(t, body)
	for x.answers.now() < 2 {
		time.Sleep(time.Millisecond)
	}
	a := x.post("/v1/completions", `{"prompt": "y"}`)
	x.refuses(a, 429, "", "queue_full", "at most 2")
	if n, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || n < 1 || n > 60 {
		t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
	}
	x.refuses(x.post("/v1/completions", `{"prompt": "y", "n": 3}`), 400, "n", "", "at most 2")
	first.close()
	second.line(t)
	second.close()
	x.settled()
	if got := x.ok("/v1/completions", `{"prompt": "y", "n": 2, "max_tokens": 2}`); len(got.Choices) != 2 {
		t.Errorf("afterwards: %+v", got)
	}
}

// opened is a stream that is being read.
type opened struct {
	cancel context.CancelFunc
	got    chan *http.Response
	r      *http.Response
	lines  *bufio.Reader
}

// open sends a request without waiting for its response.
func (x *tester) open(t testing.TB, body string) *opened {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "POST", x.base+"/v1/completions",
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	o := &opened{cancel: cancel, got: make(chan *http.Response, 1)}
	go func() {
		response, err := x.client.Do(r)
		if err != nil {
			response = nil
		}
		o.got <- response
	}()
	return o
}

func (o *opened) line(t testing.TB) string {
	t.Helper()
	if o.r == nil {
		if o.r = <-o.got; o.r == nil {
			t.Fatal("there is no response")
		}
		o.lines = bufio.NewReader(o.r.Body)
	}
	for {
		line, err := o.lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "data: ") {
			return line
		}
	}
}

func (o *opened) close() {
	o.cancel()
	if o.r != nil {
		_ = o.r.Body.Close()
	}
}

// TestAborted: a client that disconnects frees its place.
func TestAborted(t *testing.T) {
	x := start(t, Config{Model: slowModel(t, lm.Options{Sequences: 2})})
	const body = `{"prompt": "x", "n": 2, "max_tokens": 4000, "logit_bias": {"257": -100,
		"258": -100}`
	for i := range 12 {
		text := body + `}`
		if i%2 == 0 {
			text = body + `, "stream": true}`
		}
		o := x.open(t, text)
		if i%4 == 0 {
			o.line(t)
		} else {
			time.Sleep(5 * time.Millisecond)
		}
		o.close()
	}
	x.settled()
	if got := x.ok("/v1/completions", `{"prompt": "y", "max_tokens": 2}`); got.Usage.Prompt != 1 {
		t.Errorf("afterwards: %+v", got)
	}
}

// TestSlowReader: a client that does not read keeps its place for a bounded time, and others do not
// wait for it.
func TestSlowReader(t *testing.T) {
	x := start(t, Config{Model: randomModel(t, testSizes, lm.Options{Sequences: 2, Context: 8192}),
		Write: 200 * time.Millisecond})
	c, err := net.Dial("tcp", strings.TrimPrefix(x.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.(*net.TCPConn).SetReadBuffer(1 << 12)
	body := `{"prompt": "x", "stream": true, "logprobs": 20, "max_tokens": 8000, "logit_bias":
		{"257": -100, "258": -100}}`
	fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
		"application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for x.answers.now() == 0 {
		time.Sleep(time.Millisecond)
	}
	if got := x.ok("/v1/completions", `{"prompt": "y", "max_tokens": 2}`); got.Usage.Prompt != 1 {
		t.Errorf("meanwhile: %+v", got)
	}
	for from := time.Now(); x.answers.now() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(from) > 20*time.Second {
			t.Fatal("a reader that does not read keeps its place")
		}
	}
}

// TestAnswerTime ends answers that run for too long, whole responses and streams.
func TestAnswerTime(t *testing.T) {
	m := slowModel(t, lm.Options{})
	limit := max(time.Second, 8*stepTime(t, m))
	x := start(t, Config{Model: m, Answer: limit})
	const body = `{"prompt": "x", "max_tokens": 4000, "logit_bias": {"257": -100, "258": -100}`
	a := x.post("/v1/completions", body+`}`)
	x.refuses(a, 503, "", "answer_timeout", fmt.Sprint("longer than ", limit))
	if a.header.Get("X-Should-Retry") != "false" {
		t.Errorf("X-Should-Retry is %q", a.header.Get("X-Should-Retry"))
	}
	s := x.post("/v1/completions", body+`, "stream": true}`)
	all, _ := events(t, bytes.NewReader(s.body))
	if last := all[len(all)-1]; s.status != 200 || !strings.Contains(last, `"answer_timeout"`) ||
		!strings.HasPrefix(last, `{"error":`) {
		t.Errorf("the stream ends with %s", last)
	}
	x.settled()
}

// TestEnd lets answers end, and refuses new ones in the meantime.
func TestEnd(t *testing.T) {
	m := slowModel(t, lm.Options{})
	x := start(t, Config{Model: m, Grace: max(20*time.Second, 600*stepTime(t, m))})
	const body = `{"prompt": "x", "stream": true, "max_tokens": 150, "return_token_ids": true,
		"logit_bias": {"257": -100, "258": -100}}`
	o := x.open(t, body)
	o.line(t)
	ended := make(chan error)
	go func() { ended <- x.End(context.Background()) }()
	for !x.ending.Load() {
		time.Sleep(time.Millisecond)
	}
	for _, path := range []string{"/health", "/v1/models", "/metrics", "/nothing"} {
		x.refuses(x.do("GET", path, ""), 503, "", "server_ending", "")
	}
	a := x.post("/v1/chat/completions", chatBody)
	x.refuses(a, 503, "", "server_ending", "")
	if a.header.Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
	n, last := 1, ""
	for !strings.Contains(last, "[DONE]") {
		last = o.line(t)
		n++
	}
	if err := <-ended; err != nil || n < 100 {
		t.Errorf("the end: %v, after %d lines", err, n)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(x.base, "http://")); err == nil {
		t.Error("the server still listens")
	}
}

// TestGrace ends answers that run longer.
func TestGrace(t *testing.T) {
	for what, cancelled := range map[string]bool{"grace": false, "at once": true} {
		grace := 100 * time.Millisecond
		if cancelled {
			grace = time.Hour
		}
		x := start(t, Config{Model: slowModel(t, lm.Options{}), Grace: grace})
		const body = `{"prompt": "x", "stream": true, "max_tokens": 4000, "logit_bias": {"257": -100,
			"258": -100}}`
		o := x.open(t, body)
		o.line(t)
		whole := x.open(t, strings.Replace(body, `"stream": true, `, "", 1))
		for x.answers.now() < 2 {
			time.Sleep(time.Millisecond)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if cancelled {
			time.AfterFunc(50*time.Millisecond, cancel)
		}
		from := time.Now()
		err := x.End(ctx)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "2 answers") ||
			time.Since(from) > 5*time.Second {
			t.Errorf("%s: the end is %v, after %v", what, err, time.Since(from))
		}
		last := ""
		for !strings.Contains(last, "error") {
			last = o.line(t)
		}
		if !strings.Contains(last, "server_ending") {
			t.Errorf("%s: the stream ends with %s", what, last)
		}
		if r := <-whole.got; r == nil || r.StatusCode != 503 {
			t.Errorf("%s: the whole answer is %+v", what, r)
		}
		if err := <-x.served; err != nil {
			t.Error(err)
		}
		x.ended = true
		x.settled()
	}
}

// TestEmbeddings compares vectors with package embed's.
func TestEmbeddings(t *testing.T) {
	m := randomEmbed(t, 0)
	x := start(t, Config{Embed: m, EmbedNames: []string{"e", "text-embedding-3-small"}})
	texts := []string{"a text", "", "another one"}
	want, err := m.Encode(texts)
	if err != nil {
		t.Fatal(err)
	}
	type list struct {
		Object, Model string
		Data          []struct {
			Object    string
			Index     int
			Embedding json.RawMessage
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
			Total  int `json:"total_tokens"`
		}
	}
	tokens := 0
	for _, text := range texts {
		all, err := m.Tokens(text)
		if err != nil {
			t.Fatal(err)
		}
		tokens += len(all)
	}
	for format, decode := range map[string]func(data []byte) []float32{
		"": floats(t), `, "encoding_format": "float"`: floats(t),
		`, "encoding_format": "base64"`: base64Floats(t)} {
		a := x.post("/v1/embeddings", `{"input": ["a text", "", "another one"], "user": "u",
			"dimensions": 24, "model": "text-embedding-3-small"`+format+`}`)
		var l list
		a.into(t, &l)
		if a.status != 200 || l.Object != "list" || l.Model != "text-embedding-3-small" ||
			len(l.Data) != 3 || l.Usage.Prompt != tokens || l.Usage.Total != tokens {
			t.Fatalf("%s: status %d, %s", format, a.status, a.body)
		}
		for i, d := range l.Data {
			if !slices.Equal(decode(d.Embedding), want[i]) || d.Index != i || d.Object != "embedding" {
				t.Errorf("%s: vector %d is %s, want %v", format, i, d.Embedding, want[i])
			}
		}
	}
	for body, param := range map[string]string{`{}`: "input", `{"input": []}`: "input",
		`{"input": [1, 2]}`: "input", `{"input": [[1]]}`: "input", `{"input": [null]}`: "input",
		`{"input": "x", "dimensions": 12}`: "dimensions", `{"input": "x", "Input": "y"}`: "Input",
		`{"input": "x", "encoding_format": "int8"}`: "encoding_format",
		`{"input": "x", "input_type": "query"}`:     "input_type"} {
		a := x.post("/v1/embeddings", body)
		var s shape
		a.into(t, &s)
		if a.status != 400 || value(s.Error.Param) != param {
			t.Errorf("%s: status %d, %s", body, a.status, a.body)
		}
	}
	x.refuses(x.post("/v1/embeddings", `{"input": ["x", "`+strings.Repeat("long ", 600)+`"]}`), 400,
		"input", "context_length_exceeded", "text 1")
	x.refuses(x.post("/v1/embeddings", `{"input": "x", "model": "m"}`), 404, "model",
		"model_not_found", "e or text")
	x.refuses(x.post("/v1/completions", `{"prompt": "x"}`), 404, "", "not_found", "/v1/embeddings")
}

func floats(t *testing.T) func(data []byte) []float32 {
	return func(data []byte) (row []float32) {
		t.Helper()
		if err := json.Unmarshal(data, &row); err != nil {
			t.Fatal(err)
		}
		return row
	}
}

func base64Floats(t *testing.T) func(data []byte) []float32 {
	return func(data []byte) (row []float32) {
		t.Helper()
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			t.Fatal(err)
		}
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		for ; len(raw) > 0; raw = raw[4:] {
			row = append(row, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
		}
		return row
	}
}

// TestRerank compares scores with package embed's.
func TestRerank(t *testing.T) {
	m := randomEmbed(t, 1)
	x := start(t, Config{Rerank: m})
	texts := []string{"one", "two words", "three more words", "four"}
	want, err := m.Rerank("query", texts)
	if err != nil {
		t.Fatal(err)
	}
	type list struct {
		ID, Model string
		Results   []struct {
			Index    int
			Score    float32 `json:"relevance_score"`
			Document *struct{ Text string }
		}
		Usage struct {
			Total int `json:"total_tokens"`
		}
	}
	const body = `{"query": "query", "documents": ["one", {"text": "two words"}, "three more words",
		"four"]`
	for fields, n := range map[string]int{"": 4, `, "top_n": 2`: 2, `, "top_n": 9`: 4,
		`, "return_documents": false`: 4, `, "return_documents": true`: 4} {
		a := x.post("/v1/rerank", body+fields+`}`)
		var l list
		a.into(t, &l)
		if a.status != 200 || len(l.Results) != n || l.Usage.Total == 0 || l.Model != "r" {
			t.Fatalf("%s: %d, %s", fields, a.status, a.body)
		}
		for i, r := range l.Results {
			shown := !strings.Contains(fields, "false")
			if r.Score != want[r.Index] || i > 0 && l.Results[i-1].Score < r.Score ||
				shown != (r.Document != nil) || shown && r.Document.Text != texts[r.Index] {
				t.Errorf("%s: result %d is %+v, want a score of %v", fields, i, r, want)
			}
		}
	}
	for body, param := range map[string]string{`{"documents": ["x"]}`: "query",
		`{"query": "x"}`: "documents", `{"query": "x", "documents": []}`: "documents",
		`{"query": "x", "documents": "y"}`:                 "documents",
		`{"query": "x", "documents": [1]}`:                 "documents[0]",
		`{"query": "x", "documents": [{}]}`:                "documents[0]",
		`{"query": "x", "documents": [{"Text": "y"}]}`:     "documents[0].Text",
		`{"query": "x", "documents": ["y"], "top_n": 0}`:   "top_n",
		`{"query": "x", "documents": ["y"], "max_tok": 0}`: "max_tok"} {
		a := x.post("/v1/rerank", body)
		var s shape
		a.into(t, &s)
		if a.status != 400 || value(s.Error.Param) != param {
			t.Errorf("%s: status %d, %s", body, a.status, a.body)
		}
	}
	x.refuses(x.post("/v1/rerank", `{"query": "x", "documents": ["`+strings.Repeat("long ", 600)+`"]}`),
		400, "documents", "context_length_exceeded", "text 0")
}

// TestTokenize turns texts into tokens and back.
func TestTokenize(t *testing.T) {
	x := start(t, Config{})
	var made struct {
		Count  int
		Most   int `json:"max_model_len"`
		Tokens []int32
		Prompt *string
	}
	x.post("/v1/tokenize", `{"prompt": "Hié", "add_special_tokens": false}`).into(t, &made)
	if !slices.Equal(made.Tokens, []int32{72, 105, 195, 169}) || made.Count != 4 || made.Most != 512 {
		t.Errorf("%+v", made)
	}
	x.post("/v1/detokenize", `{"tokens": [72, 105, 195, 169, 195]}`).into(t, &made)
	if value(made.Prompt) != "Hié\ufffd" {
		t.Errorf("%q", value(made.Prompt))
	}
	for _, body := range []string{`{}`, `{"prompt": "x", "messages": [{"role": "user",
		"content": "x"}]}`, `{"prompt": ["x"]}`, `{"prompt": "x", "tokens": []}`} {
		if a := x.post("/v1/tokenize", body); a.status != 400 {
			t.Errorf("%s: %d", body, a.status)
		}
	}
	for _, body := range []string{`{}`, `{"tokens": "x"}`, `{"tokens": [260]}`, `{"tokens": [-1]}`,
		`{"tokens": [null]}`} {
		x.refuses(x.post("/v1/detokenize", body), 400, "tokens", "", "tokens")
	}
}

// TestMetrics checks numbers of requests and of the model.
func TestMetrics(t *testing.T) {
	x := start(t, Config{Model: randomModel(t, testSizes, lm.Options{}), Embed: randomEmbed(t, 0),
		Queue: 77})
	long := strings.Repeat("x", 200)
	for range 2 {
		x.ok("/v1/completions", `{"prompt": "`+long+`", "max_tokens": 3, "logit_bias": {"257": -100,
			"258": -100}}`)
		x.settled()
	}
	got := x.ok("/v1/completions", `{"prompt": "`+long+`y", "max_tokens": 3, "logit_bias": {"257": -100,
		"258": -100}}`)
	if n := got.Usage.Details.Cached; n < 128 || n > 200 {
		t.Errorf("%d tokens were cached", n)
	}
	x.post("/v1/embeddings", `{"input": "x y z"}`)
	x.post("/v1/completions", `{`)
	text := string(x.do("GET", "/metrics", "").body)
	for _, want := range []string{
		"\nattn_lm_requests_total{path=\"/v1/completions\",status=\"200\"} 3",
		"\nattn_lm_requests_total{path=\"/v1/completions\",status=\"400\"} 1",
		"\nattn_lm_answer_tokens_total 9", "\nattn_lm_prompt_tokens_total", "\nattn_lm_steps_total",
		"\nattn_lm_queue 0",
		"\nattn_lm_places 16", "\nattn_lm_places_taken 0", "\nattn_lm_queue_limit 77",
		"\nattn_lm_prefix_hits_total 2", "\nattn_lm_prefix_tokens_total", "\nattn_lm_cache_bytes ",
		"\nattn_lm_cache_limit_bytes", "\nattn_lm_text_tokens_total 5",
		"\nattn_lm_first_token_seconds_count 3", "\nprocess_resident_memory_bytes",
		"\ngo_goroutines"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

// TestNew refuses configurations that do not fit.
func TestNew(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("there is no error without a model")
	}
	m := randomModel(t, testSizes, lm.Options{})
	for what, c := range map[string]Config{"no name": {Model: m}, "called \"\"": {Model: m,
		Names: []string{""}}, "called \"a\"": {Model: m, Names: []string{"a", "a"}},
		"called \"b\"": {Model: m, Names: []string{"b"}, Embed: randomEmbed(t, 0),
			EmbedNames: []string{"b"}}, "keys": {Model: m, Names: []string{"m"},
			Keys: filepath.Join(t.TempDir(), "keys")}} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: the error is %v", what, err)
		}
	}
	for what, c := range map[string]Config{"for embeddings": {Embed: randomEmbed(t, 1),
		EmbedNames: []string{"e"}}, "for scores": {Rerank: randomEmbed(t, 0),
		RerankNames: []string{"r"}}} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: the error is %v", what, err)
		}
	}
	small := randomModel(t, testSizes, lm.Options{Context: 8192, Memory: 1 << 17})
	_, err := New(Config{Model: small, Names: []string{"m"}})
	if err == nil || !strings.Contains(err.Error(), "8192 tokens") {
		t.Errorf("with little memory the error is %v", err)
	}
}
