package embed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// jinaIdle are keys of version 2 of Jina's embeddings without effect.
var jinaIdle = strictjson.Idle{"position_embedding_type": {`"alibi"`}, "emb_pooler": nil,
	"attn_implementation": nil, "hidden_act": {`"gelu"`}}

// isJina reports whether a BERT is version 2 of Jina's embeddings: without a table of positions.
func isJina(l *weights.Loader, kind string) bool {
	var c struct {
		Positions string `json:"position_embedding_type"`
	}
	l.JSON(configJSON, &c, strictjson.AnyKey)
	return kind == "bert" && c.Positions == "alibi"
}

// readJina describes version 2 of Jina's embeddings: a BERT with ALiBi to both sides and a gate.
func readJina(l *weights.Loader) *description {
	c := struct {
		bertConfig
		Activation string          `json:"feed_forward_type"`
		Code       json.RawMessage `json:"auto_map"`
	}{bertConfig: bertConfig{Positions: 512, Types: 2, Epsilon: 1e-12}}
	l.JSON(configJSON, &c, idleWith(jinaIdle, "hidden_act"))
	if of := "qk-post-norm"; bytes.Contains(c.Code, []byte(of)) {
		l.Check(configJSON, fmt.Errorf("auto_map names code with %s, want that of jina-bert-"+
			"implementation: the model for programs has other layers", of))
	}
	d := &description{kind: jinaGGUF, names: bertNames, headPooling: "cls"}
	d.setSizes(&c.bertConfig)
	n := &d.names
	n.up, n.down, n.ffnNorm = []string{"mlp.gated_layers"}, "mlp.wo", "mlp.layernorm"
	n.head, n.tokenHead = headNames{}, headNames{}
	gates := map[string]nn.Activation{"geglu": nn.GELU, "reglu": nn.ReLU}
	gate, ok := gates[c.Activation]
	if !ok {
		l.Check(configJSON, fmt.Errorf("feed_forward_type is %q, want geglu or reglu", c.Activation))
	}
	d.setJina()
	d.activation = gate
	l.Check(configJSON, d.check(usualKeys))
	return d
}

// setJina changes a BERT's description to Jina's.
func (d *description) setJina() {
	d.pad, d.positions, d.gated, d.alibi, d.activation = -1, 0, true, true, nn.GELU
	d.names.positions, d.names.upBias = "", false
}

// loadALiBi sets a bias of −slope·|distance|, with the slopes of ALiBi's paper.
func (m *Model) loadALiBi() {
	if !m.alibi {
		return
	}
	most := m.description.longest - 1
	table := attn.BHLD(make([]float32, m.heads*(2*most+1)), 1, m.heads, 1, 2*most+1)
	for i, slope := range alibiSlopes(m.heads) {
		row := table.Row(0, i, 0)
		for d := range most + 1 {
			row[most+d] = -slope * float32(d)
			row[most-d] = row[most+d]
		}
	}
	m.distance.Query = table
}

// alibiSlopes returns the slopes of heads: 2^(−8i/n) for i of 1 to n, a power of two. Further heads
// have every other slope of twice as many.
func alibiSlopes(heads int) (slopes []float32) {
	n, ratio := 1, 1.0/256
	for ; 2*n <= heads; n *= 2 {
		ratio = math.Sqrt(ratio)
	}
	slope := 1.0
	for range n {
		slope *= ratio
		slopes = append(slopes, float32(slope))
	}
	slope = math.Sqrt(ratio)
	for range heads - n {
		slopes = append(slopes, float32(slope))
		slope *= ratio
	}
	return slopes
}
