package folder

import (
	"github.com/seed-1415985d/attn/safetensors"
	"github.com/seed-1415985d/attn/strictjson"
)

// What has moved to packages that can be imported.
type (
	Idle      = strictjson.Idle
	described = safetensors.Described
)

var (
	AnyKey      = strictjson.AnyKey
	Obey        = strictjson.Obey
	members     = strictjson.Members
	elements    = strictjson.Elements
	isNull      = strictjson.IsNull
	short       = strictjson.Short
	join        = strictjson.Join
	readHeader  = safetensors.ReadHeader
	checkLayout = safetensors.CheckLayout
)
