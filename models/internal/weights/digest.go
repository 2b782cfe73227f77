package weights

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tokenizerFiles are the files of a folder that define its tokenizer.
var tokenizerFiles = []string{"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
	"added_tokens.json", "generation_config.json", "vocab.txt", "chat_template.jinja"}

// Digest writes everything in a model's files that its tokens depend on, and tensors, the result of
// [Loader.Tensors].
func Digest(to io.Writer, path, tensors string) (err error) {
	l := &Loader{Path: path}
	if IsGGUF(path) {
		l.tensors = map[string]*stored{}
		l.openGGUF()
	} else {
		l.Open()
	}
	defer l.Close()
	if l.Err != nil {
		return l.Err
	}
	if err = l.digestTokens(to); err == nil && tensors == "" {
		tensors, err = l.digestTensors()
	}
	fmt.Fprintln(to, tensors)
	return err
}

// Tensors returns a sum of each tensor's name, type, shape and bytes, in the order of their names,
// if a file of packed matrices has it, otherwise "".
func (l *Loader) Tensors() string {
	if l.pack == nil || l.pack.saved == nil {
		return ""
	}
	for _, name := range l.pack.saved.Names() {
		if strings.HasPrefix(name, digested) {
			return name
		}
	}
	return ""
}

// digested is the prefix of a sum of tensors.
const digested = "tensors "

func (l *Loader) digestTensors() (string, error) {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(l.tensors)) {
		t := l.tensors[name]
		data, err := t.Bytes()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "tensor %q %s %v %d\n", name, t.encoding.name, t.shape, len(data))
		_, _ = sum.Write(data) // cannot fail
		t.Release()
	}
	return fmt.Sprintf("%s%x", digested, sum.Sum(nil)), nil
}

// digestTokens writes what a file's metadata, or a folder's files, say of tokens.
func (l *Loader) digestTokens(to io.Writer) error {
	if l.metadata != nil {
		for _, kv := range l.metadata.Metadata {
			if !strings.HasPrefix(kv.Key, "tokenizer.") {
				continue
			}
			fmt.Fprintf(to, "%q %#v\n", kv.Key, kv.Value)
		}
		return nil
	}
	for _, name := range tokenizerFiles {
		if !l.Exists(name) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(l.Path, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(to, "%q %d\n", name, len(data))
		if _, err := to.Write(data); err != nil {
			return err
		}
	}
	return nil
}
