package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/alexliesenfeld/health"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-1415985d/attn/cluster"
)

// observed is a transport that measures the time of its workers' calls.
type observed struct {
	*cluster.NATS
	seconds prometheus.Histogram
}

func newObserved(t *cluster.NATS) *observed {
	return &observed{t, prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "attn_cluster_call_seconds", Help: "How long calls take, until their replies are sent.",
		Buckets: prometheus.ExponentialBuckets(100e-6, 2, 16)})}
}

// Serve implements cluster.Transport.
func (o *observed) Serve(worker string, s cluster.Service) (stop func(), err error) {
	handle := s.Handle
	s.Handle = func(request []byte, send func([]byte)) {
		start := time.Now()
		handle(request, send)
		o.seconds.Observe(time.Since(start).Seconds())
	}
	return o.NATS.Serve(worker, s)
}

// workerMetrics are a worker's Status as Prometheus metrics.
var workerMetrics = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(s *cluster.Status) float64
}{
	gauge("memory_bytes", "Bytes for keys and values that may be taken.",
		func(s *cluster.Status) float64 { return float64(s.Memory) }),
	gauge("used_bytes", "Bytes that are taken from the system.",
		func(s *cluster.Status) float64 { return float64(s.Used) }),
	gauge("spare_bytes", "Bytes of used_bytes that have no tokens, for more of the same shape.",
		func(s *cluster.Status) float64 { return float64(s.Spare) }),
	gauge("leaving", "1 if the worker hands on what it has, to end then.",
		func(s *cluster.Status) float64 {
			if s.Leaving {
				return 1
			}
			return 0
		}),
	gauge("sequences", "Sequences with parts here.",
		func(s *cluster.Status) float64 { return float64(s.Sequences) }),
	gauge("copies", "Copies of parts.",
		func(s *cluster.Status) float64 { return float64(s.Copies) }),
	gauge("tokens", "Tokens of all copies and layers.",
		func(s *cluster.Status) float64 { return float64(s.Tokens) }),
	gauge("clients", "Clients whose lease has not ended.",
		func(s *cluster.Status) float64 { return float64(s.Clients) }),
	gauge("running", "Calls that are running.",
		func(s *cluster.Status) float64 { return float64(s.Running) }),
	counter("calls_total", "Calls since the start.",
		func(s *cluster.Status) float64 { return float64(s.Calls) }),
	counter("refused_total", "Calls that ended with an error.",
		func(s *cluster.Status) float64 { return float64(s.Refused) }),
	counter("malformed_total", "Messages that were none.",
		func(s *cluster.Status) float64 { return float64(s.Malformed) }),
}

type workerMetric = struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(s *cluster.Status) float64
}

func gauge(name, help string, value func(s *cluster.Status) float64) workerMetric {
	return workerMetric{prometheus.NewDesc("attn_cluster_"+name, help, nil, nil),
		prometheus.GaugeValue, value}
}

func counter(name, help string, value func(s *cluster.Status) float64) workerMetric {
	m := gauge(name, help, value)
	m.kind = prometheus.CounterValue
	return m
}

var infoDesc = prometheus.NewDesc("attn_cluster_worker_info",
	"The worker and its kernels, always 1.", []string{"worker", "kernels"}, nil)

// statusCollector collects a worker's Status.
type statusCollector struct{ *cluster.Worker }

func (c statusCollector) Describe(to chan<- *prometheus.Desc) {
	to <- infoDesc
	for _, m := range workerMetrics {
		to <- m.desc
	}
}

func (c statusCollector) Collect(to chan<- prometheus.Metric) {
	s := c.Status()
	to <- prometheus.MustNewConstMetric(infoDesc, prometheus.GaugeValue, 1, s.Worker, s.Kernels)
	for _, m := range workerMetrics {
		to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s))
	}
}

// linkMetrics count the traffic of the connection.
func linkMetrics(t *cluster.NATS) []prometheus.Collector {
	metric := func(name, help string, value func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "attn_cluster_nats_" + name,
			Help: help}, func() float64 { return float64(value()) })
	}
	return []prometheus.Collector{
		metric("in_bytes_total", "Bytes received.", func() uint64 { return t.Conn().Stats().InBytes }),
		metric("out_bytes_total", "Bytes sent.", func() uint64 { return t.Conn().Stats().OutBytes }),
		metric("reconnects_total", "Times that the connection was made again.",
			func() uint64 { return t.Conn().Stats().Reconnects }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "attn_cluster_nats_outage_seconds",
			Help: "How long there has been no connection, 0 if there is one."},
			func() float64 { return t.Outage().Seconds() }),
	}
}

// monitor serves the metrics and the health of a worker.
type monitor struct {
	server  *http.Server
	address net.Addr
}

// idleLimit bounds the time of an idle connection, and of sending a request. Tests change it.
var idleLimit = time.Minute

// startMonitor serves metrics, whether the program runs (healthz), and whether clients can reach
// the worker (readyz).
func startMonitor(address string, t *observed, w *cluster.Worker) (*monitor, error) {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), t.seconds, statusCollector{w},
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.MustRegister(linkMetrics(t.NATS)...)
	ready := health.NewChecker(health.WithCacheDuration(0), health.WithCheck(health.Check{
		Name: "nats", Check: func(context.Context) error { return connected(t.NATS) }}),
		health.WithCheck(health.Check{Name: "worker", Check: func(context.Context) error {
			return staying(w)
		}}))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	mux.Handle("/healthz", health.NewHandler(health.NewChecker()))
	mux.Handle("/readyz", health.NewHandler(ready))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("-http %s: %w", address, err)
	}
	m := &monitor{&http.Server{Handler: mux, ReadTimeout: idleLimit, IdleTimeout: idleLimit,
		WriteTimeout: 2 * idleLimit}, listener.Addr()}
	go func() { _ = m.server.Serve(listener) }() // until stop
	return m, nil
}

// connected returns an error if the worker cannot be reached.
func connected(t *cluster.NATS) error {
	if away := t.Outage(); away > 0 {
		return fmt.Errorf("there is no connection, for %v", away.Round(time.Millisecond))
	}
	return nil
}

// staying returns an error if a worker accepts no new copies.
func staying(w *cluster.Worker) error {
	if w.Status().Leaving {
		return errors.New("the worker is leaving")
	}
	return nil
}

func (m *monitor) stop() { _ = m.server.Close() } // nobody waits for its answers
