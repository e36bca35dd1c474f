package main

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

const doctorLong = `Doctor finds out which engines can sample a process, or ccmapd itself, and why others
cannot. It asks the kernel for everything that sampling depends on, and tries each
engine on the process for 200 ms, and its own profiler for a second. In a JVM it starts a
recording for that, and stops it: the report says so. Each check shows what was asked and
the answer. Where the answer is not as wanted, one command cures it.

@ and @PID ask the daemon, whose rights may be others; so do unix:SOCKET#PID and
https://HOST/v1/doctor?pid=PID. Any other URL is a program that serves its own
profiles, by pprof or of VMs that it hosts: doctor takes one, and says what such
profiles lack.

Exit code 0 says that an engine works, 3 that none is permitted, 4 that there is no such
process or server, or that it is neither a Go program nor a JVM.

With --json: checks [{name, ok, found, wanted, cure}], engines [{name, permitted,
features, samples, found, reason, cure, note}], auto [the engine that --engine auto
takes], and code and reason if there is none.`

const doctorExample = `  ccmapd doctor                      which engines are permitted here
  ccmapd doctor 4242                 … for process 4242
  ccmapd doctor @4242                … for the daemon
  ccmapd doctor http://web:6060/debug/pprof
  ccmapd doctor 4242 --json | jq -r '.engines[] | select(.permitted | not) | .cure'`

func newDoctorCmd(env *environment) subcommand {
	var asJSON bool
	var server serverFlags
	cmd := &cobra.Command{
		Use:               "doctor [PID|@PID|URL]",
		Short:             "Find out which engines can sample a process, and why not",
		Long:              doctorLong,
		Example:           doctorExample,
		GroupID:           groupSample,
		Args:              argCount(0, 1, "at most one process id or URL"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := reportOn(cmd, env, args, server)
			switch {
			case err != nil:
				return err
			case asJSON:
				return errors.Join(terminal.WriteJSON(env.stdout, r), failureOf(r))
			}
			return printReport(env.stdout, r, env.wide)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	server.register(cmd)
	return subcommand{cmd, attaching(client.IsRemote)}
}

// reportOn makes the report that the arguments of doctor ask for.
func reportOn(cmd *cobra.Command, env *environment, args []string, server serverFlags) (engine.Report, error) {
	if len(args) == 1 && client.IsRemote(args[0]) {
		return diagnoseRemote(cmd, args[0], server)
	}
	if err := server.refuse(cmd); err != nil {
		return engine.Report{}, err
	}
	pid := 0
	if len(args) == 1 {
		var err error
		if pid, err = strconv.Atoi(args[0]); err != nil || pid <= 0 {
			return engine.Report{}, withHint(usage.Errorf("%q is not a process id", args[0]), "'pgrep -l NAME' finds it.")
		}
	}
	return engine.Diagnose(cmd.Context(), env.engines, engine.Patient{PID: pid}), nil
}

// failureOf returns why no engine works, with the exit code of doctor.
func failureOf(r engine.Report) error {
	if r.Code == "" {
		return nil
	}
	err := r.Err
	if err == nil {
		err = errors.New(r.Reason) // another ccmapd has made the report
	}
	return &advice.Error{Code: advice.Code(r.Code), Err: err}
}
