package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/seed-1415985d/attn"
)

const versionAbout = `attn version

Shows what this program was built from: the versions of the command and of the package,
the revision in version control, the Go version, and the implementation that it uses here.

`

const packagePath = "github.com/seed-1415985d/attn"

func versionCommand(args []string, stdout, stderr io.Writer) error {
	if err := parse(newFlags("version", versionAbout), args, stdout); err != nil {
		return err
	}
	info := new(debug.BuildInfo)
	if known, ok := debug.ReadBuildInfo(); ok {
		info = known
	}
	for _, line := range []struct{ name, value string }{
		{"command", moduleVersion(&info.Main)},
		{"package", packageVersion(info)},
		{"revision", revision(info.Settings)},
		{"Go", fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)},
		{"implementation", attn.Implementation()},
	} {
		fmt.Fprintf(stdout, "%-15s %s\n", line.name, line.value)
	}
	return nil
}

// moduleVersion is a module's path and version, and what stands for it if it is replaced.
func moduleVersion(m *debug.Module) string {
	if m == nil || m.Path == "" {
		return "unknown"
	}
	text := strings.TrimSpace(m.Path + " " + m.Version)
	if m.Replace != nil {
		text += " => " + strings.TrimSpace(m.Replace.Path+" "+m.Replace.Version)
	}
	return text
}

// packageVersion is the version of package attn, which is a module of its own.
func packageVersion(info *debug.BuildInfo) string {
	for _, m := range info.Deps {
		if m.Path == packagePath {
			return moduleVersion(m)
		}
	}
	return "unknown"
}

// revision is what the go command noted about version control.
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
