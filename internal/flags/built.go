package flags

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
)

// A Dependency is a module that a program was built with.
type Dependency struct{ Name, Path string }

// PrintBuilt prints what this program was built from, and the implementation of attention that it
// uses.
func PrintBuilt(to io.Writer, dependencies []Dependency, implementation string) {
	info, _ := debug.ReadBuildInfo()
	info = cmp.Or(info, new(debug.BuildInfo))
	line := func(name, value string) { fmt.Fprintf(to, "%-15s %s\n", name, value) }
	line("command", moduleText(&info.Main))
	for _, d := range dependencies {
		line(d.Name, dependencyText(info, d.Path))
	}
	line("revision", revision(info.Settings))
	line("Go", fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH))
	line("implementation", implementation)
}

// moduleText returns a module's path and version, and its replacement, if any.
func moduleText(m *debug.Module) string {
	if m == nil || m.Path == "" {
		return "unknown"
	}
	text := strings.TrimSpace(m.Path + " " + m.Version)
	if m.Replace != nil {
		text += " => " + strings.TrimSpace(m.Replace.Path+" "+m.Replace.Version)
	}
	return text
}

// dependencyText is moduleText for the module with a path.
func dependencyText(info *debug.BuildInfo, path string) string {
	for _, m := range info.Deps {
		if m.Path == path {
			return moduleText(m)
		}
	}
	return "unknown"
}

// revision returns what the go command recorded about version control.
func revision(settings []debug.BuildSetting) string {
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
