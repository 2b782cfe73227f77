package main

// config is the shape of a model, as its folder gives it or its type implies.
type config struct {
	Layers, Dim, Heads, KVHeads, HeadDim, FFN, Vocab int
	Epsilon                                          float64
	Tied                                             bool  // the last matrix is the embedding
	Stop                                             []int // tokens that end an answer
	Theta                                            float64
	Scaling                                          scaling
	QKVBias, OutBias, FFNBias                        bool // of which matrices
	QKNorm                                           bool // of queries and keys, head by head
	// of those matrices for which the file has one
	AnyBias bool
	// pairs that rotations turn are neighbours in the file
	Interleaved bool
	// how many tokens a token of each layer sees, itself and those before it; 0 for all
	Windows []int
	// how many tokens texts had at most in training, as the file or its scaling says; 0 if unknown
	Trained int
}
