// Package built says what a program was built from, as its commands print it.
package built

import (
	"runtime/debug"
	"strings"
)

// Info is what the go command noted, nothing if it did not.
func Info() *debug.BuildInfo {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info
	}
	return new(debug.BuildInfo)
}

// Module is a module's path and version, and what stands for it if it is replaced.
func Module(m *debug.Module) string {
	if m == nil || m.Path == "" {
		return "unknown"
	}
	text := strings.TrimSpace(m.Path + " " + m.Version)
	if m.Replace != nil {
		text += " => " + strings.TrimSpace(m.Replace.Path+" "+m.Replace.Version)
	}
	return text
}

// Dependency is Module for the one of a path.
func Dependency(info *debug.BuildInfo, path string) string {
	for _, m := range info.Deps {
		if m.Path == path {
			return Module(m)
		}
	}
	return "unknown"
}

// Revision is what the go command noted about version control.
func Revision(settings []debug.BuildSetting) string {
	noted := map[string]string{}
	for _, s := range settings {
		noted[s.Key] = s.Value
	}
	id := noted["vcs.revision"]
	if id == "" {
		return "unknown: built without version control"
	}
	if when := noted["vcs.time"]; when != "" {
		id += " of " + when
	}
	if noted["vcs.modified"] == "true" {
		id += ", modified"
	}
	return id
}
