package embed_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/seed-1415985d/attn/models/embed"
	"github.com/seed-1415985d/attn/nn"
)

// A server with batches: what came while one was computed is the next one.
func Example_server() {
	m, err := embed.Random(embed.Sizes{Layers: 1, Hidden: 32, Heads: 2, FFN: 64, Vocab: 100},
		embed.Options{})
	if err != nil {
		panic(err)
	}
	type request struct {
		text  string
		reply chan []float32
	}
	requests := make(chan request, 64)
	go func() {
		for first := range requests {
			batch, texts := []request{first}, []string{first.text}
			for range len(requests) {
				r := <-requests
				batch, texts = append(batch, r), append(texts, r.text)
			}
			vectors, err := m.Encode(texts)
			for i, r := range batch {
				if err == nil {
					r.reply <- vectors[i]
				}
				close(r.reply)
			}
		}
	}()
	serve := func(w http.ResponseWriter, r *http.Request) {
		reply := make(chan []float32, 1)
		requests <- request{r.FormValue("text"), reply}
		if vector := <-reply; vector == nil || json.NewEncoder(w).Encode(vector) != nil {
			http.Error(w, "no vector", http.StatusInternalServerError)
		}
	} // for http.HandleFunc

	answer := httptest.NewRecorder()
	serve(answer, httptest.NewRequest(http.MethodPost, "/?text=rain", nil))
	fmt.Println(answer.Code, strings.Count(answer.Body.String(), ",")+1, "numbers")
	// Output: 200 32 numbers
}

// How well documents answer a query, by the vectors that a ColBERT makes of each token. Rerank does
// the same in one call; here the documents' vectors can be kept for all later queries.
func ExampleModel_EncodeQueries() {
	m, err := embed.Open("GTE-ModernColBERT-v1", embed.Options{}) // a folder as PyLate has it
	if err != nil {
		panic(err)
	}
	defer m.Close()
	rows, lens, err := m.EncodeDocuments([]string{"It rains.", "The sun is out."})
	if err != nil {
		panic(err)
	}
	queries, tokens, err := m.EncodeQueries([]string{"Do I need an umbrella?", "Is it warm?"})
	if err != nil {
		panic(err)
	}
	first := 0 // row of a query
	for _, n := range tokens {
		scores := make([]float32, len(lens)) // of each document
		if err := nn.MaxSim(nil, scores, queries.Slice(first, first+n), rows, lens); err != nil {
			panic(err)
		}
		fmt.Println(scores)
		first += n
	}
}

// The two texts that are nearest to each other. The model is random, so the nearest is a copy.
func ExampleModel_Similarity() {
	m, err := embed.Random(embed.Sizes{Layers: 1, Hidden: 32, Heads: 2, FFN: 64, Vocab: 100},
		embed.Options{Workers: 1})
	if err != nil {
		panic(err)
	}
	defer m.Close()
	texts := []string{"It rains.", "The sun is out.", "It rains."}
	vectors, err := m.Encode(texts)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.3f\n", m.Similarity(vectors[0], vectors[2]))
	fmt.Println(m.Similarity(vectors[0], vectors[1]) < m.Similarity(vectors[0], vectors[2]))
	// Output:
	// 1.000
	// true
}
