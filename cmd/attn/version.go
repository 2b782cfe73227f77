package main

import (
	"io"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/flags"
)

const versionAbout = `attn version

Shows what this program was built from: the versions of the command and of the package,
the revision in version control, the Go version, and the implementation that it uses here.

`

const packagePath = "github.com/seed-1415985d/attn"

func versionCommand(args []string, stdout, stderr io.Writer) error {
	if err := flags.ParseAll(flags.New(versionAbout), args, stdout); err != nil {
		return err
	}
	flags.PrintBuilt(stdout, []flags.Dependency{{Name: "package", Path: packagePath}},
		attn.Implementation())
	return nil
}
