package lm

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// architecture says what a kind of model computes differently from others, and which names its
// files use. This description is all that the package knows of a kind.
type architecture struct {
	kind string // model_type of config.json; "" where there are no such folders
	// model_type of folders that have the model in text_config, next to a model for images; "" for
	// none
	wrapper string

	gguf   string       // general.architecture of GGUF files
	folder *tensorNames // tensors' names in folders,
	file   *tensorNames // and in GGUF files
	// defaults of config.json, a new value for each model
	usual func() configFile

	activation  nn.Activation
	pairs       bool // GGUF files have channels of queries and keys that rotate together as neighbours
	folderPairs bool // folders, too
	qkvBias     bool // folders have biases of queries, keys and values
	biasKey     bool // attention_bias says whether queries, keys, values and output have biases
	plainOut    bool // the output has no bias
	outBiasKey  bool // attention_out_bias says whether the output has one
	ffnBiasKey  bool // mlp_bias says whether the feed-forward network has biases
	allBiasKey  bool // use_bias says whether all these matrices have biases
	qkNorm      bool // queries and keys are normed, head by head
	wideNorm    bool // all heads of queries, and of keys, are one row of that norm
	normsAfter  bool // also the outputs of attention and of the feed-forward network
	onlyAfter   bool // these instead of their inputs
	lessOne     bool // folders keep the weights of norms less 1
	embeddings  bool // embeddings are multiplied by √Dim
	queryScalar bool // query_pre_attn_scalar says how scores are scaled
	largest     int  // layers of the model whose scores a GGUF file scales by 1/√(Dim/Heads)

	window     windowRule
	period     int     // the last of each period layers has no window; 0: see window
	localTheta float64 // base of the rotations of layers with a window; 0: as in all layers
	localPlain bool    // the scaling of rotations does not concern layers with a window
	localOnly  bool    // if there are such layers, the others have no rotations

	scoreCap float64 // defaults of GGUF files; -1 where the model has none
	logitCap float64

	longRotation bool // rotations are stretched by factors for short and for long texts
	ungated      bool // networks have no gate
	centered     bool // norms subtract the mean and have biases
	parallel     bool // keys of Cohere: attention and network read the same rows, norms have no biases
	betweenPairs bool // the ramp of yarn begins and ends between pairs in GGUF files
	ownMagnitude bool // GGUF files have the whole magnitude of yarn, not a factor of the usual one
	partial      bool // a part of each head's channels may be rotated
	queryScale   bool // queries are multiplied by a number that grows with the position
	unrotated    int  // the last of each so many layers has no rotation; 0 for none
	mixture      mixtureKind
	multipliers  bool    // of embeddings, attention, sums and logits
	hybrid       bool    // keys and names of Granite 4
	least        float64 // added to the sum of sigmoids that divides them
	ernieExperts bool    // folders have keys of ERNIE for experts, which experts.Floor is for
	sharedWidth  bool    // shared_intermediate_size is the width of a network that all tokens use
	glmExperts   bool    // folders have keys of GLM for these, and for norms of queries and keys
	allExperts   bool    // folders cannot say which layers have none, or how they are weighted
	states       bool    // some layers keep states, and attention of the others is gated
	shortConvs   bool    // some layers have a short convolution in place of attention
	sinks        bool    // one for each head
	limit, alpha float64 // of the clamped gate; 0 for activation
	byLayer      bool    // keys and layers of Gemma 4: see byLayer
}

// windowRule says which layers sliding_window in config.json concerns.
type windowRule int

const (
	noWindow       windowRule = iota // none: it must be null
	windowOfAll                      // all layers
	windowOfLast                     // layers from max_window_layers on, if use_sliding_window
	windowOfPeriod                   // all but each period's last
)

// mixtureKind says how a kind's experts work.
type mixtureKind int

const (
	noExperts      mixtureKind = iota
	sharedExperts              // and a shared one; weights are the router's softmax over all
	manyExperts                // weights add up to 1 in GGUF files; folders have norm_topk_prob
	biasedExperts              // with biases; in MXFP4 in folders
	wideExperts                // of the width that networks have elsewhere
	addedExperts               // and a shared one, all of whose outputs are added
	sigmoidExperts             // weights are sigmoids; biases that choose are not part of them
	besideExperts              // in addition to the network
)

const geluTanh = "gelu_pytorch_tanh"

// architectures are the known kinds of models.
var architectures = []architecture{
	{kind: "llama", gguf: "llama", folder: &folderNames,
		file: &ggufNames, activation: nn.SiLU, pairs: true, biasKey: true, ffnBiasKey: true,
		scoreCap: -1, logitCap: -1,
		usual: func() configFile {
			return configFile{Epsilon: 1e-6, Stop: weights.OneOrMore{2}}
		}},
	{kind: "arcee", gguf: "arcee", folder: &folderNames, file: &ggufNames, activation: nn.ReLU,
		pairs: true, biasKey: true, ffnBiasKey: true, ungated: true, scoreCap: -1, logitCap: -1,
		usual: func() configFile {
			return configFile{Epsilon: 1e-5, Stop: weights.OneOrMore{128001}}
		}},
	{gguf: "exaone", file: &ggufNames, activation: nn.SiLU, scoreCap: -1, logitCap: -1},
	{gguf: "internlm2", file: &ggufNames, activation: nn.SiLU, pairs: true, scoreCap: -1,
		logitCap: -1},
	{kind: "mistral", wrapper: "mistral3", folder: &folderNames, activation: nn.SiLU,
		window: windowOfAll, scoreCap: -1, logitCap: -1,
		usual: func() configFile {
			return configFile{Epsilon: 1e-6, Stop: weights.OneOrMore{2}, KVHeads: new(8),
				Window: new(4096)}
		}},
	{kind: "ministral3", wrapper: "mistral3", gguf: "mistral3", folder: &folderNames,
		file: &ggufNames, activation: nn.SiLU, pairs: true, window: windowOfAll, queryScale: true,
		scoreCap: -1, logitCap: -1,
		usual: func() configFile {
			return configFile{Epsilon: 1e-5, Stop: weights.OneOrMore{2}, KVHeads: new(8),
				HeadDim: new(128), Positions: new(262144.0), usualRope: &scaling{Type: "yarn", Theta: new(1e6),
					Factor: 16, Original: 16384, Fast: 32, Slow: 1, Scale: new(1.0), ScaleOfAll: new(1.0),
					QueryScale: new(0.1)}}
		}},
	{kind: "mixtral", gguf: "llama", folder: &mixtralNames, file: &ggufMoENames, activation: nn.SiLU,
		pairs: true, window: windowOfAll, scoreCap: -1, logitCap: -1, mixture: wideExperts,
		usual: func() configFile {
			return configFile{Epsilon: 1e-5, Stop: weights.OneOrMore{2}, KVHeads: new(8),
				LocalExperts: new(8), Used: new(2), usualTheta: 1e6}
		}},
	{kind: "qwen2", gguf: "qwen2", folder: &folderNames,
		file: &ggufNames, activation: nn.SiLU, qkvBias: true, window: windowOfLast, scoreCap: -1,
		logitCap: -1, usual: func() configFile { return usualQwen(nil) }},
	{kind: "qwen3", gguf: "qwen3", folder: &folderNames,
		file: &ggufNames, activation: nn.SiLU, biasKey: true, qkNorm: true, window: windowOfLast,
		scoreCap: -1, logitCap: -1, usual: func() configFile { return usualQwen(new(128)) }},
	{kind: "gemma2", gguf: "gemma2", folder: &gemmaNames,
		file: &ggufGemmaNames, activation: nn.GELUTanh, biasKey: true, normsAfter: true,
		lessOne: true, embeddings: true, queryScalar: true, largest: 46, period: 2,
		window: windowOfPeriod, scoreCap: 50, logitCap: 30,
		usual: func() configFile {
			return configFile{Epsilon: 1e-6, Stop: weights.OneOrMore{1}, KVHeads: new(4),
				HeadDim: new(256), Tied: true, Window: new(4096), ScoreCap: new(50.0),
				LogitCap: new(30.0), QueryScalar: new(256.0)}
		}},
	{kind: "gemma3_text", gguf: "gemma3", wrapper: "gemma3", folder: &gemmaNames,
		file: &ggufGemmaNames, activation: nn.GELUTanh, biasKey: true, qkNorm: true,
		normsAfter: true, lessOne: true, embeddings: true, queryScalar: true, largest: 62, period: 6,
		window: windowOfPeriod, localTheta: 10000,
		usual: func() configFile {
			return configFile{Epsilon: 1e-6, Stop: weights.OneOrMore{1}, KVHeads: new(4),
				HeadDim: new(256), Heads: 8, Vocab: 262208, Tied: true, Window: new(4096),
				QueryScalar: new(256.0),
				usualTheta:  1e6}
		}},
	{kind: "gemma4_text", gguf: "gemma4", wrapper: "gemma4", folder: &gemma4Names,
		file: &ggufGemma4Names, activation: nn.GELUTanh, biasKey: true, qkNorm: true,
		normsAfter: true, embeddings: true, period: 6, window: windowOfPeriod, scoreCap: -1,
		localTheta: 10000, byLayer: true,
		usual: func() configFile {
			return configFile{Epsilon: 1e-6, Stop: weights.OneOrMore{1}, KVHeads: new(4),
				HeadDim: new(256), Heads: 8, Vocab: 262144, Tied: true, Window: new(512),
				Inputs: new(256), FullHeadDim: new(512), usualTheta: 1e6, usualRope: &scaling{
					Full:    &scaling{Type: proportional, Theta: new(1e6), Rotated: new(0.25)},
					Sliding: &scaling{Type: "default", Theta: new(10000.0)}}}
		}},
	{kind: "gemma4_text", gguf: "gemma4", folder: &gemma4MoENames, file: &ggufGemma4MoENames,
		activation: nn.GELUTanh, biasKey: true, qkNorm: true, normsAfter: true, embeddings: true,
		period: 6, window: windowOfPeriod, scoreCap: -1, localTheta: 10000, byLayer: true,
		mixture: besideExperts},
	{kind: "phi3", gguf: "phi3", folder: &phiNames, file: &ggufPhiNames,
		activation: nn.SiLU, window: windowOfAll, scoreCap: -1, logitCap: -1, longRotation: true,
		partial: true,
		usual: func() configFile {
			return configFile{Epsilon: 1e-5, Stop: weights.OneOrMore{32000}, Original: new(4096.0)}
		}},
	{kind: "qwen2_moe", gguf: "qwen2moe", folder: &qwenMoENames,
		file: &ggufMoENames, activation: nn.SiLU, qkvBias: true, scoreCap: -1, logitCap: -1,
		mixture: sharedExperts,
		usual: func() configFile {
			f := usualQwen(nil)
			f.KVHeads, f.Experts, f.Used, f.ExpertFFN = new(16), new(60), new(4), new(1408)
			f.SharedFFN = new(5632)
			return f
		}},
	{kind: "qwen3_moe", gguf: "qwen3moe", folder: &qwenMoENames,
		file: &ggufMoENames, activation: nn.SiLU, biasKey: true, qkNorm: true, scoreCap: -1,
		logitCap: -1, mixture: manyExperts,
		usual: func() configFile {
			f := usualQwen(nil)
			f.KVHeads, f.Experts, f.Used, f.ExpertFFN = new(4), new(128), new(8), new(768)
			return f
		}},
	{kind: "gpt_oss", gguf: "gpt-oss", folder: &gptOSSNames,
		file: &ggufGPTOSSNames, activation: nn.SiLU, biasKey: true, period: 2, window: windowOfPeriod,
		scoreCap: -1, logitCap: -1, mixture: biasedExperts, sinks: true, limit: 7, alpha: 1.702,
		betweenPairs: true,
		usual: func() configFile {
			return configFile{Epsilon: 1e-5, AttentionBias: true, KVHeads: new(8), HeadDim: new(64),
				Window: new(128), LocalExperts: new(128), Used: new(4), usualTheta: 150000,
				Scaling: &scaling{Type: "yarn", Factor: 32, Fast: 32, Slow: 1, Original: 4096,
					Truncate: new(false)}}
		}},
	{kind: "qwen3_next", gguf: "qwen3next", folder: &qwenNextNames,
		file: &ggufQwenNextNames, activation: nn.SiLU, biasKey: true, qkNorm: true, lessOne: true,
		scoreCap: -1, logitCap: -1, mixture: sharedExperts, partial: true, states: true,
		usual: func() configFile {
			f := usualStates()
			f.KVHeads, f.Experts, f.Used, f.ExpertFFN = new(2), new(512), new(10), new(512)
			f.SharedFFN, f.Normalized = new(512), new(true)
			return f
		}},
	{kind: "qwen3_5_text", gguf: "qwen35", wrapper: "qwen3_5", folder: &qwen35Names,
		file: &ggufQwen35Names, activation: nn.SiLU, biasKey: true, qkNorm: true, lessOne: true,
		scoreCap: -1, logitCap: -1, partial: true, states: true,
		usual: func() configFile {
			f := usualStates()
			f.KVHeads = new(4)
			return f
		}},
	{kind: "qwen3_5_moe_text", gguf: "qwen35moe",
		wrapper: "qwen3_5_moe",
		folder:  &qwen35MoENames, file: &ggufQwen35MoENames, activation: nn.SiLU, biasKey: true,
		qkNorm: true, lessOne: true, scoreCap: -1, logitCap: -1, mixture: sharedExperts,
		allExperts: true, partial: true, states: true,
		usual: func() configFile {
			f := usualStates()
			f.KVHeads, f.Experts, f.Used, f.ExpertFFN = new(2), new(256), new(8), new(512)
			f.SharedFFN, f.Normalized = new(512), new(true)
			f.FFN = 512 // of layers without experts, of which there are none
			return f
		}},
	{kind: "olmo2", gguf: "olmo2", folder: &olmoNames, file: &ggufOlmoNames, activation: nn.SiLU,
		biasKey: true, qkNorm: true, wideNorm: true, normsAfter: true, onlyAfter: true, period: 4,
		localPlain: true, ownMagnitude: true, scoreCap: -1, logitCap: -1,
		usual: func() configFile { return usualOlmo(nil) }},
	{kind: "olmo3", folder: &olmoNames, activation: nn.SiLU, biasKey: true, qkNorm: true,
		wideNorm: true, normsAfter: true, onlyAfter: true, period: 4, window: windowOfPeriod,
		localPlain: true, scoreCap: -1, logitCap: -1,
		usual: func() configFile { return usualOlmo(new(4096)) }},
	{kind: "exaone4", gguf: "exaone4", folder: &olmoNames, file: &ggufExaoneNames,
		activation: nn.SiLU, qkNorm: true, normsAfter: true, onlyAfter: true, period: 4,
		window: windowOfPeriod, localOnly: true, scoreCap: -1, logitCap: -1,
		usual: func() configFile {
			return configFile{Epsilon: 1e-5, Stop: weights.OneOrMore{2}, KVHeads: new(32),
				Window: new(4096)}
		}},
	{kind: "smollm3", gguf: "smollm3", folder: &folderNames, file: &ggufNames, activation: nn.SiLU,
		pairs: true, biasKey: true, ffnBiasKey: true, unrotated: 4, scoreCap: -1, logitCap: -1,
		usual: func() configFile {
			return configFile{Epsilon: 1e-6, Stop: weights.OneOrMore{128001}, KVHeads: new(4), Tied: true,
				UseWindow: new(false), usualTheta: 2e6}
		}},
	{kind: "starcoder2", gguf: "starcoder2", folder: &starCoderNames, file: &ggufNames,
		activation: nn.GELUTanh, window: windowOfAll, allBiasKey: true, ungated: true, centered: true,
		scoreCap: -1, logitCap: -1,
		usual: func() configFile {
			return configFile{NormEpsilon: new(1e-5), Stop: weights.OneOrMore{50256}, KVHeads: new(2),
				Tied: true, AllBias: new(true)}
		}},
	{kind: "seed_oss", gguf: "seed_oss", folder: &folderNames, file: &ggufSeedNames,
		activation: nn.SiLU, biasKey: true, outBiasKey: true, ffnBiasKey: true, scoreCap: -1,
		logitCap: -1,
		usual: func() configFile {
			return configFile{Epsilon: 1e-6, Stop: weights.OneOrMore{2}, KVHeads: new(8),
				HeadDim: new(128), AttentionBias: true}
		}},
	{kind: "ernie4_5", gguf: "ernie4_5", folder: &folderNames, file: &ggufNames, activation: nn.SiLU,
		pairs: true, folderPairs: true, allBiasKey: true, scoreCap: -1, logitCap: -1,
		usual: func() configFile {
			return configFile{Epsilon: 1e-5, Stop: weights.OneOrMore{2}, KVHeads: new(2),
				HeadDim: new(128), Tied: true, usualTheta: 5e5}
		}},
	{kind: "ernie4_5_moe", gguf: "ernie4_5-moe", folder: &ernieMoENames, file: &ggufErnieMoENames,
		activation: nn.SiLU, pairs: true, folderPairs: true, mixture: sigmoidExperts, ernieExperts: true,
		scoreCap: -1, logitCap: -1,
		usual: func() configFile {
			return configFile{Epsilon: 1e-5, Stop: weights.OneOrMore{2}, KVHeads: new(4), Tied: true,
				usualTheta: 5e5, MoEExperts: new(64), MoEUsed: new(6), MoEShared: new(2), MoEFirst: new(1),
				ExpertFFN: new(1536)}
		}},
	{kind: "cohere2", gguf: "cohere2", folder: &cohereNames, file: &ggufCohereNames,
		activation: nn.SiLU, pairs: true, folderPairs: true, biasKey: true, period: 4,
		window: windowOfPeriod, localOnly: true, centered: true, parallel: true, scoreCap: -1,
		logitCap: -1,
		usual: func() configFile {
			return configFile{LayerEpsilon: new(1e-5), Stop: weights.OneOrMore{255001}, Tied: true,
				Window: new(4096), LogitScale: new(0.0625)}
		}},
	{kind: "glm4", gguf: "glm4", folder: &glm4Names, file: &ggufGLM4Names, activation: nn.SiLU,
		pairs: true, folderPairs: true, biasKey: true, plainOut: true, normsAfter: true, partial: true,
		scoreCap: -1, logitCap: -1,
		usual: func() configFile {
			return configFile{Epsilon: 1.5625e-7, Stop: weights.OneOrMore{151329, 151336, 151338},
				KVHeads: new(2), HeadDim: new(128), Rotated: new(0.5), AttentionBias: true}
		}},
	{kind: "granite", gguf: "granite", folder: &folderNames, file: &ggufNames, activation: nn.SiLU,
		pairs: true, biasKey: true, ffnBiasKey: true, multipliers: true, scoreCap: -1, logitCap: -1,
		usual: usualGranite},
	{kind: "granitemoe", gguf: "granitemoe", folder: &graniteMoENames, file: &ggufGraniteMoENames,
		activation: nn.SiLU, pairs: true, biasKey: true, multipliers: true, mixture: addedExperts,
		scoreCap: -1, logitCap: -1,
		usual: func() configFile {
			f := usualGranite()
			f.LocalExperts, f.Used = new(8), new(2)
			return f
		}},
	{kind: "granitemoeshared", folder: &graniteMoENames, activation: nn.SiLU, biasKey: true,
		multipliers: true, sharedWidth: true, mixture: addedExperts, scoreCap: -1, logitCap: -1,
		usual: func() configFile {
			f := usualGranite()
			f.LocalExperts, f.Used, f.SharedWidth = new(8), new(2), new(1024)
			return f
		}},
	{kind: "granitemoehybrid", gguf: "granitehybrid", folder: &graniteHybridNames,
		file: &ggufGraniteHybridNames, activation: nn.SiLU, pairs: true, biasKey: true,
		multipliers: true, hybrid: true, scoreCap: -1, logitCap: -1,
		usual: func() configFile {
			f := usualGranite()
			f.SharedWidth, f.LocalExperts, f.Used = new(1024), new(8), new(2)
			f.MambaHeads, f.MambaGroups, f.MambaState = new(128), new(1), new(256)
			f.MambaConv, f.MambaExpand, f.MambaBias = new(4), new(2), new(true)
			return f
		}},
	{kind: "granitemoehybrid", gguf: "granitehybrid", folder: &graniteMoENames,
		file: &ggufGraniteMoENames, activation: nn.SiLU, pairs: true, biasKey: true,
		multipliers: true, hybrid: true, mixture: addedExperts, scoreCap: -1, logitCap: -1},
	{kind: "lfm2", gguf: "lfm2", folder: &lfm2Names, file: &ggufLFM2Names, activation: nn.SiLU,
		qkNorm: true, shortConvs: true, scoreCap: -1, logitCap: -1,
		usual: func() configFile {
			f := usualLFM2()
			f.Adjusted, f.Multiplier, f.Multiple = new(true), new(1.0), new(256)
			return f
		}},
	{kind: "lfm2_moe", gguf: "lfm2moe", folder: &lfm2MoENames, file: &ggufLFM2MoENames,
		activation: nn.SiLU, qkNorm: true, shortConvs: true, mixture: sigmoidExperts, least: 1e-6,
		scoreCap: -1, logitCap: -1,
		usual: func() configFile {
			f := usualLFM2()
			f.ExpertFFN, f.Used, f.Experts, f.FirstOnes = new(1792), new(4), new(32), new(2)
			return f
		}},
	{kind: "glm4_moe", gguf: "glm4moe", folder: &glmMoENames, file: &ggufGLMMoENames,
		activation: nn.SiLU, biasKey: true, plainOut: true, partial: true, mixture: sigmoidExperts,
		glmExperts: true, least: 1e-20, scoreCap: -1, logitCap: -1,
		usual: func() configFile {
			return configFile{Epsilon: 1e-5, KVHeads: new(8), Rotated: new(0.5), ExpertFFN: new(1408),
				Used: new(8), Routed: new(128), SharedCount: new(1), FirstDense: new(1)}
		}},
}

// usualGranite has the defaults of folders of Granite.
func usualGranite() configFile {
	return configFile{Epsilon: 1e-6, Stop: weights.OneOrMore{2}, EmbeddingMul: new(1.0),
		LogitsDivisor: new(1.0), ResidualMul: new(1.0), AttentionMul: new(1.0)}
}

// usualLFM2 has the defaults of folders of LFM2.
func usualLFM2() configFile {
	return configFile{Epsilon: 1e-5, Stop: weights.OneOrMore{2}, KVHeads: new(8), Tied: true,
		ShortWidth: new(3), usualTheta: 1e6}
}

// usualOlmo has the defaults of folders of Olmo 2 and 3.
func usualOlmo(window *int) configFile {
	return configFile{Epsilon: 1e-5, Stop: weights.OneOrMore{50279}, Window: window}
}

// usualQwen has the defaults of folders of Qwen 2 and 3.
func usualQwen(head *int) configFile {
	return configFile{Epsilon: 1e-6, KVHeads: new(32), HeadDim: head, UseWindow: new(false),
		Window: new(4096), FullLayers: 28}
}

// usualStates has the defaults of folders of kinds with states.
func usualStates() configFile {
	return configFile{Epsilon: 1e-6, HeadDim: new(256), Rotated: new(0.25), Interval: new(4),
		ConvWidth: new(4), StateKeyDim: new(128), StateValueDim: new(128), StateKeyHeads: new(16),
		StateHeads: new(32)}
}

// activationNames are the names of activations in config.json. ReLU is squared where it is used.
var activationNames = map[nn.Activation]string{nn.SiLU: "silu", nn.GELUTanh: geluTanh,
	nn.ReLU: "relu2"}

// architectureOf finds a kind by one of the names that the functions return. key is the file's key
// for errors, which list all names.
func architectureOf(key, value string, names ...func(*architecture) string) (*architecture,
	error) {
	var all []string
	for i := range architectures {
		for _, name := range names {
			n := name(&architectures[i])
			if n != "" && n == value {
				return &architectures[i], nil // the one without experts, if there are two
			}
			if n != "" && !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
	}
	last := len(all) - 1
	return nil, fmt.Errorf("%s is %q, want %s or %s", key, value, strings.Join(all[:last], ", "),
		all[last])
}

// withExperts returns the kind that has experts of two with the same name in GGUF files, or in
// folders.
func (a *architecture) withExperts(name func(*architecture) string) *architecture {
	for i := range architectures {
		if b := &architectures[i]; name(b) == name(a) && b.mixture != noExperts {
			return b
		}
	}
	return a
}

// withText returns the kind of a model for texts next to one for images, of those with the same
// wrapper.
func (a *architecture) withText(kind string) *architecture {
	for i := range architectures {
		if b := &architectures[i]; b.wrapper == a.wrapper && b.kind == kind {
			return b
		}
	}
	return a
}

func (a *architecture) kindName() string    { return a.kind }
func (a *architecture) wrapperName() string { return a.wrapper }
func (a *architecture) ggufName() string    { return a.gguf }

// apply sets what a kind computes, for folders and for GGUF files.
func (a *architecture) apply(c *config) {
	c.Activation, c.QKNorm, c.NormsAfter = a.activation, a.qkNorm, a.normsAfter
	c.WideNorm, c.OnlyAfter, c.Ungated = a.wideNorm, a.onlyAfter, a.ungated
	c.Centered, c.Unbiased = a.centered, a.parallel
	c.Sinks, c.Limit, c.Alpha = a.sinks, float32(a.limit), float32(a.alpha)
	c.Experts.Biased = a.mixture == biasedExperts
	c.Gated, c.Experts.Beside = a.states, a.mixture == besideExperts
	if a.byLayer {
		c.ScoreScale, c.ValueNorm = 1, true
	}
	if a.embeddings {
		c.EmbeddingScale = float32(math.Sqrt(float64(c.Dim)))
	}
}
