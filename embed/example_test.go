package embed_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/seed-1415985d/attn/embed"
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
