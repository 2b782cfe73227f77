package tokenize

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

const (
	specialTokensJSON = "special_tokens_map.json"
	addedTokensJSON   = "added_tokens.json"
)

// namedTokens are the tokens that tokenizer_config.json and special_tokens_map.json name by their
// purpose. They are found in texts.
type namedTokens struct {
	Start   specialToken  `json:"bos_token"`
	Stop    specialToken  `json:"eos_token"`
	Unknown specialToken  `json:"unk_token"`
	Begin   specialToken  `json:"cls_token"`
	End     specialToken  `json:"sep_token"`
	Mask    specialToken  `json:"mask_token"`
	Pad     specialToken  `json:"pad_token"`
	More    specialTokens `json:"additional_special_tokens"`
	Newer   specialTokens `json:"extra_special_tokens"`
	ofModel []named       // under keys of some models: boi_token, image_token
}

// named is a token with the key that names it.
type named struct {
	key   string
	token *specialToken
}

// single returns the tokens of keys for one token.
func (n *namedTokens) single() []named {
	return []named{{"bos_token", &n.Start}, {"eos_token", &n.Stop}, {"unk_token", &n.Unknown},
		{"cls_token", &n.Begin}, {"sep_token", &n.End}, {"mask_token", &n.Mask}, {"pad_token", &n.Pad}}
}

// all returns all named tokens.
func (n *namedTokens) all() []named {
	list := n.single()
	for i := range n.More {
		list = append(list, named{"additional_special_tokens", &n.More[i]})
	}
	for i := range n.Newer {
		list = append(list, named{"extra_special_tokens", &n.Newer[i]})
	}
	list = append(list, n.ofModel...)
	return slices.DeleteFunc(list, func(n named) bool { return n.token.Content == "" })
}

// ofImages reports whether a key of some models names a token.
func (n *namedTokens) ofImages(text string) bool {
	return slices.ContainsFunc(n.ofModel, func(of named) bool { return of.token.Content == text })
}

// findOfModel finds tokens that a file names by keys of some models, such as boi_token for the
// beginning of an image, and returns idle with these keys.
func (n *namedTokens) findOfModel(l *weights.Loader, file string,
	idle strictjson.Idle) strictjson.Idle {
	var all map[string]json.RawMessage
	l.OptionalJSON(file, &all, nil)
	known := maps.Clone(idle)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		var token specialToken
		isField := slices.ContainsFunc(n.single(), func(s named) bool { return s.key == key })
		if strings.HasSuffix(key, "_token") && !isField && json.Unmarshal(all[key], &token) == nil {
			n.ofModel = append(n.ofModel, named{key, &token})
			known[key] = nil
		}
	}
	return known
}

// specialToken is a string, or an object that describes it.
type specialToken struct {
	configToken
	described bool
	inMap     bool // named by special_tokens_map.json
	usual     bool // a default, named by no file
}

func (t *specialToken) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &t.Content) == nil {
		return nil
	}
	t.described = true
	return strictjson.Unmarshal(data, &t.configToken,
		strictjson.Idle{"__type": {`"AddedToken"`}, "id": nil})
}

// file returns the file that names the token.
func (t *specialToken) file() string {
	if t.inMap {
		return specialTokensJSON
	}
	return tokenizerConfigJSON
}

// sameOptions reports whether two tokens are found in the same places of texts.
func (t configToken) sameOptions(u configToken) bool {
	t.Content, t.Special, u.Content, u.Special = "", false, "", false
	return t == u
}

// specialTokens is a list, or in newer files an object with a name for each token.
type specialTokens []specialToken

func (t *specialTokens) UnmarshalJSON(data []byte) error {
	var byName map[string]specialToken
	if json.Unmarshal(data, &byName) != nil {
		return json.Unmarshal(data, (*[]specialToken)(t))
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		*t = append(*t, byName[name])
	}
	return nil
}

// specialTokensMap adds the tokens that only special_tokens_map.json has. It must agree with
// tokenizer_config.json: the file that counts has changed between versions of transformers.
func specialTokensMap(l *weights.Loader, n *namedTokens) {
	var more namedTokens
	l.OptionalJSON(specialTokensJSON, &more, more.findOfModel(l, specialTokensJSON, strictjson.Idle{}))
	for _, t := range more.all() {
		t.token.inMap = true
	}
	for i, t := range n.single() {
		said, also := t.token, more.single()[i].token
		switch {
		case also.Content == "":
		case said.Content == "" || said.Content == also.Content && !said.described:
			*said = *also
		case said.Content != also.Content || also.described && !said.sameOptions(also.configToken):
			l.Check(specialTokensJSON, fmt.Errorf("%s is %q with %s, want %q with %s as %s has it", t.key,
				also.Content, also.options(), said.Content, said.options(), tokenizerConfigJSON))
		}
	}
	n.More, n.Newer = append(n.More, more.More...), append(n.Newer, more.Newer...)
	n.ofModel = append(n.ofModel, more.ofModel...)
}

// options returns a token's options for an error.
func (t configToken) options() string {
	return fmt.Sprintf("single_word %v, lstrip %v, rstrip %v and normalized %v", t.SingleWord, t.Left,
		t.Right, t.Normalized)
}

// addedTokens replaces added tokens by those of tokenizer_config.json with the same number, and
// adds tokens of the vocabulary that files name, as transformers does.
func addedTokens(l *weights.Loader, c *tokenizerConfig, added []addedToken,
	vocab map[string]int) []addedToken {
	for id, a := range c.Added {
		added = slices.DeleteFunc(added, func(b addedToken) bool { return b.ID == id })
		added = append(added, a.numbered(id))
	}
	for _, n := range c.all() {
		at := find(added, n.token.Content)
		if at >= 0 {
			l.Check(n.token.file(), n.agrees(&added[at]))
		} else if id, ok := vocab[n.token.Content]; ok {
			at, added = len(added), append(added, n.token.numbered(id))
		}
		if at >= 0 {
			added[at].control, added[at].Special = true, true
		}
	}
	checkAddedTokens(l, added)
	slices.SortFunc(added, func(a, b addedToken) int { return a.ID - b.ID })
	return added
}

// find returns the index of the token with a text, −1 for none.
func find(tokens []addedToken, content string) int {
	return slices.IndexFunc(tokens, func(a addedToken) bool { return a.Content == content })
}

// agrees refuses options that differ from the added token's.
func (n *named) agrees(a *addedToken) error {
	b := configToken{a.Content, a.SingleWord, a.Left, a.Right, a.Normalized, a.Special}
	if !n.token.described || n.token.sameOptions(b) {
		return nil
	}
	return fmt.Errorf("%s is %q with %s, want %s as added token %d has them, or the text alone", n.key,
		a.Content, n.token.options(), b.options(), a.ID)
}

// checkAddedTokens refuses tokens of added_tokens.json, which is older than tokenizer.json, that no
// other file adds, or that another file adds under another number.
func checkAddedTokens(l *weights.Loader, added []addedToken) {
	var numbers map[string]int
	l.OptionalJSON(addedTokensJSON, &numbers, nil)
	for _, content := range slices.Sorted(maps.Keys(numbers)) {
		at, id := find(added, content), numbers[content]
		if at < 0 {
			l.Check(addedTokensJSON, fmt.Errorf("it has token %q as %d, want only those that "+
				"tokenizer.json or %s adds", content, id, tokenizerConfigJSON))
		} else if added[at].ID != id {
			l.Check(addedTokensJSON, fmt.Errorf("token %q is %d, want %d as elsewhere", content, id,
				added[at].ID))
		}
	}
}
