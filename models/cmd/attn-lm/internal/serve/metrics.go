package serve

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-1415985d/attn/models/internal/gauge"
)

// metrics are the counters of a server.
type metrics struct {
	handler  http.Handler
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	first    prometheus.Histogram
	made     prometheus.Counter // tokens
	texts    prometheus.Counter
}

func newMetrics(s *Server) *metrics {
	seconds := prometheus.ExponentialBuckets(0.001, 2, 20)
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attn_lm_requests_total",
			Help: "Requests by path and status."}, []string{"path", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "attn_lm_request_seconds",
			Help: "How long requests took, by path.", Buckets: seconds}, []string{"path"}),
		first: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "attn_lm_first_token_seconds",
			Help: "How long answers took until their first token.", Buckets: seconds}),
		made:  counter("answer_tokens_total", "Tokens of answers."),
		texts: counter("text_tokens_total", "Tokens of texts for vectors and scores."),
	}
	r := prometheus.NewRegistry()
	r.MustRegister(m.requests, m.seconds, m.first, m.made, m.texts,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		s.limits("queue_limit", "Most answers that may wait for a place.",
			func() int { return s.Queue }),
		s.limits("answers", "Answers that are computed and wait.", func() int { return s.answers.now() }),
		s.limits("texts", "Requests for vectors and scores that are computed and wait.",
			func() int { return s.vectors.now() }))
	if s.Model != nil {
		r.MustRegister(engine{s})
	}
	m.handler = promhttp.HandlerFor(r, promhttp.HandlerOpts{})
	return m
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "attn_lm_" + name, Help: help})
}

func (s *Server) limits(name, help string, value func() int) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "attn_lm_" + name, Help: help},
		func() float64 { return float64(value()) })
}

func (m *metrics) get(w http.ResponseWriter, r *http.Request) error {
	m.handler.ServeHTTP(w, r)
	return nil
}

// request counts a request.
func (m *metrics) request(path string, status int, took time.Duration) {
	m.requests.WithLabelValues(path, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(path).Observe(took.Seconds())
}

// engine collects the numbers of the language model.
type engine struct{ *Server }

type engineMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(e *gauge.Engine) float64
}

func metric(kind prometheus.ValueType, name, help string,
	value func(e *gauge.Engine) int) engineMetric {
	return engineMetric{prometheus.NewDesc("attn_lm_"+name, help, nil, nil), kind,
		func(e *gauge.Engine) float64 { return float64(value(e)) }}
}

var engineMetrics = []engineMetric{
	metric(prometheus.CounterValue, "steps_total", "Steps of the model.",
		func(e *gauge.Engine) int { return e.Steps }),
	metric(prometheus.CounterValue, "prompt_tokens_total", "Tokens of prompts that were computed.",
		func(e *gauge.Engine) int { return e.Prompts }),
	metric(prometheus.CounterValue, "guessed_tokens_total", "Tokens of answers that were guessed.",
		func(e *gauge.Engine) int { return e.Guessed }),
	metric(prometheus.CounterValue, "prefix_tokens_total",
		"Tokens of prompts that an earlier sequence had.", func(e *gauge.Engine) int { return e.Shared }),
	metric(prometheus.CounterValue, "prefix_hits_total",
		"Prompts that began like an earlier sequence.", func(e *gauge.Engine) int { return e.Hits }),
	metric(prometheus.GaugeValue, "queue", "Answers that wait for a place or memory.",
		func(e *gauge.Engine) int { return e.Waiting }),
	metric(prometheus.GaugeValue, "places_taken", "Answers that have a place.",
		func(e *gauge.Engine) int { return e.Running }),
	metric(prometheus.GaugeValue, "places", "Most answers that may have a place.",
		func(e *gauge.Engine) int { return e.Places }),
	metric(prometheus.GaugeValue, "cache_bytes",
		"Bytes of keys, values and states in use after the last step.",
		func(e *gauge.Engine) int { return e.Bytes }),
	metric(prometheus.GaugeValue, "cache_limit_bytes", "Most of these bytes, 0 for no bound.",
		func(e *gauge.Engine) int { return int(e.Capacity) }),
}

// Describe implements prometheus.Collector.
func (engine) Describe(all chan<- *prometheus.Desc) {
	for _, m := range engineMetrics {
		all <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (e engine) Collect(all chan<- prometheus.Metric) {
	now := gauge.OfModel(e.Model)
	for _, m := range engineMetrics {
		all <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&now))
	}
}
