package flags

import (
	"runtime/debug"
	"testing"
)

func TestBuilt(t *testing.T) {
	const path = "example.org/package"
	info := debug.BuildInfo{
		Main: debug.Module{Path: "example.org/attn", Version: "v1.2.3"},
		Deps: []*debug.Module{{Path: "other", Version: "v1"},
			{Path: path, Version: "v0.0.0", Replace: &debug.Module{Path: "../../.."}}},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123abcd"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
			{Key: "vcs.modified", Value: "true"}},
	}
	for got, want := range map[string]string{
		moduleText(&info.Main):                     "example.org/attn v1.2.3",
		moduleText(&debug.Module{}):                "unknown",
		dependencyText(new(debug.BuildInfo), path): "unknown",
		dependencyText(&info, path):                path + " v0.0.0 => ../../..",
		revision(info.Settings):                    "0123abcd of 2026-01-02T03:04:05Z, modified",
		revision(info.Settings[:1]):                "0123abcd",
		revision(nil):                              "unknown: built without version control",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
