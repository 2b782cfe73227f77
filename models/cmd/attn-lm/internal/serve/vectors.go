package serve

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/seed-1415985d/attn/models/internal/gauge"
)

// mostTexts bounds the texts of a request, as in OpenAI's interface.
const mostTexts = 2048

// read is the usage of a request's texts.
type read struct {
	Prompt int `json:"prompt_tokens"`
	Total  int `json:"total_tokens"`
}

// compute calls f, one request at a time, since each uses all workers. A text that is too long is
// an error: it is not cut.
func (s *Server) compute(ctx context.Context, f func(context.Context) error) (u read, err error) {
	if err := s.vectors.enter(1); err != nil {
		return u, err
	}
	from := time.Now()
	defer func() { s.vectors.leave(1, time.Since(from)) }()
	ctx, cancel := context.WithTimeoutCause(ctx, s.Answer, errAnswerTime)
	defer cancel()
	done, err := s.vectors.wait(ctx)
	if err != nil {
		return u, err
	}
	defer done()
	call := gauge.Call{Whole: true}
	err = f(gauge.With(ctx, &call))
	s.metrics.texts.Add(float64(call.Tokens))
	return read{call.Tokens, call.Tokens}, err
}

// vector is an embedding in a response.
type vector struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"`
}

// embeddings computes vectors of texts and images.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request, body []byte) error {
	var model string
	var in input
	format, dimensions, width := "float", 0, s.Embed.Dimensions()
	err := decodeBody(body, fields{"model": toText(&model), "input": readInput(&in),
		"encoding_format": toText(&format), "user": neutral,
		"dimensions": toInt(&dimensions, 1, math.MaxInt)})
	if err != nil {
		return err
	}
	switch {
	case in.all == nil:
		return invalid("input", "input is not there, want a text or texts")
	case format != "float" && format != "base64":
		return invalid("encoding_format", "encoding_format is %q, want float or base64",
			shortText(format))
	case dimensions > 0 && dimensions != width:
		return invalid("dimensions", "dimensions is %d, want %d, which the model has", dimensions, width)
	}
	if model, err = named(model, s.EmbedNames); err != nil {
		return err
	}
	texts, places, pictures, err := in.divide(s.embeds)
	if err != nil {
		return err
	}
	var rows [][]float32
	u, err := s.compute(r.Context(), func(ctx context.Context) (err error) {
		rows, err = s.encodeInput(ctx, len(in.all), texts, places, pictures)
		return err
	})
	if err != nil {
		return ofTexts("input", err)
	}
	data := make([]vector, len(rows))
	for i, row := range rows {
		data[i] = vector{"embedding", i, row}
		if format == "base64" {
			data[i].Embedding = base64.StdEncoding.EncodeToString(littleEndian(row))
		}
	}
	writeJSON(w, http.StatusOK, struct {
		Object string   `json:"object"`
		Data   []vector `json:"data"`
		Model  string   `json:"model"`
		Usage  read     `json:"usage"`
	}{"list", data, model, u})
	return nil
}

func readInput(into *input) obey {
	return func(value json.RawMessage) error {
		into.list = value[0] == '['
		if toTexts(&into.all, mostTexts)(value) != nil {
			return fmt.Errorf("want a text or a list of 1 to %d texts, and no tokens, which are of "+
				"another vocabulary", mostTexts)
		}
		return nil
	}
}

func littleEndian(row []float32) []byte {
	data := make([]byte, 0, 4*len(row))
	for _, x := range row {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return data
}

// ofTexts adds the field's name to an error about texts that are too long.
func ofTexts(name string, err error) error {
	if errors.Is(err, gauge.ErrCut) {
		return invalid(name, "%s: %s", name, err.Error()).coded(400, "context_length_exceeded")
	}
	return err
}

// ranked is a document with its score.
type ranked struct {
	Index    int       `json:"index"`
	Score    float32   `json:"relevance_score"`
	Document *document `json:"document,omitempty"`
}

type document struct {
	Text string `json:"text"`
}

// rerank sorts documents by their scores for a query.
func (s *Server) rerank(w http.ResponseWriter, r *http.Request, body []byte) error {
	var model, query string
	var texts []string
	shown, most := true, 0
	err := decodeBody(body, fields{"model": toText(&model), "query": toText(&query),
		"documents": readDocuments(&texts), "top_n": toInt(&most, 1, math.MaxInt),
		"return_documents": toBool(&shown), "user": neutral})
	switch {
	case err != nil:
		return err
	case query == "":
		return invalid("query", "query is not there or empty, want a text")
	case texts == nil:
		return invalid("documents", "documents is not there, want a list of texts")
	}
	if model, err = named(model, s.RerankNames); err != nil {
		return err
	}
	var scores []float32
	u, err := s.compute(r.Context(), func(ctx context.Context) (err error) {
		scores, err = s.Rerank.RerankContext(ctx, query, texts)
		return err
	})
	if err != nil {
		return ofTexts("documents", err)
	}
	all := make([]ranked, len(scores))
	for i, score := range scores {
		all[i] = ranked{Index: i, Score: score}
		if shown {
			all[i].Document = &document{texts[i]}
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return 0
	})
	if most > 0 && most < len(all) {
		all = all[:most]
	}
	writeJSON(w, http.StatusOK, struct {
		ID      string   `json:"id"`
		Model   string   `json:"model"`
		Results []ranked `json:"results"`
		Usage   read     `json:"usage"`
	}{newID("rerank-"), model, all, u})
	return nil
}

// readDocuments reads texts, or objects with a text.
func readDocuments(into *[]string) obey {
	return func(value json.RawMessage) error {
		list, ok := listOf[json.RawMessage](value)
		if !ok || len(list) == 0 || len(list) > mostTexts {
			return fmt.Errorf("want a list of 1 to %d texts", mostTexts)
		}
		texts := make([]string, len(list))
		for i, x := range list {
			if json.Unmarshal(x, &texts[i]) == nil {
				continue
			}
			name, there := fmt.Sprintf("documents[%d]", i), false
			err := fields{"text": func(value json.RawMessage) error {
				there = true
				return toText(&texts[i])(value)
			}}.decode(name, x)
			if err == nil && !there {
				err = invalid(name, "%s has no text", name)
			}
			if err != nil {
				return err
			}
		}
		*into = texts
		return nil
	}
}
