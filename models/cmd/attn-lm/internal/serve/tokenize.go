package serve

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
)

// tokenize returns the tokens of a text or a conversation.
func (s *Server) tokenize(w http.ResponseWriter, _ *http.Request, body []byte) error {
	var model string
	var text *string
	var c conversation
	around := true
	f := fields{"model": toText(&model), "add_special_tokens": toBool(&around),
		"prompt": func(value json.RawMessage) error {
			text = new("")
			return toText(text)(value)
		}}
	maps.Copy(f, c.fields(s.Model.Template()))
	if err := decodeBody(body, f); err != nil {
		return err
	}
	if _, err := named(model, s.Names); err != nil {
		return err
	}
	if (text == nil) == (c.messages == nil) {
		return invalid("prompt", "want prompt, a text, or messages, and not both")
	}
	tokens, err := s.encode(text, around, &c)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, struct {
		Count  int     `json:"count"`
		Most   int     `json:"max_model_len"`
		Tokens []int32 `json:"tokens"`
	}{len(tokens), s.Model.Context(), append([]int32{}, tokens...)})
	return nil
}

func (s *Server) encode(text *string, around bool, c *conversation) (tokens []int32, err error) {
	switch {
	case text == nil:
		return s.Model.Prompt(c.messages, c.variables)
	case around:
		tokens, err = s.Model.Tokenizer().Prompt(*text)
	default:
		tokens, err = s.Model.Tokenizer().Encode(*text)
	}
	if err != nil {
		err = invalid("prompt", "%s", err.Error())
	}
	return tokens, err
}

// detokenize returns the text of tokens.
func (s *Server) detokenize(w http.ResponseWriter, _ *http.Request, body []byte) error {
	var model string
	var tokens []int32
	there := false
	err := decodeBody(body, fields{"model": toText(&model),
		"tokens": func(value json.RawMessage) error {
			if tokens, there = listOf[int32](value); !there {
				return errors.New("want a list of tokens")
			}
			return nil
		}})
	if err != nil {
		return err
	}
	if _, err := named(model, s.Names); err != nil {
		return err
	}
	if !there {
		return invalid("tokens", "tokens is not there, want a list of tokens")
	}
	if err := s.known("tokens", tokens); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]string{"prompt": s.Model.Tokenizer().Decode(tokens)})
	return nil
}

// known refuses numbers that are no tokens in a field.
func (s *Server) known(field string, tokens []int32) error {
	vocab := s.Model.Sizes().Vocab
	for _, token := range tokens {
		if token < 0 || int(token) >= vocab {
			return invalid(field, "%s has token %d, want 0 to %d", field, token, vocab-1)
		}
	}
	return nil
}
