package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/sampler"
)

// Exit codes, for every command. timeout(1) and env(1) use the codes from 125, too: they
// tell a failure of ccmapd run from a failure of the program that it ran.
const (
	exitOK         = 0
	exitFailed     = 1
	exitUsage      = 2
	exitPermission = 3 // the kernel or the owner of a process or file refuses
	exitNoTarget   = 4
	exitTooFew     = 5
	exitRunFailed  = 125
	exitCannotRun  = 126
	exitNotFound   = 127
	exitTrapped    = 134 // 128 + SIGABRT, as of wasmtime
)

// exitMeanings says what the exit codes mean, for the help and for the manual pages.
var exitMeanings = []struct {
	code  int
	of    string // the command that alone means it; empty: each does
	means string
}{
	{exitOK, "", "success"},
	{exitFailed, "", "something failed"},
	{exitFailed, "overlap", "a pair is below --min or fails --check"},
	{exitFailed, "pgo check", "less of the profile fits than --min"},
	{exitUsage, "", "wrong usage"},
	{exitPermission, "", "not permitted"},
	{exitNoTarget, "", "no such target or process, or neither a Go program nor a JVM"},
	{exitTooFew, "overlap", "a pair has too few samples for --check"},
	{exitRunFailed, "run", "not started, because ccmapd failed first"},
	{exitCannotRun, "run", "the program cannot be executed"},
	{exitNotFound, "run", "the program was not found"},
	{exitTrapped, "run", "the WebAssembly module trapped"},
}

// exitOfProgram says which code run has otherwise.
const exitOfProgram = `Otherwise, run exits with the code of the program, or with 128 plus the number
of the signal that ended it.`

// exitCodesHelp lists the exit codes of all commands.
func exitCodesHelp() string {
	text := "Exit codes:\n"
	for _, e := range exitMeanings {
		if e.of != "" {
			e.means = e.of + ": " + e.means
		}
		text += fmt.Sprintf("  %-4d %s\n", e.code, e.means)
	}
	return text + exitOfProgram
}

// exitError carries an exit code that no code of package advice has: the one of a program that was
// run, or a result. Without an error it is silent.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// withHint adds a line that says what to do about err. It keeps nil.
func withHint(err error, format string, args ...any) error { return advice.Add(err, format, args...) }

// reasons has the codes of errors in sampling a process here.
var reasons = []advice.Reason{
	{Err: sampler.ErrPermission, Code: advice.CodeNotPermitted},
	{Err: sampler.ErrNoProcess, Code: advice.CodeNoTarget},
	{Err: sampler.ErrNotManaged, Code: advice.CodeNoTarget},
}

// exitCode maps an error to the exit code that stands for it.
func exitCode(err error) int {
	var exit exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exit.code
	}
	if known := advice.Explain(err, reasons); known != nil {
		return known.Code.ExitCode()
	}
	return exitFailed
}

// reportError prints an error for people, what to do about it below. There is
// nothing to print for nil and for a mere exit code.
func reportError(w io.Writer, cmd *cobra.Command, err error) {
	var exit exitError
	if err == nil || errors.As(err, &exit) && exit.err == nil {
		return
	}
	fmt.Fprintf(w, "ccmapd: %s\n", terminal.PrintableError(err))
	if hint, ok := advice.Of(err); ok {
		fmt.Fprintf(w, "  %s\n", terminal.IndentLines(terminal.PrintableLines(hint)))
	} else if advice.CodeOf(err) == advice.CodeCommandLine {
		fmt.Fprintf(w, "  Try '%s --help'.\n", cmd.CommandPath())
	}
}
