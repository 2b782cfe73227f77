package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nlpodyssey/safetensors"

	"github.com/seed-1415985d/attn/models/internal/weights/foldertest"
)

// TestServeFlags has mistakes on the command line.
func TestServeFlags(t *testing.T) {
	for args, want := range map[string]string{
		"": "there is no model, want -model, " +
			"-embed or -rerank, or -size",
		"-size huge":                  `-size is "huge", want tiny or 0.5b`,
		"-size tiny -model x":         "-size is tiny and -model x, want one of them",
		"-size tiny -queue -1":        "-queue is -1, want 0 or more",
		"-size tiny -tokens 0":        "-tokens is 0, want 1 or more",
		"-size tiny -memory 8GB":      "want a number of bytes, as 8GiB",
		"-size tiny -memory 0":        "want a number of bytes",
		"-size tiny -memory 2MiB":     "want more -memory, or a shorter -context",
		"-size tiny -body -1":         "want a number of bytes",
		"-size tiny -body 9999999TiB": "want a number of bytes",
		"-size tiny -memory 1000":     "-memory is 1000 bytes",
		"-size tiny -sequences 0":     "-sequences is 0, want 1 or more",
		"-size tiny -context 0":       "-context is 0, want 1 or more",
		"-size tiny -listen 8080":     `-listen is "8080", want an address as 127.0.0.1:8080`,
		"-size tiny -listen x:":       `-listen is "x:", want an address`,
		"-size tiny -grace -1s":       "-grace is -1s, want 0 or more",
		"-size tiny -read-time 0":     "-read-time is 0s, want more than 0",
		"-size tiny -write-time 0s":   "-write-time is 0s, want more than 0",
		"-size tiny -answer-time x":   "want a duration such as",
		"-size tiny -origins a.example": "\"a.example\" is no origin, " +
			"want one as https://example.com",
		"-size tiny -origins https://a.example/": "is no origin",
		"-size tiny -alias embed=x":              "-alias embed=x is of a model that is not there",
		"-size tiny -alias embed=":               "want a name, embed=NAME or rerank=NAME",
		"-embed x -alias y":                      "-alias y is of a model that is not there",
		"-embed x -memory 1GiB":                  "-memory is there without -model, want both or none",
		"-size tiny -quue 3":                     "-quue",
		"-size tiny text":                        `unexpected argument "text"`,
	} {
		status, _, errs := attnLM("", append([]string{"serve", "-listen", "127.0.0.1:0"},
			strings.Fields(args)...)...)
		if status != 2 || !strings.Contains(errs, want) || !strings.HasPrefix(errs, "attn-lm serve: ") &&
			!strings.Contains(args, "-memory") {
			t.Errorf("%s: status %d, %q, want %q", args, status, errs, want)
		}
	}
	empty := filepath.Join(t.TempDir(), "keys")
	foldertest.Write(t, filepath.Dir(empty), "keys", nil)
	for args, want := range map[string]string{"-size tiny -keys " + empty: "there is no key",
		"-size tiny -keys /nothing/there": "/nothing/there", "-model /nothing/there": "/nothing/there",
		"-embed /nothing/there":              "-embed: ",
		"-size tiny -listen 127.0.0.1:99999": "-listen 127.0.0.1:99999"} {
		status, _, errs := attnLM("", append([]string{"serve", "-listen", "127.0.0.1:0"},
			strings.Fields(args)...)...)
		if status != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d, %q, want %q", args, status, errs, want)
		}
	}
	status, _, errs := attnLM("", "serve", "-h")
	if status != 0 || !strings.Contains(errs, "-queue") || !strings.Contains(errs, "(default 256)") {
		t.Errorf("help: status %d, %s", status, errs)
	}
}

// shared is the output of a running server.
type shared struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

var address = regexp.MustCompile(`at (http://\S+)/v1\n`)

// serving is a server that runs as the command does.
type serving struct {
	out, errs shared
	base      string
	status    chan int
}

func serveWith(t *testing.T, args ...string) *serving {
	t.Helper()
	s := &serving{status: make(chan int, 1)}
	go func() {
		s.status <- command(append([]string{"serve", "-listen", "127.0.0.1:0"}, args...),
			strings.NewReader(""), &s.out, &s.errs)
	}()
	for range 1000 {
		if found := address.FindStringSubmatch(s.out.String()); found != nil {
			s.base = found[1]
			return s
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the server does not start: %s", s.errs.String())
	return nil
}

func (s *serving) ask(t *testing.T, path, body string, key string) (int, string) {
	t.Helper()
	method := "POST"
	if body == "" {
		method = "GET"
	}
	r, err := http.NewRequest(method, s.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// sendSelf sends a signal to this process.
func sendSelf(t *testing.T, s syscall.Signal) {
	t.Helper()
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Signal(s)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestServe starts a server with all models, and ends it by signals.
func TestServe(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "js" {
		t.Skip("a process sends itself no signals there")
	}
	folder, _ := foldertest.WriteBERT(t, safetensors.F32)
	keys := t.TempDir()
	foldertest.Write(t, keys, "keys", []byte("one\n"))
	s := serveWith(t, "-size", "tiny", "-embed", folder, "-alias", "m", "-alias", "gpt-4o", "-alias",
		"embed=e", "-keys", filepath.Join(keys, "keys"), "-context", "512", "-memory", "64MiB",
		"-sequences", "3", "-queue", "7", "-tokens", "200", "-origins", "https://a.example")
	for _, path := range []string{"/v1/completions", "/v1/embeddings"} {
		status, text := s.ask(t, path, `{"prompt": "x", "max_tokens": 2}`, "one")
		if path == "/v1/embeddings" {
			status, text = s.ask(t, path, `{"input": "zurich", "model": "e"}`, "one")
		}
		if status != 200 {
			t.Errorf("%s: %d, %s", path, status, text)
		}
	}
	if _, text := s.ask(t, "/metrics", "", "one"); !strings.Contains(text, "\nattn_lm_places 3\n") ||
		!strings.Contains(text, "\nattn_lm_cache_limit_bytes 6.7108864e+07") ||
		!strings.Contains(text, "\nattn_lm_queue_limit 7\n") {
		t.Errorf("the metrics are %s", text)
	}
	if _, text := s.ask(t, "/v1/models", "", "one"); !strings.Contains(text, `"max_model_len":512`) ||
		!strings.Contains(text, `"gpt-4o"`) {
		t.Errorf("the models are %s", text)
	}
	foldertest.Write(t, keys, "keys", []byte("two\n"))
	sendSelf(t, hangUp)
	for range 500 {
		if status, _ := s.ask(t, "/v1/models", "", "two"); status == 200 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if status, _ := s.ask(t, "/v1/models", "", "one"); status != 401 {
		t.Errorf("with the key before: status %d", status)
	}
	foldertest.Write(t, keys, "keys", nil)
	sendSelf(t, hangUp)
	for range 500 {
		if strings.Contains(s.errs.String(), "the keys stay as they are") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if status, _ := s.ask(t, "/v1/models", "", "two"); status != 200 {
		t.Errorf("after an empty file: status %d, %s", status, s.errs.String())
	}
	sendSelf(t, syscall.SIGTERM)
	if status := <-s.status; status != 0 {
		t.Errorf("status %d, %s", status, s.errs.String())
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://")); err == nil {
		t.Error("the server still listens")
	}
}

// TestServeTwoSignals ends a server at once, although an answer is in progress.
func TestServeTwoSignals(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "js" {
		t.Skip("a process sends itself no signals there")
	}
	s := serveWith(t, "-size", "tiny", "-grace", "1h")
	got := make(chan int)
	go func() {
		status, _ := s.ask(t, "/v1/completions", `{"prompt": "x", "max_tokens": 8000, "logit_bias":
			{"257": -100, "258": -100}}`, "")
		got <- status
	}()
	for range 1000 {
		if _, text := s.ask(t, "/metrics", "", ""); strings.Contains(text, "attn_lm_places_taken 1") {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	sendSelf(t, syscall.SIGTERM)
	for range 500 {
		if status, _ := s.ask(t, "/health", "", ""); status == 503 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	select {
	case status := <-s.status:
		t.Fatalf("it ended with %d before the answer", status)
	case <-time.After(50 * time.Millisecond):
	}
	sendSelf(t, syscall.SIGTERM)
	status := <-s.status
	if status != 1 || !strings.Contains(s.errs.String(), "1 answers were ended") {
		t.Errorf("status %d, %s", status, s.errs.String())
	}
	if status := <-got; status != 503 {
		t.Errorf("the answer has status %d", status)
	}
}

// TestServeEmbedAlone has no language model.
func TestServeEmbedAlone(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "js" {
		t.Skip("a process sends itself no signals there")
	}
	folder, _ := foldertest.WriteBERT(t, safetensors.F32)
	s := serveWith(t, "-embed", folder)
	if status, text := s.ask(t, "/v1/embeddings", `{"input": ["cat", "zurich !"]}`, ""); status != 200 {
		t.Errorf("%d, %s", status, text)
	}
	if status, text := s.ask(t, "/v1/completions", `{"prompt": "x"}`, ""); status != 404 {
		t.Errorf("%d, %s", status, text)
	}
	sendSelf(t, syscall.SIGINT)
	if status := <-s.status; status != 0 {
		t.Errorf("status %d, %s", status, s.errs.String())
	}
}
