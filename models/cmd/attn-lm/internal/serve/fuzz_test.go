package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn/models/lm"
)

// seeds are requests that are mutated, by path.
var seeds = map[string][]string{
	"/v1/completions": {`{"prompt": "Hi", "max_tokens": 2, "seed": 1}`,
		`{"prompt": [[72, 105], [1]], "n": 2, "max_tokens": 2, "stream": true, "logprobs": 2,
			"stream_options": {"include_usage": true}, "return_token_ids": true}`,
		`{"prompt": ["a", "b"], "stop": ["x", "y"], "temperature": 0.5, "top_p": 0.9, "top_k": 3,
			"min_p": 0.1, "repetition_penalty": 1.1, "frequency_penalty": 0.5, "presence_penalty": -0.5,
			"logit_bias": {"5": -100, "6": 1.5}, "max_completion_tokens": 2, "user": "u"}`},
	"/v1/chat/completions": {`{"messages": [{"role": "system", "content": "s"}, {"role": "user",
		"content": [{"type": "text", "text": "a"}]}, {"role": "assistant", "content": "b",
		"reasoning_content": "c"}, {"role": "user", "content": "d\u00e9\ud83d\ude00"}], "max_tokens": 2,
		"chat_template_kwargs": {"a": [1, {"b": null}]}, "logprobs": true, "top_logprobs": 1, "tools": [],
		"response_format": {"type": "text"}, "metadata": {"k": "v"}}`,
		`{"messages": [{"role": "user", "content": "x"}], "stream": true, "n": 3, "max_tokens": 1}`},
	"/v1/tokenize":   {`{"prompt": "x"}`, `{"messages": [{"role": "user", "content": "x"}]}`},
	"/v1/detokenize": {`{"tokens": [1, 2, 3]}`},
	"/v1/embeddings": {`{"input": ["a", "b"], "encoding_format": "base64", "dimensions": 24}`},
	"/v1/rerank": {`{"query": "q", "documents": ["a", {"text": "b"}], "top_n": 1,
		"return_documents": false}`},
}

// all is a server with all routes, for requests without a connection.
func all(t testing.TB) Config {
	m := randomModel(t, lm.Sizes{Layers: 1, Hidden: 16, Heads: 1, KVHeads: 1, FFN: 16, Vocab: 260},
		lm.Options{Context: 128})
	return Config{Model: m, Embed: randomEmbed(t, 0), Rerank: randomEmbed(t, 1), Tokens: 4, Queue: 200}
}

// checkResponse fails unless a response has the right form.
func checkResponse(t testing.TB, path string, request []byte, status int, header http.Header,
	body []byte) {
	t.Helper()
	switch {
	case status == 200 && strings.HasPrefix(header.Get("Content-Type"), "text/event-stream"):
		if list, _ := events(t, bytes.NewReader(body)); len(list) == 0 || list[len(list)-1] != "[DONE]" {
			t.Errorf("%s %q: the stream is %q", path, request, body)
		}
	case status == 200 || status >= 400 && status < 500:
		var s shape
		if err := json.Unmarshal(body, &s); err != nil || (status == 200) != (s.Error == nil) {
			t.Errorf("%s %q: status %d, %q", path, request, status, body)
		}
	default:
		t.Errorf("%s %q: status %d, %q", path, request, status, body)
	}
}

// FuzzBody sends arbitrary bodies.
func FuzzBody(f *testing.F) {
	c := all(f)
	c.Names, c.EmbedNames, c.RerankNames = []string{"m"}, []string{"e"}, []string{"r"}
	s, err := New(c)
	if err != nil {
		f.Fatal(err)
	}
	var paths []string
	for path, bodies := range seeds {
		paths = append(paths, path)
		for _, body := range bodies {
			f.Add(path, []byte(body))
		}
	}
	slices.Sort(paths)
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		if !slices.Contains(paths, path) {
			path = paths[len(path)%len(paths)]
		}
		r := httptest.NewRequestWithContext(context.Background(), "POST", path, bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		checkResponse(t, path, body, w.Code, w.Header(), w.Body.Bytes())
		if n := s.answers.now() + s.vectors.now() + int(s.requests.Load()); n != 0 {
			t.Errorf("%s %q: %d answers are left", path, body, n)
		}
	})
}

// mutated returns a body with some changes.
func mutated(r *rand.Rand, body string) string {
	b := []byte(body)
	parts := []string{`null`, `[]`, `{}`, `-1`, `1e400`, `"`, `\`, `,`, `:`, `[`, `{`, `]`, `}`, `0`,
		`true`, "\x00", "\xff", `\ud800`, `18446744073709551615`, `-0.0`, `"seed":`, `"n":`, `99999`,
		`"<|im_end|>"`, strings.Repeat("[", 50), " ", "é"}
	for range 1 + r.IntN(4) {
		at := r.IntN(len(b) + 1)
		to := min(len(b), at+r.IntN(8))
		switch r.IntN(5) {
		case 0:
			b = slices.Delete(b, at, to)
		case 1:
			b = slices.Insert(b, at, []byte(parts[r.IntN(len(parts))])...)
		case 2:
			b = slices.Insert(b, at, b[at:to]...)
		case 3:
			b = slices.Replace(b, at, to, []byte(parts[r.IntN(len(parts))])...)
		case 4:
			for i := at; i < to; i++ {
				b[i] ^= byte(1 << r.IntN(8))
			}
		}
	}
	return string(b)
}

// mutatedHeader returns a random header.
func mutatedHeader(r *rand.Rand) []string {
	names := []string{"Content-Type", "Authorization", "Origin", "Accept", "Host", "Content-Encoding",
		"Expect", "X-Stainless-Lang", "Connection", "Accept-Encoding", "If-None-Match", "Range"}
	values := []string{"", "application/json", "text/plain", "Bearer x", "gzip", "*/*", "localhost",
		"evil.example", "close", "bytes=0-1", "100-continue", strings.Repeat("x", 1000), "\t", "é;q=0",
		"application/json; charset=utf-8; x=\"", "null"}
	var header []string
	for range r.IntN(3) {
		header = append(header, names[r.IntN(len(names))], values[r.IntN(len(values))])
	}
	return header
}

// TestHostile sends ten thousand randomly changed requests, while other clients send requests with
// a known answer.
func TestHostile(t *testing.T) {
	before := runtime.NumGoroutine()
	x := start(t, all(t))
	requests := 10000
	if testing.Short() {
		requests = 1000
	}
	const body = `{"prompt": "Hi", "seed": 3, "max_tokens": 4, "return_token_ids": true}`
	want := x.ok("/v1/completions", body).Choices[0].Tokens
	var wait sync.WaitGroup
	ended := make(chan bool)
	wait.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
			}
			if got := x.ok("/v1/completions", body).Choices[0].Tokens; !slices.Equal(got, want) {
				t.Errorf("an answer is %v, want %v", got, want)
			}
		}
	})
	var hostile sync.WaitGroup
	for i := range 4 {
		hostile.Go(func() { x.attack(rand.New(rand.NewPCG(uint64(i), 1)), requests/4) })
	}
	hostile.Wait()
	close(ended)
	wait.Wait()
	x.stop()
	noMoreGoroutines(t, before+4) // of the models, which end later
}

func (x *tester) attack(r *rand.Rand, n int) {
	var paths []string
	for path := range seeds {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for range n {
		path := paths[r.IntN(len(paths))]
		body := seeds[path][r.IntN(len(seeds[path]))]
		header := mutatedHeader(r)
		if r.IntN(4) > 0 {
			header, body = nil, mutated(r, body)
		}
		a := x.post(path, body, header...)
		own := a.status != 400 && a.status != 417 || len(a.body) > 0 && a.body[0] == '{'
		if own { // otherwise package http refuses the header
			checkResponse(x, path, []byte(body), a.status, a.header, a.body)
		}
	}
}

// TestRaw sends data that is not HTTP.
func TestRaw(t *testing.T) {
	x := start(t, all(t))
	r := rand.New(rand.NewPCG(1, 2))
	const request = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
		"application/json\r\nContent-Length: 35\r\n\r\n{\"prompt\": \"Hi\", \"max_tokens\": 2    }"
	for range 300 {
		c, err := net.Dial("tcp", strings.TrimPrefix(x.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(mutated(r, request))) // it may be refused midway
		_ = c.Close()
	}
	x.settled()
	if got := x.ok("/v1/completions", `{"prompt": "y", "max_tokens": 2}`); got.Usage.Prompt != 1 {
		t.Errorf("afterwards: %+v", got)
	}
}
