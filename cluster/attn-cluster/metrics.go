package main

import (
	"net"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-1415985d/attn/cluster"
)

// gauge is one number of a worker's status, or of its connection.
type gauge struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*cluster.Status, nats.Statistics) float64
}

// workerMetrics gives Prometheus what a worker says about itself.
type workerMetrics struct {
	worker *cluster.Worker
	conn   *nats.Conn
	gauges []gauge
}

func newMetrics(w *cluster.Worker, conn *nats.Conn) *workerMetrics {
	m := &workerMetrics{worker: w, conn: conn}
	add := func(name, help string, kind prometheus.ValueType,
		value func(*cluster.Status, nats.Statistics) float64) {
		m.gauges = append(m.gauges, gauge{prometheus.NewDesc("attn_cluster_"+name, help, nil, nil), kind,
			value})
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	type status = *cluster.Status
	type traffic = nats.Statistics
	add("memory_bytes", "Bytes that the worker may take for keys and values.", gauge,
		func(s status, _ traffic) float64 { return float64(s.Memory) })
	add("used_bytes", "Bytes that it has taken.", gauge,
		func(s status, _ traffic) float64 { return float64(s.Used) })
	add("sequences", "Sequences with parts here.", gauge,
		func(s status, _ traffic) float64 { return float64(s.Sequences) })
	add("copies", "Copies of parts.", gauge,
		func(s status, _ traffic) float64 { return float64(s.Copies) })
	add("tokens", "Tokens of all layers.", gauge,
		func(s status, _ traffic) float64 { return float64(s.Tokens) })
	add("clients", "Clients with a lease.", gauge,
		func(s status, _ traffic) float64 { return float64(s.Clients) })
	add("running", "Calls that are running.", gauge,
		func(s status, _ traffic) float64 { return float64(s.Running) })
	add("calls_total", "Calls since the start.", counter,
		func(s status, _ traffic) float64 { return float64(s.Calls) })
	add("refused_total", "Calls that ended with an error.", counter,
		func(s status, _ traffic) float64 { return float64(s.Refused) })
	add("malformed_total", "Messages that were none.", counter,
		func(s status, _ traffic) float64 { return float64(s.Malformed) })
	add("received_bytes_total", "Bytes from NATS.", counter,
		func(_ status, t traffic) float64 { return float64(t.InBytes) })
	add("sent_bytes_total", "Bytes to NATS.", counter,
		func(_ status, t traffic) float64 { return float64(t.OutBytes) })
	add("reconnects_total", "Times that the connection was made again.", counter,
		func(_ status, t traffic) float64 { return float64(t.Reconnects) })
	return m
}

// Describe is that of a [prometheus.Collector].
func (m *workerMetrics) Describe(to chan<- *prometheus.Desc) {
	for i := range m.gauges {
		to <- m.gauges[i].desc
	}
}

// Collect is that of a [prometheus.Collector].
func (m *workerMetrics) Collect(to chan<- prometheus.Metric) {
	s, traffic := m.worker.Status(), m.conn.Stats()
	for i := range m.gauges {
		g := &m.gauges[i]
		to <- prometheus.MustNewConstMetric(g.desc, g.kind, g.value(&s, traffic))
	}
}

// serveMetrics serves /metrics, and /healthz, which is well while there is a connection to NATS.
func serveMetrics(address string, w *cluster.Worker, conn *nats.Conn) (stop func(), at string,
	err error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newMetrics(w, conn), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(to http.ResponseWriter, _ *http.Request) {
		if !conn.IsConnected() {
			http.Error(to, "no connection to NATS", http.StatusServiceUnavailable)
			return
		}
		_, _ = to.Write([]byte("ok\n")) // who asked may be gone
	})
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, "", err
	}
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.Serve(listener) }() // until it is closed
	return func() { _ = s.Close() }, listener.Addr().String(), nil
}
