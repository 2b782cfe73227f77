package main

import (
	"context"
	"io"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/flags"
)

const versionAbout = `attn-cluster version

Shows what this program was built from: the versions of the command, which is that of package
cluster, of package attn and of NATS, the revision in version control, the Go version, and the
implementation of attention that it uses here.

`

func versionCommand(_ context.Context, args []string, stdout, _ io.Writer) error {
	if err := flags.ParseAll(flags.New(versionAbout), args, stdout); err != nil {
		return err
	}
	flags.PrintBuilt(stdout, []flags.Dependency{
		{Name: "package", Path: "github.com/seed-1415985d/attn"},
		{Name: "NATS server", Path: "github.com/nats-io/nats-server/v2"},
		{Name: "NATS client", Path: "github.com/nats-io/nats.go"},
	}, attn.Implementation())
	return nil
}
