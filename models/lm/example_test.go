package lm_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"math"
	"strings"
	"sync"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/chat"
	"github.com/seed-1415985d/attn/models/lm"
)

// open makes a small random model, so that the examples run anywhere. lm.Open("model.gguf",
// lm.Options{}) opens a real one.
func open() *lm.Model {
	m, err := lm.Random(lm.Sizes{Layers: 2, Hidden: 64, FFN: 96, Seed: 7}, lm.Options{Context: 256})
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// Answer a prompt, and print it as it comes.
func ExampleModel_Complete() {
	m := open()
	defer m.Close()
	answer := m.Complete(context.Background(), "Once upon a time", lm.Generation{MaxTokens: 5})
	tokens := 0
	for token, err := range answer {
		if err != nil {
			log.Fatal(err)
		}
		// fmt.Print(token.Text)
		if tokens++; token.End != lm.NotEnded {
			fmt.Println(tokens, token.End)
		}
	}
	// Output: 5 Length
}

// Hold a conversation of two turns. The second prompt begins with the first and its answer, which
// are not computed again.
func ExampleModel_Chat() {
	m := open()
	defer m.Close()
	messages := []chat.Message{{Role: "system", Content: "Be brief."}}
	for _, question := range []string{"Who wrote Faust?", "When?"} {
		messages = append(messages, chat.Message{Role: "user", Content: question})
		var said strings.Builder
		for token, err := range m.Chat(context.Background(), messages, lm.Generation{MaxTokens: 8}) {
			if err != nil {
				log.Fatal(err)
			}
			said.WriteString(token.Text)
		}
		messages = append(messages, chat.Message{Role: "assistant", Content: said.String()})
	}
	fmt.Println(len(messages), "messages")
	// Output: 5 messages
}

// Keep a sequence, save it, and continue it in another session.
func ExampleSession() {
	m := open()
	defer m.Close()
	ctx := context.Background()
	prompt, err := m.Tokenizer().Prompt("A long text")
	if err != nil {
		log.Fatal(err)
	}
	s, err := m.NewSession()
	if err == nil {
		_, err = s.Append(ctx, prompt...)
	}
	var file bytes.Buffer
	if err == nil {
		_, err = s.Save(&file)
	}
	if err != nil {
		log.Fatal(err)
	}
	later, err := m.NewSession()
	if err == nil {
		_, err = later.Load(&file)
	}
	if err != nil {
		log.Fatal(err)
	}
	for _, err := range m.Generate(ctx, nil, lm.Generation{MaxTokens: 4, Session: later}) {
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(s.Len(), later.Len())
	// Output: 11 15
}

// Answer many prompts at the same time: they share steps, and each answer is the same as alone.
func ExampleModel_Generate() {
	m := open()
	defer m.Close()
	answers := make([]string, 8)
	var wait sync.WaitGroup
	for i := range answers {
		wait.Go(func() {
			g := lm.Generation{MaxTokens: 6, Sampling: lm.Sampling{Temperature: 0.8, Seed: 5}}
			for token, err := range m.Generate(context.Background(), []int32{'h', 'i'}, g) {
				if err != nil {
					log.Print(err)
					return
				}
				answers[i] += token.Text
			}
		})
	}
	wait.Wait()
	same := true
	for _, answer := range answers {
		same = same && answer == answers[0]
	}
	fmt.Println(same)
	// Output: true
}

// Allow digits only, by a hook that forbids all other tokens.
func ExampleGeneration_logits() {
	m := open()
	defer m.Close()
	t := m.Tokenizer()
	g := lm.Generation{MaxTokens: 6, Logits: func(_ []int32, logits []float32) error {
		for token := range logits {
			text := t.Bytes(int32(token)) // real models have tokens of several digits
			if text == "" || strings.Trim(text, "0123456789") != "" {
				logits[token] = float32(math.Inf(-1))
			}
		}
		return nil
	}}
	digits := 0
	for token, err := range m.Complete(context.Background(), "The year is ", g) {
		if err != nil {
			log.Fatal(err)
		}
		digits += len(token.Text)
	}
	fmt.Println(digits, "digits")
	// Output: 6 digits
}

// Compute the perplexity of a text: how surprised the model is by its tokens.
func ExampleSession_Score() {
	m := open()
	defer m.Close()
	text, err := m.Tokenizer().Prompt("The quick brown fox")
	if err != nil {
		log.Fatal(err)
	}
	s, err := m.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	sum, n := 0.0, 0
	err = s.Score(context.Background(), text, func(i int, logits []float32) error {
		sum += float64(logits[text[i]] - attn.LogSumExp(logits))
		n++
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, math.Exp(-sum/float64(n)) > 1)
	// Output: 18 true
}
