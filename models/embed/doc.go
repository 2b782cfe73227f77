// Package embed makes embeddings of texts, and scores of pairs of texts, with the models that
// sentence-transformers runs: a folder as it is published, or a GGUF file, becomes a [Model].
//
//	m, err := embed.Open("all-MiniLM-L6-v2", embed.Options{})
//	if err != nil {
//		return err
//	}
//	vectors, err := m.Encode([]string{"A text.", "Another one."})
//	if err != nil {
//		return err
//	}
//	fmt.Println(m.Similarity(vectors[0], vectors[1]))
//
// A text has the same bits in its vector alone and in any batch, with any number of workers, and on
// every CPU, because attention and products are those of package attn and all else is that of its
// package nn. Texts of a batch lie one after another: nothing is padded.
//
// Each key of a model's files and each tensor is obeyed, known to change nothing, or an error that
// names the file, the key and its value. What is not supported is not computed in another way.
//
// [Model.Rerank] scores texts for a query: with cross-encoders, with Qwen3-Reranker, and by MaxSim
// of the vectors that a ColBERT makes of each token, of a folder of PyLate ([Model.EncodeQueries]).
// The README beside this file has the files that are read.
package embed
