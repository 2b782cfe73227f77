package main

import "math"

// config is the shape of a model, as its folder gives it or its type implies.
type config struct {
	Layers, Dim, Heads, KVHeads, HeadDim, FFN, Vocab int
	Epsilon                                          float64
	Tied                                             bool  // the last matrix is the embedding
	Stop                                             []int // tokens that end an answer
	Theta                                            float64
	Scaling                                          scaling
	QKVBias, OutBias, FFNBias                        bool // of which matrices
	// how many tokens a token of each layer sees, itself and those before it; 0 for all
	Windows []int
}

// scaling stretches the rotations to more positions than a model was first trained with.
type scaling struct {
	Type     string   `json:"rope_type"`
	OldType  string   `json:"type"`
	Theta    *float64 `json:"rope_theta"`
	Factor   float64  `json:"factor"`
	Low      float64  `json:"low_freq_factor"`
	High     float64  `json:"high_freq_factor"`
	Original float64  `json:"original_max_position_embeddings"`
}

// turns are the angles by which a position rotates each pair of a head's elements.
func (c *config) turns() []float64 {
	t := make([]float64, c.HeadDim/2)
	for i := range t {
		t[i] = c.Scaling.stretch(math.Pow(c.Theta, -2*float64(i)/float64(c.HeadDim)))
	}
	return t
}

func (s *scaling) stretch(turn float64) float64 {
	switch s.Type {
	case "linear":
		return turn / s.Factor
	case "llama3":
		rounds := turn * s.Original / (2 * math.Pi) // within the positions of the first training
		keep := min(max((rounds-s.Low)/(s.High-s.Low), 0), 1)
		return (1-keep)*turn/s.Factor + keep*turn
	}
	return turn
}
