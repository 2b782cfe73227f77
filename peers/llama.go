package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"

	"github.com/hybridgroup/yzma/pkg/llama"
)

// llamaCpp runs whole models. Its libraries come from an npm package, which has one for each kind
// of x86-64 CPU and chooses among them; they are called without cgo.
type llamaCpp struct{}

const (
	llamaPackage = "@node-llama-cpp/linux-x64"
	llamaVersion = "3.21.1" // of the package
	llamaLibrary = "v0.4.0" // the name of its libraries
)

// llamaFolder returns the folder of the libraries.
func llamaFolder() string {
	return filepath.Join(folder(), "llama", "package", "bins", "linux-x64")
}

func openLlama() (library, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return nil, lacking("its library is taken for linux/amd64 only")
	}
	if _, err := os.Stat(filepath.Join(llamaFolder(), "libllama.so")); err != nil {
		return nil, lacking("its library is not here (-setup gets it)")
	}
	if err := llama.Load(llamaFolder()); err != nil {
		return nil, err
	}
	llama.LogSet(llama.LogSilent())
	llama.Init()
	return llamaCpp{}, nil
}

func (llamaCpp) version() string {
	return fmt.Sprintf("%s of %s %s%s", llamaLibrary, llamaPackage, llamaVersion, llamaKind())
}

// llamaKind returns which of the libraries for kinds of CPUs was loaded.
func llamaKind() string {
	maps, _ := os.ReadFile("/proc/self/maps")
	if kind := regexp.MustCompile(`libggml-cpu-(\w+)\.so`).FindSubmatch(maps); kind != nil {
		return ", for " + string(kind[1])
	}
	return ""
}

func (llamaCpp) prepare(c *Case, in inputs, threads int) (call func() error,
	result func() []float32, err error) {
	if _, _, ok := c.model(); !ok {
		return nil, nil, lacking("it is measured with whole models")
	}
	s, path := &llamaModel{}, c.modelPath(in.dir)
	if s.model, err = llama.ModelLoadFromFile(path, llama.ModelDefaultParams()); err != nil {
		return nil, nil, err
	}
	p := llama.ContextDefaultParams()
	p.NCtx, p.NBatch = uint32(modelContext(c)), uint32(modelContext(c))
	p.NThreads, p.NThreadsBatch = int32(threads), int32(threads)
	if s.context, err = llama.InitFromModel(s.model, p); err != nil {
		return nil, nil, err
	}
	s.vocab = int(llama.VocabNTokens(llama.ModelGetVocab(s.model)))
	if s.memory, err = llama.GetMemory(s.context); err != nil {
		return nil, nil, err
	}
	return modelCalls(c, s)
}

// llamaModel is a model with a sequence.
type llamaModel struct {
	model    llama.Model
	context  llama.Context
	memory   llama.Memory
	vocab    int
	position int
}

func (s *llamaModel) step(n int) ([]float32, error) {
	if n == 0 {
		s.position = 0
		return nil, llama.MemoryClear(s.memory, true)
	}
	tokens := make([]llama.Token, n)
	for i := range tokens {
		tokens[i] = llama.Token(token(s.position+i, s.vocab))
	}
	s.position += n
	if code, err := llama.Decode(s.context, llama.BatchGetOne(tokens)); err != nil || code != 0 {
		return nil, fmt.Errorf("llama_decode returns %d (%w)", code, err)
	}
	logits, err := llama.GetLogitsIth(s.context, -1, s.vocab) // it waits for the end
	if err != nil {
		return nil, err
	}
	return append([]float32(nil), logits[:someLogits]...), nil
}

func (s *llamaModel) Close() error {
	if err := llama.Free(s.context); err != nil {
		return err
	}
	return llama.ModelFree(s.model)
}

// setupLlama downloads the package for Node.js.
func setupLlama(say io.Writer) error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(llamaFolder(), "libllama.so")); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(folder(), "llama"), 0o755); err != nil {
		return err
	}
	if err := command(say, "npm", "pack", "--silent", llamaPackage+"@"+llamaVersion); err != nil {
		return err
	}
	packed := "node-llama-cpp-linux-x64-" + llamaVersion + ".tgz"
	if err := command(say, "tar", "-xzf", packed, "-C", "llama"); err != nil {
		return err
	}
	os.Remove(filepath.Join(folder(), packed))
	for _, name := range []string{"libggml", "libllama"} { // the names by which they are loaded
		if err := os.Symlink(name+"."+llamaLibrary+".so",
			filepath.Join(llamaFolder(), name+".so")); err != nil {
			return err
		}
	}
	return nil
}
