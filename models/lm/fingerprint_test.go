package lm

import (
	"os"
	"path/filepath"
	"testing"
)

// fingerprintOf returns the fingerprint of a model opened from a path.
func fingerprintOf(t *testing.T, path string, o Options) string {
	t.Helper()
	if o.Context == 0 {
		o.Context = 64
	}
	m, err := Open(path, o)
	must(t, err)
	defer m.Close()
	text, err := m.Fingerprint()
	must(t, err)
	if len(text) != 64 {
		t.Errorf("the fingerprint is %q, want 64 digits", text)
	}
	return text
}

// TestFingerprint: everything that tokens depend on changes it, and nothing else does. A file of
// packed matrices keeps the sum of tensors.
func TestFingerprint(t *testing.T) {
	f := newFake("F32")
	path := f.write(t)
	first := fingerprintOf(t, path, Options{})
	for name, o := range map[string]Options{"workers": {Workers: 1}, "sequences": {Sequences: 2},
		"chunk": {Chunk: 3}, "context": {Context: 99}, "memory": {Memory: 1 << 20},
		"the same keys": {Keys: F32}} {
		if got := fingerprintOf(t, path, o); got != first {
			t.Errorf("%s: another fingerprint", name)
		}
	}
	known := map[string]string{first: "the first"}
	other := func(name, got string) {
		t.Helper()
		if was := known[got]; was != "" {
			t.Errorf("%s: the fingerprint is as of %s", name, was)
		}
		known[got] = name
	}
	other("keys", fingerprintOf(t, path, Options{Keys: F16}))
	other("values", fingerprintOf(t, path, Options{Values: F16}))
	other("weights", fingerprintOf(t, path, Options{Weights: F16}))
	other("products", fingerprintOf(t, path, Options{Products: Integers}))
	other("products in bfloat16", fingerprintOf(t, path, Options{Products: BFloat16}))
	pack := filepath.Join(t.TempDir(), "packed")
	for _, what := range []string{"while it is written", "from it"} {
		if got := fingerprintOf(t, path, Options{Pack: pack}); got != first {
			t.Errorf("with a file of packed matrices, %s: another fingerprint", what)
		}
	}
	m, err := Open(path, Options{Pack: pack, Context: 64})
	must(t, err)
	defer m.Close()
	if m.fingerprint.tensors == "" {
		t.Error("the file of packed matrices has no sum of tensors")
	}
	changed := map[string]func(f *fake){
		"a weight":            func(f *fake) { f.tensors["model.norm.weight"].data[3] += 0.5 },
		"the configuration":   func(f *fake) { f.config["rope_theta"] = 600 },
		"what ends answers":   func(f *fake) { f.config["eos_token_id"] = 18 },
		"a token":             func(f *fake) { f.rename("d", "q") },
		"the type of tensors": func(f *fake) { f.kind = "F16" },
	}
	for name, change := range changed {
		f := newFake("F32")
		change(f)
		other(name, fingerprintOf(t, f.write(t), Options{}))
	}
	must(t, os.WriteFile(filepath.Join(path, "chat_template.jinja"), []byte("{{ messages }}"), 0o600))
	other("the template", fingerprintOf(t, path, Options{Pack: pack}))
}
