package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-1415985d/attn/internal/dev/gguftest"
	"github.com/seed-1415985d/attn/models/embed"
	"github.com/seed-1415985d/attn/models/internal/gauge"
	"github.com/seed-1415985d/attn/models/lm"
)

// testSizes are the sizes of a model whose tokens are bytes, except four.
var testSizes = lm.Sizes{Layers: 2, Hidden: 32, Heads: 2, KVHeads: 1, FFN: 64, Vocab: 260, Seed: 7}

// randomModel is a model of some sizes, with few places.
func randomModel(t testing.TB, sizes lm.Sizes, o lm.Options) *lm.Model {
	t.Helper()
	if o.Workers == 0 {
		o.Workers = 1
	}
	if o.Context == 0 {
		o.Context = 512
	}
	m, err := lm.Random(sizes, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// slowModel needs a few milliseconds for a token.
func slowModel(t testing.TB, o lm.Options) *lm.Model {
	o.Context = 4096
	return randomModel(t, lm.Sizes{Layers: 4, Hidden: 512, Heads: 8, KVHeads: 8, Vocab: 4096, Seed: 3},
		o)
}

// stepTime is how long a step takes here, with which bounds of tests grow on slow machines.
func stepTime(t testing.TB, m *lm.Model) (took time.Duration) {
	t.Helper()
	for range 2 { // the first one is slower
		began := time.Now()
		for _, err := range m.Generate(t.Context(), []int32{'x'}, lm.Generation{MaxTokens: 1}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		took = time.Since(began)
	}
	return took
}

func randomEmbed(t testing.TB, labels int) *embed.Model {
	t.Helper()
	m, err := embed.Random(embed.Sizes{Layers: 1, Hidden: 24, Heads: 2, FFN: 40, Vocab: 500,
		Labels: labels}, embed.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// scripted is a model that generates a script, with a template.
func scripted(t testing.TB, template string, control []string, script ...string) *lm.Model {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script.gguf")
	gguftest.Script(template, control, script...).Write(t, path)
	m, err := lm.Open(path, lm.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// tester is a server on a listener, and its client.
type tester struct {
	testing.TB
	*Server
	base   string
	client *http.Client
	log    *words
	ended  bool
	served chan error
}

// words collects a server's log.
type words struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// start serves on a port of the loopback interface. At the end of a test no answer may be left, and
// nothing logged.
func start(t testing.TB, c Config) *tester {
	t.Helper()
	if c.Model == nil && c.Embed == nil && c.Rerank == nil {
		c.Model = randomModel(t, testSizes, lm.Options{})
	}
	if c.Model != nil && c.Names == nil {
		c.Names = []string{"m"}
	}
	if c.Embed != nil && c.EmbedNames == nil {
		c.EmbedNames = []string{"e"}
	}
	if c.Rerank != nil && c.RerankNames == nil {
		c.RerankNames = []string{"r"}
	}
	if c.Queue == 0 {
		c.Queue = 1000
	}
	logged := new(words)
	c.Log = log.New(logged, "", 0)
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := &tester{TB: t, Server: s, base: "http://" + l.Addr().String(), log: logged,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
		served: make(chan error, 1)}
	go func() { x.served <- s.Serve(l) }()
	t.Cleanup(x.stop)
	return x
}

// stop ends the server.
func (x *tester) stop() {
	x.Helper()
	if x.ended {
		return
	}
	x.ended = true
	x.client.CloseIdleConnections()
	if err := x.End(context.Background()); err != nil && x.Grace > 0 {
		x.Errorf("the end: %v", err)
	}
	if err := <-x.served; err != nil {
		x.Errorf("the server: %v", err)
	}
	x.settled()
	if text := x.log.String(); text != "" {
		x.Errorf("the log has %s", text)
	}
}

// settled fails unless all places become free soon.
func (x *tester) settled() {
	x.Helper()
	var now gauge.Engine
	for range 200 {
		if x.Model != nil {
			now = gauge.OfModel(x.Model)
		}
		if now.Running+now.Waiting+x.answers.now()+x.vectors.now() == 0 && x.requests.Load() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	x.Errorf("%d answers are computed, %d wait, %d and %d are counted, and %d requests", now.Running,
		now.Waiting, x.answers.now(), x.vectors.now(), x.requests.Load())
}

// answer is a response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// into decodes a response.
func (a *answer) into(t testing.TB, value any) {
	t.Helper()
	if err := json.Unmarshal(a.body, value); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
}

// shape is the form of responses for clients.
type shape struct {
	ID, Object, Model string
	Created           int64
	Fingerprint       string `json:"system_fingerprint"`
	Choices           []shapeChoice
	Usage             *shapeUsage
	Prompt            []int32 `json:"prompt_token_ids"`
	Error             *shapeError
}

type shapeUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

type shapeError struct {
	Message, Type string
	Param, Code   *string
}

type shapeMessage struct {
	Role    string
	Content *string
	Thought *string `json:"reasoning_content"`
}

type shapeChoice struct {
	Index    int
	Text     *string
	Message  *shapeMessage
	Delta    *shapeMessage
	Logprobs json.RawMessage
	Reason   *string `json:"finish_reason"`
	Prompt   []int32 `json:"prompt_token_ids"`
	Tokens   []int32 `json:"token_ids"`
}

// do sends a request.
func (x *tester) do(method, path, body string, header ...string) *answer {
	x.Helper()
	r, err := http.NewRequest(method, x.base+path, strings.NewReader(body))
	if err != nil {
		x.Fatal(err)
	}
	if method == "POST" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	response, err := x.client.Do(r)
	if err != nil {
		x.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		x.Fatal(err)
	}
	return &answer{response.StatusCode, response.Header, data}
}

func (x *tester) post(path, body string, header ...string) *answer {
	x.Helper()
	return x.do("POST", path, body, header...)
}

// ok returns the response to a request that succeeds.
func (x *tester) ok(path, body string) *shape {
	x.Helper()
	a := x.post(path, body)
	if a.status != 200 {
		x.Fatalf("%s %s: status %d, %s", path, body, a.status, a.body)
	}
	var s shape
	a.into(x, &s)
	return &s
}

// refuses checks the form of an error.
func (x *tester) refuses(a *answer, status int, param, code, text string) {
	x.Helper()
	var s shape
	a.into(x, &s)
	if s.Error == nil || a.status != status || value(s.Error.Param) != param ||
		value(s.Error.Code) != code || !strings.Contains(s.Error.Message, text) || s.Error.Type == "" ||
		a.header.Get("Content-Type") != "application/json" {
		x.Errorf("status %d, %s, want %d, param %q, code %q and %q", a.status, a.body, status, param,
			code, text)
	}
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// events returns the data of a stream of server-sent events, and the number of its comments.
func events(t testing.TB, body io.Reader) (all []string, comments int) {
	t.Helper()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	blank := true
	for lines.Scan() {
		line := lines.Text()
		data, ok := strings.CutPrefix(line, "data: ")
		switch {
		case line == "":
			blank = true
			continue
		case !blank:
			t.Fatalf("%q follows without a blank line", line)
		case ok:
			all = append(all, data)
		case strings.HasPrefix(line, ":"):
			comments++
		default:
			t.Fatalf("a line is %q", line)
		}
		blank = false
	}
	return all, comments
}

// chunks returns the chunks of a stream that ends well.
func (x *tester) chunks(path, body string) (all []shape) {
	x.Helper()
	a := x.post(path, body)
	if kind := a.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		x.Fatalf("%s: the type is %q, %s", body, kind, a.body)
	}
	texts, _ := events(x, bytes.NewReader(a.body))
	if len(texts) == 0 || texts[len(texts)-1] != "[DONE]" {
		x.Fatalf("%s: the stream ends with %q", body, texts)
	}
	for _, text := range texts[:len(texts)-1] {
		var s shape
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			x.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// generated returns the tokens and the text of package lm's answer.
func generated(t testing.TB, m *lm.Model, prompt []int32, g lm.Generation) (ids []int32,
	text string) {
	t.Helper()
	for token, err := range m.Generate(context.Background(), prompt, g) {
		if err != nil {
			t.Fatal(err)
		}
		ids, text = append(ids, token.ID), text+token.Text
	}
	return ids, text
}

// noMoreGoroutines fails unless the number of goroutines returns to before soon.
func noMoreGoroutines(t testing.TB, before int) {
	t.Helper()
	for range 300 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	stacks := make([]byte, 1<<20)
	t.Errorf("there are %d goroutines, want at most %d:\n%s", runtime.NumGoroutine(), before,
		stacks[:runtime.Stack(stacks, true)])
}
