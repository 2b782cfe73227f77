package lm

import (
	"fmt"
	"slices"

	"github.com/seed-1415985d/attn/internal/strictjson"
)

// idleGeneral are keys under "general." without effect: names, origin and authors of a file, and
// how to draw tokens, which the caller decides.
var idleGeneral = strictjson.Idle{
	"type": {`"model"`}, "quantization_version": {"2"}, "alignment": nil, "file_type": nil,
	"name": nil, "basename": nil, "author": nil, "version": nil, "organization": nil,
	"finetune": nil, "description": nil, "quantized_by": nil, "size_label": nil, "license": nil,
	"license.*": nil, "url": nil, "doi": nil, "uuid": nil, "repo_url": nil, "hf_repo": nil,
	"source.*": nil, "base_model.*": nil, "dataset.*": nil, "tags": nil, "languages": nil,
	"datasets": nil, "sampling.*": nil, "parameter_count": nil,
}

// idleArchitecture are keys without effect under the architecture's name. A key with a list is
// without effect with the listed values only.
var idleArchitecture = strictjson.Idle{
	"tensor_data_layout": {`"Meta AI original pth"`},
	"attention.causal":   {"true"}, "use_parallel_residual": {"false"},
	"pooling_type":       {"0"},
	"expert_group_count": {"0", "1"}, "expert_group_used_count": {"0", "1"},
	"rope.scaling.yarn_ext_factor": {"1"}, "rope.scaling.yarn_attn_factor": {"1"},
}

// idleElsewhere are keys of other groups: how programs made the file.
var idleElsewhere = strictjson.Idle{"quantize.imatrix.*": nil, "mradermacher.*": nil}

// idleTensorsGGUF are tensors without effect on a model: angles, which are computed here, and
// layers that guess further tokens.
func idleTensorsGGUF(c *config, names *tensorNames) []string {
	idle := []string{"blk.*.attn_rot_embd", "blk.*.attn_rot_embd.weight"}
	return slices.Concat(idle, c.furtherLayers(names), c.unreadKeys(names))
}

// furtherLayers returns patterns of the tensors of layers for further tokens, if they are not used.
func (c *config) furtherLayers(names *tensorNames, others ...string) (patterns []string) {
	if c.Guesses > 0 {
		return nil
	}
	for i := range c.Further {
		patterns = append(patterns, fmt.Sprintf(names.layer, c.Layers+i)+"*")
	}
	return append(patterns, others...)
}
