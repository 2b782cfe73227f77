package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrape reads a worker's metrics that have one number.
func scrape(c *child) (map[string]float64, error) {
	client := http.Client{Timeout: 10 * time.Second}
	reply, err := client.Get(c.monitorAddress() + "/metrics")
	if err != nil {
		return nil, err
	}
	defer func() { _ = reply.Body.Close() }() // it was read
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", reply.Request.URL, reply.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(reply.Body)
	if err != nil {
		return nil, err
	}
	return singles(families), nil
}

// singles returns the metrics that have one number.
func singles(families map[string]*dto.MetricFamily) map[string]float64 {
	values := map[string]float64{}
	for name, f := range families {
		if m := f.GetMetric()[0]; len(f.GetMetric()) == 1 {
			values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return values
}

// ownMetrics returns the system's metrics of this process.
func ownMetrics() (map[string]float64, error) {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	all, err := r.Gather()
	families := map[string]*dto.MetricFamily{}
	for _, f := range all {
		families[f.GetName()] = f
	}
	return singles(families), err
}
