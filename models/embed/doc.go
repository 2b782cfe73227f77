// Package embed computes embeddings of texts, scores of pairs of texts and labels with models of
// sentence-transformers and transformers: [Open] opens a published folder or a GGUF file as a
// [Model].
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
// The vector of a text has the same bits alone and in any batch, with any number of workers, and on
// every CPU: all computation is done by packages attn and nn, which guarantee that. The texts of a
// batch are packed without padding.
//
// Each key and each tensor of a model's files is used, known to have no effect, or an error that
// names the file, the key and its value. Nothing unsupported is ignored or approximated.
//
// [Model.Rerank] scores texts for a query: with cross-encoders, with Qwen3-Reranker, or by MaxSim
// with PyLate models (ColBERT), which have a vector for each token ([Model.EncodeQueries]).
// [Model.EncodeImages] computes vectors of images, and [Model.ClassifyImages] labels them.
// [Model.Classify], [Model.ZeroShot] and [Model.Entities] label texts and parts of them. The
// README in this folder lists the files that are read.
package embed
