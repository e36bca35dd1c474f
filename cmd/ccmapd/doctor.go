package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/usage"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

const doctorLong = `Doctor finds out which engines can sample a process, or ccmapd itself, and why others
cannot. It asks the kernel for everything that sampling depends on, and tries each
engine on the process for 200 ms. Each check shows what was asked and the answer. Where
the answer is not as wanted, one command cures it.

Exit code 0 says that an engine works, 3 that none is permitted, 4 that there is no such
process or that it is not a Go program.

With --json: checks [{name, ok, found, wanted, cure}], engines [{name, permitted,
features, samples, reason, cure}], auto [the engine that --engine auto takes].`

const doctorExample = `  ccmapd doctor                      which engines are permitted here
  ccmapd doctor 4242                 … for process 4242
  ccmapd doctor 4242 --json | jq -r '.engines[] | select(.permitted | not) | .cure'`

func newDoctorCmd(env *environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "doctor [PID]",
		Short:             "Find out which engines can sample a process, and why not",
		Long:              doctorLong,
		Example:           doctorExample,
		GroupID:           groupSample,
		Args:              argCount(0, 1, "at most one process id"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			pid := 0
			if len(args) == 1 {
				var err error
				if pid, err = strconv.Atoi(args[0]); err != nil || pid <= 0 {
					return withHint(usage.Errorf("%q is not a process id", args[0]), "'pgrep -l NAME' finds it.")
				}
			}
			r := engine.Diagnose(cmd.Context(), env.engines, pid)
			if asJSON {
				return errors.Join(terminal.WriteJSON(env.stdout, r), codeOf(r.Err))
			}
			return printReport(env.stdout, r, env.wide)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// codeOf gives an error the exit code of doctor: where no engine works, any reason but the
// target itself is a lack of permission.
func codeOf(err error) error {
	if err == nil {
		return nil
	}
	code := exitPermission
	if exitCode(err) == exitNoTarget {
		code = exitNoTarget
	}
	return exitError{code, err}
}

// printReport prints the checks, the engines, and the choice. Without a choice it returns the
// reason.
func printReport(w io.Writer, r engine.Report, wide bool) error {
	p := terminal.NewPrinter(w, wide)
	for _, c := range r.Checks {
		p.Line("%s %s: %s", mark(c.OK), c.Name, c.Found)
		if !c.OK {
			p.Line("     wanted: %s", c.Wanted)
			printCure(p, c.Cure)
		}
	}
	for _, d := range r.Engines {
		p.Line("%s engine %s: %s", mark(d.Permitted), d.Engine, summary(d))
		printCure(p, d.Cure)
	}
	if r.Auto != "" {
		p.Line("'--engine auto' takes %s.", r.Auto)
	}
	if err := p.Err(); err != nil {
		return err
	}
	return codeOf(r.Err)
}

func printCure(p *terminal.Printer, cure string) {
	if cure != "" {
		p.Line("     cure: %s", cure)
	}
}

func mark(ok bool) string {
	if ok {
		return "ok  "
	}
	return "no  "
}

// summary says in one line why an engine cannot sample, or how well it can.
func summary(d engine.Diagnosis) string {
	if !d.Permitted {
		return d.Reason
	}
	took := fmt.Sprintf("permitted, and took %s", figure.Plural(int64(d.Samples), "sample"))
	if len(d.Features) == 0 {
		return took
	}
	return took + ", with " + strings.Join(d.Features, ", ")
}
