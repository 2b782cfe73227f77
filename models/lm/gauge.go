package lm

import "github.com/seed-1415985d/attn/models/internal/gauge"

func init() {
	gauge.OfModel = func(m any) gauge.Engine { return m.(*Model).engine.gauge() }
}

// gauge returns what the engine has computed, and its current load.
func (e *engine) gauge() gauge.Engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := &e.meter
	return gauge.Engine{Steps: m.reads + m.steps, Prompts: m.read, Shared: m.shared, Hits: m.hits,
		Guessed: m.right, Waiting: len(e.waiting), Running: len(e.active), Places: e.settings.places,
		Bytes: m.used, Capacity: e.settings.memory}
}
