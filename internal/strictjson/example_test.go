package strictjson_test

import (
	"fmt"

	"github.com/seed-1415985d/attn/internal/strictjson"
)

// A program decodes the keys that it uses and lists those that change nothing. A key that a model's
// config.json gets later is then an error instead of a wrong answer.
func Example() {
	var config struct {
		Layers int     `json:"num_hidden_layers"`
		Theta  float64 `json:"rope_theta"`
	}
	idle := strictjson.Idle{
		"torch_dtype": nil,       // changes nothing, whatever its value
		"use_mrope":   {"false"}, // asks for something else if it is true
	}
	fmt.Println(strictjson.Unmarshal([]byte(`{"num_hidden_layers": 28, "rope_theta": 1e6,
		"torch_dtype": "bfloat16", "use_mrope": false}`), &config, idle))
	fmt.Println(config.Layers, config.Theta)
	fmt.Println(strictjson.Unmarshal([]byte(`{"use_mrope": true}`), &config, idle))
	fmt.Println(strictjson.Unmarshal([]byte(`{"logit_scale": 0.5}`), &config, idle))
	// Output:
	// <nil>
	// 28 1e+06
	// use_mrope is true, want false or null
	// key "logit_scale" is 0.5, want only keys that are known here
}
