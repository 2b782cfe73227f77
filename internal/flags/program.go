package flags

import (
	"cmp"
	"fmt"
	"io"
)

// A Program has several commands; its first argument names one.
type Program struct {
	Name     string
	Usage    string // text of help: what the program does, and its commands
	Commands map[string]Command
}

// A Command runs with the arguments after its name.
type Command func(args []string, stdout, stderr io.Writer) error

// options are what people try instead of a command.
var options = map[string]string{
	"-h": "help", "-help": "help", "--help": "help",
	"-version": "version", "--version": "version",
}

// Run runs the command that the first argument names; help is one of them. where names the program
// or command with the error. Without arguments it prints the usage to stderr.
func (p *Program) Run(args []string, stdout, stderr io.Writer) (where string, err error) {
	if len(args) == 0 {
		fmt.Fprint(stderr, p.Usage)
		return p.Name, Errorf("no command, want one of these")
	}
	name := cmp.Or(options[args[0]], args[0])
	if name == "help" {
		return p.Name + " help", p.help(args[1:], stdout, stderr)
	}
	run, err := p.command(name)
	if err != nil {
		return p.Name, err
	}
	return p.Name + " " + name, run(args[1:], stdout, stderr)
}

func (p *Program) command(name string) (Command, error) {
	run, ok := p.Commands[name]
	if !ok {
		return nil, Errorf("unknown command %q; %s help lists them", name, p.Name)
	}
	return run, nil
}

// help lists the commands, or the flags of one.
func (p *Program) help(args []string, stdout, stderr io.Writer) error {
	switch {
	case len(args) > 1:
		return Errorf("unexpected argument %q", args[1])
	case len(args) == 0 || args[0] == "help" || options[args[0]] == "help":
		_, err := fmt.Fprint(stdout, p.Usage)
		return err
	}
	run, err := p.command(args[0])
	if err != nil {
		return err
	}
	return run([]string{"-h"}, stdout, stderr)
}
