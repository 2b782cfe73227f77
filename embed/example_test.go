package embed_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/seed-1415985d/attn/embed"
)

// A server whose requests of one moment are computed together: a vector for the text of each.
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
	requests := make(chan request)
	go func() {
		for first := range requests {
			batch, texts := []request{first}, []string{first.text}
			for wait := time.After(time.Millisecond); len(batch) < 64 && wait != nil; {
				select {
				case r := <-requests:
					batch, texts = append(batch, r), append(texts, r.text)
				case <-wait:
					wait = nil
				}
			}
			vectors, err := m.Encode(texts)
			for i := range batch {
				if err != nil {
					close(batch[i].reply)
					continue
				}
				batch[i].reply <- vectors[i]
			}
		}
	}()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply := make(chan []float32, 1)
		requests <- request{r.FormValue("text"), reply}
		_ = json.NewEncoder(w).Encode(<-reply) // a client that is gone
	}))
	defer server.Close()
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			answer, err := http.Post(server.URL, "application/x-www-form-urlencoded",
				strings.NewReader("text=rain"))
			if err != nil {
				panic(err)
			}
			defer answer.Body.Close()
			var vector []float32
			if err := json.NewDecoder(answer.Body).Decode(&vector); err != nil {
				panic(err)
			}
			fmt.Println(len(vector), "numbers")
		})
	}
	group.Wait()
	// Output:
	// 32 numbers
	// 32 numbers
	// 32 numbers
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
