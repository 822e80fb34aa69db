// Package command has the flags, the exit statuses and the output that all programs of the benchmark have in common.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit statuses other than 0.
const (
	StatusFailed      = 1   // a verdict failed, the machine stalled, or there was an error
	StatusUsage       = 2   // invalid flags
	StatusInterrupted = 130 // as shells report SIGINT
)

// Program is a program with its command line, and with the context and the streams that its commands use.
type Program struct {
	Name    string
	Grammar any           // what kong parses: a pointer to a Command, or to a struct of commands
	Kong    []kong.Option // such as the description

	Context        context.Context
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Main runs the program with the arguments, the streams and the signals of the process, and ends the process.
func (p Program) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	p.Context, p.Stdin, p.Stdout, p.Stderr = ctx, os.Stdin, os.Stdout, os.Stderr
	os.Exit(p.Run(os.Args[1:]))
}

// Run runs the program and returns its exit status.
func (p *Program) Run(arguments []string) int {
	command, err := p.Parse(arguments)
	if err == nil && command != nil {
		err = command.Run(p)
	}
	var status StatusError
	var misuse misuseError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &misuse):
		fmt.Fprintf(p.Stderr, "%s: %v\nRun it with -h for flags and examples.\n", p.Name, err)
		return StatusUsage
	}
	fmt.Fprintf(p.Stderr, "%s: %v\n", p.Name, err)
	return StatusFailed
}

// StatusError ends the program with an exit status and without a message.
type StatusError int

func (s StatusError) Error() string { return fmt.Sprintf("status %d", int(s)) }

// Misuse wraps an error in the command line. For such an error, Run refers to -h and returns StatusUsage.
func Misuse(err error) error { return misuseError{err} }

type misuseError struct{ error }
