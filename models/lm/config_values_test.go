package lm

import (
	"fmt"
	"strings"
	"testing"
)

// smallConfig returns the keys that all kinds of folders need.
func smallConfig(a *architecture) configFile {
	f := a.usual()
	f.ModelType, f.Layers, f.Dim, f.Heads, f.KVHeads = a.kind, 2, 64, 4, new(2)
	f.HeadDim, f.FFN, f.Vocab, f.Positions = new(16), 64, 300, new(128.0)
	return f
}

// TestOtherNumberOfLayerTypes: a list of fewer layers is an error of every kind, an empty one, too.
func TestOtherNumberOfLayerTypes(t *testing.T) {
	for i := range architectures {
		a := &architectures[i]
		if a.usual == nil {
			continue
		}
		for n := range 2 {
			f := smallConfig(a)
			f.LayerTypes = []string{fullLayer}[:n]
			want := fmt.Sprintf("layer_types has %d layers, want num_hidden_layers, 2", n)
			if _, err := f.config(); !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: the error is %v, want %q", a.kind, err, want)
			}
		}
	}
}

// readWith reads a folder with a value of a key.
func readWith(t *testing.T, key string, value any) error {
	f := newFake("F32")
	f.config[key] = value
	_, err := readModel(f.write(t), Options{})
	return err
}

// readFileWith reads a GGUF file with a value of a key.
func readFileWith(t *testing.T, key string, value any) error {
	f, path := newShapedGGUF(smallGGUF, "llama", one("Q8_0")), at(t, "fake.gguf")
	f.Set(key, value)
	f.Write(t, path)
	_, err := readModel(path, Options{})
	return err
}

// TestNumbersThatFloat32Lacks: each would become infinite or 0 where it is computed with.
func TestNumbersThatFloat32Lacks(t *testing.T) {
	folder := func(key string, value any) error { return readWith(t, key, value) }
	file := func(key string, value any) error { return readFileWith(t, key, value) }
	for want, err := range map[string]error{
		"config.json: rms_norm_eps is 1e+300, want a number that float32 has": folder("rms_norm_eps",
			1e300),
		"config.json: rms_norm_eps is 1e-60, want a number that float32": folder("rms_norm_eps", 1e-60),
		"config.json: rope_theta is 1e+300, want a number that float32":  folder("rope_theta", 1e300),
		"config.json: rope_scaling.long_factor[1] is -1e+39, want": folder("rope_scaling",
			map[string]any{"long_factor": []float64{1, -1e39}}),
		"fake.gguf: llama.attention.layer_norm_rms_epsilon is 1e-60, want": file(
			"llama.attention.layer_norm_rms_epsilon", 1e-60),
	} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	if err := folder("rms_norm_eps", 1e-45); err != nil {
		t.Error(err)
	}
}

// TestLengthsThatAreNone: a number of positions is whole, and above 0.
func TestLengthsThatAreNone(t *testing.T) {
	for _, n := range []float64{-1, 0, 1.5, 1e30, -1e30} {
		for key, err := range map[string]error{
			"config.json: max_position_embeddings": readWith(t, "max_position_embeddings", n),
			"fake.gguf: llama.context_length":      readFileWith(t, "llama.context_length", n)} {
			want := fmt.Sprintf("%s is %v, want a whole number, 1 to", key, n)
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("the error is %v, want %q", err, want)
			}
		}
	}
	err := readWith(t, "rope_scaling", map[string]any{"type": "linear", "factor": 2,
		"original_max_position_embeddings": 1.5})
	const want = "rope_scaling has original_max_position_embeddings 1.5, want a whole number"
	if !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("the error is %v, want %q", err, want)
	}
	for _, err := range []error{readWith(t, "max_position_embeddings", 1),
		readWith(t, "max_position_embeddings", nil), readFileWith(t, "llama.context_length", nil)} {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestManyLayers: more layers than models have are an error before anything is made for them.
func TestManyLayers(t *testing.T) {
	for i := range architectures {
		if a := &architectures[i]; a.usual != nil {
			f := smallConfig(a)
			f.Layers = mostLayers + 1
			const want = "num_hidden_layers is 4097, want 1 to 4096"
			if _, err := f.config(); !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: the error is %v, want %q", a.kind, err, want)
			}
		}
	}
	for _, kind := range []string{"llama", "smollm3"} {
		for n, want := range map[int32]string{-1: "is -1, want 1 to", 4097: "want 1 to 4096"} {
			f, path := newShapedGGUF(smallGGUF, kind, one("Q8_0")), at(t, "fake.gguf")
			f.Set(kind+".block_count", n)
			f.Write(t, path)
			if _, err := readModel(path, Options{}); !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("the error is %v, want %q", err, want)
			}
		}
	}
}

// TestActivationWithoutName: an empty name is one that is not known, not an absent key.
func TestActivationWithoutName(t *testing.T) {
	for i := range architectures {
		a := &architectures[i]
		if a.usual == nil {
			continue
		}
		f, key := smallConfig(a), "hidden_act"
		if f.Activation = new(""); a.queryScalar || a.byLayer {
			f.Activation, f.Activation2, key = nil, new(""), "hidden_activation"
		}
		want := key + ` is "", want `
		if _, err := f.config(); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: the error is %v, want %q", a.kind, err, want)
		}
	}
}

// TestDefaultThatDoesNotFit: the error says that the file does not have the key.
func TestDefaultThatDoesNotFit(t *testing.T) {
	f := newFake("F32")
	delete(f.config, "eos_token_id")
	f.config["model_type"] = "olmo2"
	_, err := readModel(f.write(t), Options{})
	const want = "eos_token_id is 50279, want 0 to 19 by vocab_size; the key is not there"
	if !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("the error is %v, want %q", err, want)
	}
}
