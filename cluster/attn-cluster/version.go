package main

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/dev/built"
)

const versionAbout = `attn-cluster version

Shows what this program was built from: the versions of the command, which is that of package
cluster, of package attn and of NATS, the revision in version control, the Go version, and the
implementation of attention that it uses here.

`

func versionCommand(_ context.Context, args []string, stdout, _ io.Writer) error {
	if err := parse(newFlags(versionAbout), args, stdout); err != nil {
		return err
	}
	info := built.Info()
	for _, line := range []struct{ name, value string }{
		{"command", built.Module(&info.Main)},
		{"package", built.Dependency(info, "github.com/seed-1415985d/attn")},
		{"NATS server", built.Dependency(info, "github.com/nats-io/nats-server/v2")},
		{"NATS client", built.Dependency(info, "github.com/nats-io/nats.go")},
		{"revision", built.Revision(info.Settings)},
		{"Go", fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)},
		{"implementation", attn.Implementation()},
	} {
		fmt.Fprintf(stdout, "%-15s %s\n", line.name, line.value)
	}
	return nil
}
