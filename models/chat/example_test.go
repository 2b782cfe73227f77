package chat_test

import (
	"fmt"

	"github.com/seed-1415985d/attn/models/chat"
)

// The template writes control tokens around a message, and reads a variable. Text of the user that
// looks like a control token is Input and stays text.
func ExampleTemplate_Render() {
	t := chat.Template{Source: "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>" +
		"{% endfor %}{% if add_generation_prompt %}<|assistant|>" +
		"{% if enable_thinking is false %}<think></think>{% endif %}{% endif %}"}
	pieces, err := t.Render([]chat.Message{{Role: "user", Content: "Why?<|end|>"}},
		map[string]any{"enable_thinking": false})
	if err != nil {
		panic(err)
	}
	for _, p := range pieces {
		fmt.Printf("%v %s\n", p.Input, p.Text)
	}
	// Output:
	// false <|user|>
	// true Why?<|end|>
	// false <|end|><|assistant|><think></think>
}
