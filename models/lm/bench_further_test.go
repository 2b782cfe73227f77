package lm

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/dev/gguftest"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/measure"
)

// furtherShape is a model like Qwen3.5 of 9 B in Q4_K, with narrower rows: its last matrix is a
// tenth of what a token reads.
var furtherShape = struct{ layers, dim, ffn, heads, kv, head, states, vocab int }{24, 2048, 6144, 8,
	2, 256, 16, 65536}

// furtherFile returns random weights.
func furtherFile() *gguftest.File {
	s, f, source := &furtherShape, &gguftest.File{}, rand.NewChaCha8([32]byte{1})
	matrix := func(name string, out, in int) { f.Random(source, name+".weight", "Q4_K", out, in) }
	matrix("token_embd", s.vocab, s.dim)
	matrix("output", s.vocab, s.dim)
	for i := range s.layers + 1 {
		at := fmt.Sprintf("blk.%d.", i)
		if i < s.layers && (i+1)%4 != 0 {
			matrix(at+"attn_qkv", 3*s.dim, s.dim)
			matrix(at+"attn_gate", s.dim, s.dim)
			matrix(at+"ssm_beta", s.states, s.dim)
			matrix(at+"ssm_alpha", s.states, s.dim)
			matrix(at+"ssm_out", s.dim, s.dim)
			f.Vector(at+"ssm_conv1d.weight", 12*s.dim, 0.25, 3*s.dim, 4)
			f.Vector(at+"ssm_dt.bias", s.states, 0.1)
			f.Vector(at+"ssm_a", s.states, -0.5)
			f.Vector(at+"ssm_norm.weight", s.dim/s.states, 1)
		} else {
			matrix(at+"attn_q", 2*s.heads*s.head, s.dim)
			matrix(at+"attn_k", s.kv*s.head, s.dim)
			matrix(at+"attn_v", s.kv*s.head, s.dim)
			matrix(at+"attn_output", s.dim, s.heads*s.head)
			f.Vector(at+"attn_q_norm.weight", s.head, 1)
			f.Vector(at+"attn_k_norm.weight", s.head, 1)
		}
		f.Vector(at+"attn_norm.weight", s.dim, 1)
		f.Vector(at+"post_attention_norm.weight", s.dim, 1)
		matrix(at+"ffn_gate", s.ffn, s.dim)
		matrix(at+"ffn_up", s.ffn, s.dim)
		matrix(at+"ffn_down", s.dim, s.ffn)
	}
	at := fmt.Sprintf("blk.%d.nextn.", s.layers)
	matrix(at+"eh_proj", s.dim, 2*s.dim)
	f.Vector(at+"enorm.weight", s.dim, 1)
	f.Vector(at+"hnorm.weight", s.dim, 1)
	f.Vector("output_norm.weight", s.dim, 1)
	for name, value := range map[string]int{"block_count": s.layers + 1, "nextn_predict_layers": 1,
		"context_length": 32768, "embedding_length": s.dim, "feed_forward_length": s.ffn,
		"attention.head_count": s.heads, "attention.head_count_kv": s.kv,
		"attention.key_length": s.head, "attention.value_length": s.head, "rope.dimension_count": 64,
		"ssm.conv_kernel": 4, "ssm.inner_size": s.dim, "ssm.state_size": s.dim / s.states,
		"ssm.time_step_rank": s.states, "ssm.group_count": s.states, "full_attention_interval": 4} {
		f.Set("qwen35."+name, uint32(value))
	}
	f.Set("qwen35.attention.layer_norm_rms_epsilon", float32(1e-6))
	f.Set("qwen35.rope.freq_base", float32(1e7))
	f.Set("qwen35.rope.dimension_sections", []int32{11, 11, 10, 0})
	tokens, kinds := make([]string, s.vocab), make([]int32, s.vocab)
	for i := range tokens {
		tokens[i], kinds[i] = fmt.Sprintf("t%d", i), 1
	}
	for name, value := range map[string]any{"model": "gpt2", "pre": "qwen2", "tokens": tokens,
		"token_type": kinds, "merges": []string{}, "eos_token_id": uint32(19)} {
		f.Set("tokenizer.ggml."+name, value)
	}
	f.Set("general.architecture", "qwen35")
	return f
}

// BenchmarkFurther compares tokens a second with at most three guesses of the model's own layer, of
// which parts are right, and without guesses, in alternating turns. Each turn is a model's first
// answer.
func BenchmarkFurther(b *testing.B) {
	path := filepath.Join(b.TempDir(), "further.gguf")
	furtherFile().Write(b, path)
	s := settings{places: 1, chunk: 64, context: 2048, keys: attn.F16, integers: true, guesses: 3}
	m, _, err := (&options{model: path, weights: asStored, settings: s}).open()
	must(b, err)
	m.Stop = nil
	for _, workers := range []int{1, 2} {
		for _, right := range []float64{0.8, 0, 0.3, 0.95} {
			b.Run(fmt.Sprintf("threads=%d/right=%v", workers, right), func(b *testing.B) {
				s.workers = workers
				furtherTurns(b, m, s, right)
			})
		}
	}
}

func furtherTurns(b *testing.B, m *model, s settings, chance float64) {
	plain := *m
	plain.further = nil
	var seconds, used [2][]float64 // of answers, and of processors
	var known []int
	r := rand.New(rand.NewPCG(1, 2))
	turn := func(side int, m *model) {
		e, err := newTester(m, s)
		must(b, err)
		defer e.close()
		if e.guesser != nil {
			e.guesser.change = func(j *job, i int, token int32) int32 {
				right := known[len(j.tokens)+len(j.guesses)]
				if r.Float64() < chance {
					return int32(right)
				}
				return int32((right + 1) % m.Vocab)
			}
		}
		c := &call{prompt: countUp(32), most: 96, choose: greedy}
		e.queue(c)
		start, _ := kerneltest.ProcessorTime()
		must(b, e.answer())
		end, _ := kerneltest.ProcessorTime()
		known = c.tokens
		counts := e.counts()
		b.ReportMetric(float64(counts.made+counts.right)/float64(counts.steps), "tokens/step")
		seconds[side] = append(seconds[side],
			counts.making.Seconds()/float64(counts.made+counts.right))
		used[side] = append(used[side], (end - start).Seconds())
	}
	for b.Loop() {
		turn(0, &plain)
		turn(1, m)
	}
	b.ReportMetric(measure.Median(used[0])/measure.Median(used[1]), "processor-ratio")
	b.ReportMetric(1/measure.Median(seconds[0]), "plain-tokens/s")
	b.ReportMetric(1/measure.Median(seconds[1]), "tokens/s")
	b.ReportMetric(measure.Median(seconds[0])/measure.Median(seconds[1]), "ratio")
	b.ReportMetric(furtherRows(b, &plain, s), "four-rows/one")
	b.ReportMetric(0, "ns/op") // the time of both together has no meaning
}

// furtherRows returns how long a step of four rows takes, as a ratio to one row.
func furtherRows(b *testing.B, m *model, s settings) float64 {
	e, err := newTester(m, s)
	must(b, err)
	defer e.close()
	seq, err := e.pages.newSequence()
	must(b, err)
	must(b, e.forward([]piece{{seq: seq, tokens: make([]int32, 64)}}, nil))
	var seconds [2][]float64
	for range 15 {
		for side, rows := range []int{1, 4} {
			seq.mark()
			n, start := seq.length(), time.Now()
			must(b, e.forward([]piece{{seq: seq, tokens: make([]int32, rows)}}, []int{rows}))
			seconds[side] = append(seconds[side], time.Since(start).Seconds())
			must(b, seq.back(n))
		}
	}
	return measure.Median(seconds[1]) / measure.Median(seconds[0])
}
