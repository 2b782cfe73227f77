// Command decoder runs language models (README.md has their kinds) on attn: prompts in batches that
// new ones join while others decode, with a common beginning computed once. It also shows that none
// of this changes a bit of a prompt's logits.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/models/cmd/internal/terminal"
	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// options is the command line.
type options struct {
	settings
	access
	model, size, shared string
	system              string // shared, in a chat
	pack                string // a file of packed matrices
	session             string // a file of a sequence
	draftPath           string // of a second model
	weights             attn.Format
	prompts             []string
	most                int
	sampling
	stops           []string
	chat            bool // prompts are messages
	control         bool // prompts may have control tokens
	prove, accuracy bool
	steps           bool // of numbers of tokens
}

// sizes are random models: one that takes seconds anywhere, and one like published models of half a
// billion weights.
var sizes = map[string]configFile{
	"tiny": {ModelType: "llama", Activation: "silu", Epsilon: 1e-6, Layers: 4, Dim: 256, Heads: 8,
		KVHeads: new(2), FFN: 704, Vocab: 2048},
	"0.5b": {ModelType: "llama", Activation: "silu", Epsilon: 1e-6, Layers: 24, Dim: 896, Heads: 14,
		KVHeads: new(2), FFN: 4864, Vocab: 32000, Tied: true},
}

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// command is the exit code of a run, whose error it prints.
func command(args []string, out, errs io.Writer) int {
	out, errs = terminal.Writer(out), terminal.Writer(errs)
	if err := run(args, out, errs); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(errs, "decoder:", err)
		return 1
	}
	return 0
}

func parse(args []string, help io.Writer) (*options, error) {
	o := &options{weights: asStored}
	f := flag.NewFlagSet("decoder [flags] [PROMPT...]", flag.ContinueOnError)
	f.StringVar(&o.model, "model", "", "`folder` with config.json, model.safetensors and "+
		"tokenizer.json, or a GGUF file; none makes a random model")
	f.StringVar(&o.pack, "pack", "", "`file` of the model's packed matrices, from which it starts at "+
		"once; it is written if it is not there")
	f.StringVar(&o.session, "session", "", "`file` of a text or a conversation, from which the next "+
		"run goes on: what a prompt has in common with it is not computed again, without a prompt all "+
		"of it is the prompt, and at the end it has this run's; it is written if it is not there")
	f.StringVar(&o.draftPath, "draft", "", "`file` or folder of a smaller model with the same "+
		"tokens: it guesses some, which saves steps where it is right, and changes no answer")
	f.IntVar(&o.guesses, "guesses", 4, "tokens that the -draft model guesses at a time")
	f.StringVar(&o.size, "size", "tiny", "of a random model: tiny or 0.5b")
	f.StringVar(&o.shared, "shared", "", "`text` before every prompt, computed once")
	f.BoolVar(&o.chat, "chat", false, "each prompt is a message of a user, after -system as that of "+
		"the system, by the chat template of the model. After one prompt or none each line of the "+
		"standard input is the user's next message. What the model thinks before it answers is written "+
		"to the standard error, if the template knows how the model separates it from the answer")
	f.StringVar(&o.system, "system", "", "`text` of the system in a chat")
	f.BoolVar(&o.control, "control", false, "what is written like a control token in prompts and in "+
		"-shared, as <|im_end|>, is one; it is text otherwise, since it would forge turns and answers")
	f.IntVar(&o.most, "n", 64, "tokens to generate for each prompt")
	f.IntVar(&o.places, "batch", 16, "prompts at a time")
	f.IntVar(&o.chunk, "chunk", 256, "tokens of prompts in a step")
	f.IntVar(&o.context, "context", 1024, "tokens of a prompt and its answer")
	f.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "threads")
	f.Func("cache", "`type` of keys and values: f32, f16, bf16, i8 or i4, or a type of each, as in "+
		"i8,i4 (default f16 for a GGUF file, f32 otherwise)", o.setCache)
	f.Func("weights", "`type` of matrices: f32, f16, bf16, i8, or file as the model's files have them "+
		"(default file)", o.setWeights)
	f.BoolVar(&o.integers, "integers", false, "multiply in 8-bit integers: matrices, which are i8 if "+
		"-weights says nothing, and attention if -cache is i8, i4, or one of each; usual for a GGUF "+
		"file, whose matrices stay as they are, unless -weights says otherwise")
	f.Uint64Var(&o.seed, "seed", 1, "of a random model, and of sampling")
	o.sampling.register(f)
	f.Func("stop", "`text` that ends an answer, without being part of it, nor of a -session; may be "+
		"there several times", o.addStop)
	f.BoolVar(&o.prove, "prove", false, "compare the bits of logits; what a run without model and "+
		"prompts does, too")
	o.access.register(f)
	f.BoolVar(&o.accuracy, "accuracy", false, "compare logits of i8 and of -integers with those of "+
		"f32")
	f.BoolVar(&o.steps, "steps", false, "measure: read numbers of tokens, a line each, take as many "+
		"through the model, and print seconds and the first logits; 0 begins anew")
	err := flags.Parse(f, args, help)
	o.prompts = f.Args()
	if err == nil {
		_, err = flags.Texts("prompt", args, o.prompts)
	}
	if err == nil && o.most < 1 {
		err = fmt.Errorf("-n is %d, want at least 1", o.most)
	}
	if err == nil {
		err = o.settings.check()
	}
	if err == nil {
		err = o.sampling.check()
	}
	if err == nil && o.system != "" && (!o.chat || o.shared != "") {
		err = errors.New("-system wants -chat, and no -shared, which is the same there")
	}
	o.shared += o.system
	if err == nil && o.draftPath != "" && (o.url != "" || o.accuracy || o.steps || o.model == "") {
		err = errors.New("-draft wants a -model, and no -cluster, -accuracy or -steps")
	}
	if err == nil && o.pack != "" && (o.model == "" || o.accuracy) {
		err = errors.New("-pack wants a -model, and no -accuracy, which packs it in several types")
	}
	if err == nil && o.steps && (o.accuracy || o.prove || o.url != "" || len(o.prompts) > 0) {
		err = errors.New("-steps wants no prompts, and no -accuracy, -prove or cluster")
	}
	if err == nil {
		err = o.checkSession()
	}
	for name, path := range map[string]string{"session": o.session, "pack": o.pack} {
		if err == nil && path != "" {
			if _, err = os.Stat(filepath.Dir(path)); err != nil {
				err = fmt.Errorf("the folder of -%s: %w", name, err)
			}
		}
	}
	if err == nil {
		err = o.setUsual(f)
	}
	return o, err
}

func run(args []string, out, help io.Writer) error {
	o, err := parse(args, help)
	if err != nil {
		return err
	}
	if o.url != "" {
		l, err := o.dial(o.context, patience)
		if err != nil {
			return err
		}
		defer l.close()
		l.describe(out)
		o.cluster = l.Client
	}
	if o.accuracy {
		o.describe(out, nil)
		return o.compare(out)
	}
	m, text, err := o.open()
	if err != nil {
		return err
	}
	if err := o.openDraft(m, text); err != nil {
		return err
	}
	go debug.FreeOSMemory() // that of what files were read into
	o.describe(out, m)
	if err := noteBiases(out, m, &o.settings); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d layers of %d, %d heads, %d key/value heads of %d, %d tokens; weights %d "+
		"MiB; kernels %s, %d workers\n\n",
		m.Layers, m.Dim, m.Heads, m.KVHeads, m.HeadDim, m.Vocab, m.memory>>20, attn.Implementation(),
		o.workers)
	if o.steps {
		return steps(os.Stdin, out, m, o.settings)
	}
	if o.model == "" && len(o.prompts) == 0 && o.session == "" {
		o.prove = true
		o.shared = "You are a helpful assistant, and a random one. "
		o.prompts = []string{"The capital of France is", "Two and two are", "Once upon a time"}
	}
	if len(o.prompts) == 0 && !o.prove && !o.chat && o.session == "" {
		return errors.New("no prompt, want at least one as an argument")
	}
	if err := o.answer(out, help, m, text); err != nil || !o.prove {
		return err
	}
	return prove(out, m, o.settings)
}

// describe says what a user might not expect of the answers.
func (o *options) describe(out io.Writer, m *model) {
	if o.model == "" {
		fmt.Fprintf(out, "A random model: its answers mean nothing. -model names the folder or file of "+
			"a real one.\n")
	} else if m != nil && len(m.Stop) == 0 {
		fmt.Fprintf(out, "The model has no eos_token_id: no token ends an answer before its -n, %d.\n",
			o.most)
	}
	if weights.IsGGUF(o.model) && o.weights == asStored && !o.integers && !o.accuracy {
		fmt.Fprintf(out, "Blocks are multiplied as float32: -integers is many times as fast.\n")
	}
}

// open loads the model, or makes one.
func (o *options) open() (*model, codec, error) {
	if o.model == "" {
		return o.random()
	}
	if weights.IsGGUF(o.model) {
		return o.openGGUF()
	}
	l := weights.Of(o.model, o.integers)
	c, names := readConfig(l)
	l.Open()
	defer l.Close()
	if l.Err != nil {
		return nil, nil, l.Err
	}
	idle := idleTensors
	if c.Wrapped {
		names, idle = names.within(l), slices.Concat(idle, idleWrapperTensors)
	}
	vocab := c.Vocab
	tokenizer := tokenize.Beside(l, func(l *weights.Loader) *tokenize.Tokenizer {
		return tokenize.ReadBPE(l, vocab)
	})
	l.UsePack(o.pack, o.matrices())
	c.Context = o.context
	m := newModel(l, &c, names, o.weights)
	l.CheckUsed(idle...)
	text := vocabulary{tokenizer()}
	o.identify(l, m)
	m.Stop = text.Ends(tokenize.Ends{Tokens: m.Stop, All: len(m.Stop) > 1})
	return m, text, l.Err
}

// openGGUF loads the model of a GGUF file.
func (o *options) openGGUF() (*model, codec, error) {
	l := weights.OfGGUF(o.model, o.integers)
	defer l.Close()
	v := tokenize.ReadVocabulary(l)
	tokenizer := tokenize.Beside(l, func(l *weights.Loader) *tokenize.Tokenizer {
		return tokenize.VocabularyBPE(l, v)
	})
	c, names := readMetadata(l, v)
	if l.Err != nil {
		return nil, nil, l.Err
	}
	l.UsePack(o.pack, o.matrices())
	c.Context = o.context
	m := newModel(l, &c, names, o.weights)
	l.CheckUsed(idleTensorsGGUF(&c, names)...)
	text := vocabulary{tokenizer()}
	o.identify(l, m)
	m.Stop = text.Ends(v.Named())
	return m, text, l.Err
}

// random makes a model of chance, and its tokens are numbers.
func (o *options) random() (*model, codec, error) {
	f, ok := sizes[o.size]
	if !ok {
		return nil, nil, fmt.Errorf("-size is %q, want tiny or 0.5b", o.size)
	}
	l := &weights.Loader{Random: weights.Chance(o.seed), Integers: o.integers}
	c, err := f.config()
	l.Check("config.json", err)
	m := newModel(l, &c, &folderNames, o.weights)
	o.identify(l, m)
	return m, numbers(c.Vocab), l.Err
}

// addStop takes a text that ends answers.
func (o *options) addStop(text string) error {
	if text == "" {
		return errors.New("want a text that is not empty")
	}
	o.stops = append(o.stops, text)
	return nil
}

// job answers a prompt, the number-th.
func (o *options) job(text codec, prompt []int, number int) *job {
	j := &job{prompt: prompt, most: o.most, keep: o.session != "",
		words: words{decode: text.Decode, stops: o.stops}}
	j.choose = o.chooser(j, uint64(number))
	if o.chat {
		j.words.opening = opening(text, prompt)
	}
	return j
}

// opening is what a prompt has of the answer.
func opening(text codec, prompt []int) string {
	var all strings.Builder
	for _, token := range prompt {
		all.WriteString(text.Decode(token))
	}
	return text.Template().Opening(all.String())
}

// answer prints answers to prompts, or a conversation.
func (o *options) answer(out, errs io.Writer, m *model, text codec) error {
	if o.chat && (len(o.prompts) == 1 || len(o.prompts) == 0 && !o.prove) {
		return o.converse(os.Stdin, out, errs, m, text)
	}
	return o.generate(out, errs, m, text)
}

// generate continues the prompts, and prints answers in the order of the prompts, each token as
// soon as all before it are printed.
func (o *options) generate(out, errs io.Writer, m *model, text codec) error {
	e, err := newEngine(m, o.settings)
	if err != nil {
		return err
	}
	defer e.close()
	o.noteControl(out, text)
	prompts, err := o.begin(e, text)
	if err != nil {
		return err
	}
	o.noteLong(errs, prompts, m.Trained)
	s := &stream{out: out, errs: errs, prompts: o.prompts}
	if o.chat {
		s.chat = text.Template()
	}
	if len(o.prompts) == 0 {
		s.prompts = []string{"…"}
	}
	for i, prompt := range prompts {
		j := o.job(text, prompt, i)
		if err := e.submit(j); err != nil {
			return fmt.Errorf("prompt %d: %w", i+1, err)
		}
		s.jobs = append(s.jobs, j)
	}
	err = e.run(s.print)
	e.report(out)
	if err == nil && len(s.jobs) > 0 {
		err = o.closeSession(e, s.jobs[0], 0, nil)
	}
	return err
}

// begin returns the tokens of prompts, and computes or reads what they may begin with.
func (o *options) begin(e *engine, text codec) (prompts [][]int, err error) {
	prompts, shared, err := o.tokens(text)
	if err == nil && o.session != "" {
		return o.continued(prompts, e)
	}
	if err == nil && len(shared) > 0 {
		if err = e.share(shared); err != nil {
			err = fmt.Errorf("the shared text: %w", err)
		}
	}
	return prompts, err
}
