package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/lm"
)

// Bounds of requests, as in OpenAI's interface.
const (
	mostChoices    = 128
	mostCandidates = 20
	mostLogprobs   = 1 << 18 // of a whole response, which is in memory
	mostStops      = 16
	mostStop       = 1024 // bytes of a stop text
	usualTokens    = 16   // default for a completion
	never          = -100 // a bias that forbids a token
)

// params are the parameters of answers.
type params struct {
	model     string
	sampling  lm.Sampling
	seed      *uint64
	bias      map[int32]float32
	stops     []string
	most      int // tokens of an answer; 0: not given
	completed int // the same, by the newer name
	n         int
	stream    bool
	options   json.RawMessage // of a stream; nil for none
	usage     bool            // the stream ends with its usage
	logprobs  bool
	top       int // candidates for each token
	tokens    bool
}

// fields returns the fields of requests for completions and for chats.
func (p *params) fields() fields {
	p.n, p.sampling.Temperature, p.sampling.TopP = 1, 1, 1
	const floats = math.MaxFloat32
	s := &p.sampling
	f := fields{
		"model": toText(&p.model), "stream": toBool(&p.stream), "return_token_ids": toBool(&p.tokens),
		"stream_options": func(value json.RawMessage) error { p.options = value; return nil },
		"stop":           p.readStops, "seed": toSeed(&p.seed), "n": toInt(&p.n, 1, mostChoices),
		"temperature": toFloat(&s.Temperature, 0, floats), "top_p": p.readTopP,
		"top_k": p.readTopK, "min_p": toFloat(&s.MinP, 0, 1), "repetition_penalty": p.readRepetition,
		"frequency_penalty": toFloat(&s.Frequency, -floats, floats),
		"presence_penalty":  toFloat(&s.Presence, -floats, floats),
		"logit_bias":        p.readBias, "max_tokens": toInt(&p.most, 1, math.MaxInt),
		"max_completion_tokens": toInt(&p.completed, 1, math.MaxInt),
	}
	for _, name := range []string{"user", "metadata", "store", "service_tier", "safety_identifier",
		"prompt_cache_key"} {
		f[name] = neutral
	}
	const tools = "tools are not there"
	maps.Copy(f, fields{"tools": only(tools, "[]"), "functions": only(tools, "[]"),
		"tool_choice":      only(tools, `"none"`),
		"response_format":  only("grammars are not there", `{"type":"text"}`),
		"audio":            only("sounds are not there"),
		"modalities":       only("sounds are not there", "[]", `["text"]`),
		"prediction":       only("answers cannot be predicted"),
		"reasoning_effort": only("chat_template_kwargs has what a template reads", `"none"`),
		"suffix":           only("texts are not filled in"),
		"echo":             only("prompts are not repeated", "false"),
		"best_of":          only("all answers are returned", "1")})
	return f
}

func (p *params) readStops(value json.RawMessage) error {
	if string(value) == "[]" {
		return nil
	}
	if err := toTexts(&p.stops, mostStops)(value); err != nil {
		return err
	}
	for _, text := range p.stops {
		if text == "" || len(text) > mostStop {
			return fmt.Errorf("want texts of 1 to %d bytes", mostStop)
		}
	}
	return nil
}

// readTopP reads a share. 0, and what rounds to it, becomes the least number above 0, which the
// most likely token alone reaches: for package lm 0 means all tokens.
func (p *params) readTopP(value json.RawMessage) error {
	err := toFloat(&p.sampling.TopP, 0, 1)(value)
	if err == nil && p.sampling.TopP == 0 {
		p.sampling.TopP = math.SmallestNonzeroFloat32
	}
	return err
}

// readTopK reads a number of tokens; -1 stands for all.
func (p *params) readTopK(value json.RawMessage) error {
	if string(value) == "-1" {
		return nil
	}
	if toInt(&p.sampling.TopK, 0, math.MaxInt)(value) != nil {
		return errors.New("want a whole number of 0 or more, or -1 for all tokens")
	}
	return nil
}

func (p *params) readRepetition(value json.RawMessage) error {
	err := toFloat(&p.sampling.Repetition, 0, math.MaxFloat32)(value)
	if err != nil || p.sampling.Repetition == 0 {
		return errors.New("want a number above 0 that float32 has")
	}
	return nil
}

// readBias reads biases of logits by token.
func (p *params) readBias(value json.RawMessage) error {
	p.bias = map[int32]float32{}
	wanted := errors.New("want an object with tokens as keys, as \"50256\", and numbers " +
		"from -100 to 100")
	err := strictjson.Members(value, func(key string, value json.RawMessage) error {
		token, err := strconv.ParseInt(key, 10, 32)
		var bias float32
		if err != nil || token < 0 || strconv.FormatInt(token, 10) != key ||
			isNull(value) || toFloat(&bias, -100, 100)(value) != nil {
			return wanted
		}
		p.bias[int32(token)] = bias
		return nil
	})
	if err != nil {
		return wanted
	}
	return nil
}

// settle checks conditions of several fields. usual is the default for the most tokens of an
// answer; 0: as many as the context leaves.
func (s *Server) settle(p *params, usual int) error {
	if err := p.readOptions(); err != nil {
		return err
	}
	if p.most > 0 && p.completed > 0 && p.most != p.completed {
		return invalid("max_tokens", "max_tokens is %d and max_completion_tokens %d, want one of them",
			p.most, p.completed)
	}
	name := "max_tokens"
	if p.most == 0 && p.completed > 0 {
		p.most, name = p.completed, "max_completion_tokens"
	}
	if s.Tokens > 0 && p.most > s.Tokens {
		return invalid(name, "%s is %d, want at most %d, the bound of this server", name, p.most,
			s.Tokens)
	}
	if p.most == 0 {
		p.most = usual
		if s.Tokens > 0 && (usual == 0 || usual > s.Tokens) {
			p.most = s.Tokens
		}
	}
	if err := p.checkBias(s.Model.Sizes().Vocab); err != nil {
		return err
	}
	if p.seed == nil {
		p.seed = new(rand.Uint64())
	}
	return nil
}

// checkBias refuses unknown tokens, and biases that forbid all tokens.
func (p *params) checkBias(vocab int) error {
	forbidden := 0
	for token, bias := range p.bias {
		if int(token) >= vocab {
			return invalid("logit_bias", "logit_bias has token %d, want 0 to %d", token, vocab-1)
		}
		if bias == never {
			forbidden++
		}
	}
	if forbidden == vocab {
		return invalid("logit_bias", "logit_bias forbids all tokens, want one that may be drawn")
	}
	return nil
}

// readOptions reads the options of a stream.
func (p *params) readOptions() error {
	if p.options == nil {
		return nil
	}
	if !p.stream {
		return invalid("stream_options", "stream_options is there without stream, want both or none")
	}
	return fields{"include_usage": toBool(&p.usage),
		"include_obfuscation": only("streams have nothing for that", "false"),
	}.decode("stream_options", p.options)
}

// generation returns the settings of choice i of a request.
func (p *params) generation(i int) lm.Generation {
	g := lm.Generation{MaxTokens: p.most, Stop: p.stops, Sampling: p.sampling, Top: p.top}
	g.Sampling.Seed = *p.seed + uint64(i)
	if len(p.bias) > 0 {
		g.Logits = p.addBias
	}
	return g
}

// addBias adds the biases to logits; -100 forbids a token.
func (p *params) addBias(_ []int32, logits []float32) error {
	for token, bias := range p.bias {
		if bias == never {
			logits[token] = float32(math.Inf(-1))
		} else {
			logits[token] += bias
		}
	}
	return nil
}

// named refuses unknown models. A request may omit the name.
func named(name string, names []string) (string, error) {
	if name == "" {
		return names[0], nil
	}
	for _, known := range names {
		if name == known {
			return name, nil
		}
	}
	return "", invalid("model", "the model %q is not there, want %s", shortText(name),
		strings.Join(names, " or ")).coded(404, "model_not_found")
}
