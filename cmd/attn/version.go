package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/dev/built"
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
	info := built.Info()
	for _, line := range []struct{ name, value string }{
		{"command", built.Module(&info.Main)},
		{"package", built.Dependency(info, packagePath)},
		{"revision", built.Revision(info.Settings)},
		{"Go", fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)},
		{"implementation", attn.Implementation()},
	} {
		fmt.Fprintf(stdout, "%-15s %s\n", line.name, line.value)
	}
	return nil
}
