package tokenize

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn/internal/strictjson"
)

// mostStages bounds the normalizers of a file, and the stages of each other kind: all published
// files have fewer, and each costs time for each text.
const mostStages = 64

// stageKinds are the types of one kind of stage. The value of a type is what a stage is decoded
// into, with defaults.
type stageKinds[T any] struct {
	what  string // the kind
	inner string // the key of a Sequence's stages
	types map[string]func() T
}

// read returns a stage, the stages of a Sequence, or none for null.
func (k *stageKinds[T]) read(data []byte) (all []T, err error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	kind := typeOf(data)
	if kind == "Sequence" {
		all, err = k.sequence(data)
	} else if create, ok := k.types[kind]; ok {
		stage := create()
		all, err = []T{stage}, strictjson.Unmarshal(data, stage, strictjson.Idle{"type": nil})
		if p, ok := any(stage).(interface{ prepare() error }); ok && err == nil {
			err = p.prepare() // which refuses what is not supported
		}
	} else {
		return nil, fmt.Errorf("the %s is of type %q, want a Sequence or one of %s", k.what, kind,
			strings.Join(slices.Sorted(maps.Keys(k.types)), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", k.what, kind, err)
	}
	return all, nil
}

func (k *stageKinds[T]) sequence(data []byte) (all []T, err error) {
	err = strictjson.Members(data, func(key string, value json.RawMessage) error {
		if key != k.inner {
			return strictjson.Idle{"type": nil}.Check(key, value)
		}
		var list []json.RawMessage
		err := json.Unmarshal(value, &list)
		for i := 0; i < len(list) && err == nil; i++ {
			if string(list[i]) == "null" {
				return fmt.Errorf("stage %d is null, want an object", i)
			}
			var more []T
			more, err = k.read(list[i])
			if all = append(all, more...); err == nil && len(all) > mostStages {
				err = fmt.Errorf("more than %d stages, want no more", mostStages)
			}
		}
		return err
	})
	return all, err
}

// typeOf returns the type of an object.
func typeOf(data []byte) string {
	var typed struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(data, &typed) // the decoder of the rest returns the error
	return typed.Type
}
