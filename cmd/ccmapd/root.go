package main

import (
	"io"
	"math"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/livepage"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/kallsyms"
	"github.com/ccmapd/ccmapd/internal/pages"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/web"
)

// environment connects a command with the outside world: tests give it buffers.
type environment struct {
	stdin   io.Reader
	stdout  io.Writer       // results only; newRoot puts a guard before it
	stderr  io.Writer       // progress, reports of run, errors; likewise
	engines []engine.Engine // for processes, best first
	wide    bool            // names are printed whole
	profile io.Writer       // standard output, if a session writes its profile there
	memory  readMemory
	reader  client.Reader // of profiles; newRoot gives it standard input

	kernel *kallsyms.Table // names of the kernel's functions; nil: they were not asked for

	shell func() (*pages.Shell, error) // the pages for browsers; newRoot sets it
	page  *livepage.Process            // shows the session; nil: none does

	process *privilege.Process // holds the capabilities that a command may drop; nil: they stay
}

const rootLong = `ccmapd samples the stacks of programs and keeps their Call Context Map: what is
hot, from where, and in which context. To a running Go program or JVM it attaches from
outside; a WebAssembly module it runs, and samples it from inside. Neither needs a
change, nor the running program a restart, an import or an agent.`

// docsHelp says where the pages are that the help of commands names.
const docsHelp = `Pages named docs/… are part of the source: https://github.com/ccmapd/ccmapd`

const rootExample = `  ccmapd demo                                  try it on a workload of its own
  ccmapd attach 4242                           sample process 4242 until Ctrl-C
  ccmapd attach 4242 -d 30s -o web.pb.gz       … for 30 s, into one file
  ccmapd run -- ./server -addr :8080           start a program and sample it
  ccmapd run app.wasm input.txt                run a WebAssembly module and sample it
  ccmapd top web.pb.gz                         its hottest methods
  ccmapd contexts web.pb.gz 'runtime.mallocgc' who calls a method, and from where
  go tool pprof -http=: web.pb.gz              the same profile in pprof`

// newRoot returns the command tree in an environment. The questions about
// profiles are commands; each other one has a file of its own.
func newRoot(env *environment) *cobra.Command {
	env.reader.Stdin, env.reader.Stored = env.stdin, storedHere{env}
	env.reader.Hub = new(hubHere(os.Getenv))
	env.shell = func() (*pages.Shell, error) { return pages.NewShell(web.Files(), web.Policy) }
	env.stdout, env.stderr = terminal.Guarded(env.stdout), terminal.Guarded(env.stderr)
	rightsOf := make(map[*cobra.Command]rights)
	root := &cobra.Command{
		Use:     "ccmapd",
		Short:   "A call-context profiler for running Go programs, JVMs and WebAssembly modules",
		Long:    rootLong + "\n\n" + exitCodesHelp() + "\n\n" + docsHelp,
		Example: rootExample,
		Version: buildVersion(),

		SilenceErrors: true, // run prints them
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
		// Cobra checks required flags later than this, and then in words of its own.
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			if err := usage.CheckRequired(cmd); err != nil {
				return err
			}
			if err := env.nameKernel(cmd); err != nil {
				return err
			}
			if needed := rightsOf[cmd]; needed != nil {
				return needed(env, cmd, args)
			}
			return filesAlone(env, cmd, args) // help, completion
		},
	}
	root.SetVersionTemplate("ccmapd {{.Version}}\n")
	root.Flags().Bool("version", false, "print the version; 'ccmapd version' says more") // cobra would take -v, too
	root.PersistentFlags().BoolVar(&env.wide, "wide", false, "print names of methods and types whole, however wide tables get")
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	root.SetFlagErrorFunc(usage.ExplainFlag)
	root.AddGroup(
		&cobra.Group{ID: groupSample, Title: "Sample a program:"},
		&cobra.Group{ID: groupRead, Title: "Read and compare profiles:"},
		&cobra.Group{ID: groupServe, Title: "Sample many programs for months:"},
	)
	commands := append(newOperateCmds(env), []subcommand{
		newAttachCmd(env), newRunCmd(env), newStuckCmd(env), newApplyCmd(env), newDemoCmd(env), newDemoWorkloadCmd(env),
		newHintsCmd(env), newConvertCmd(env), newMergeCmd(env), newHTMLCmd(env),
		newServeCmd(env), newStatusCmd(env), newTargetsCmd(env), newEventsCmd(env), newDoctorCmd(env), newVersionCmd(env),
		newUICmd(env), newPageCmd(env), newMCPCmd(env),
	}...)
	commands = slices.Concat(commands, newStoreCmds(env), newFleetCmds(env), newPGOCmds(env), newFanInCmds(env))
	for _, q := range view.Questions() {
		commands = append(commands, newQuestionCmd(env, q))
	}
	for _, c := range commands {
		rightsOf[c.Command] = c.rights
		if !c.HasParent() {
			root.AddCommand(c.Command)
		}
	}
	env.memory.register(root)
	addCompletion(root)
	return root
}

// Groups of subcommands in the help.
const (
	groupSample = "sample"
	groupRead   = "read"
	groupServe  = "serve"
)

// execute runs one command line and returns the exit code.
func execute(root *cobra.Command, args []string) int {
	root.SetArgs(args)
	usage.Completions(root, args)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	if cmd == root && advice.CodeOf(err) != advice.CodeCommandLine {
		err = usage.UnknownCommand(root, args, err) // the root itself does nothing
	}
	reportError(root.ErrOrStderr(), cmd, err)
	return exitCode(err)
}

// anyNumber, as the most arguments of a command, sets no limit.
const anyNumber = math.MaxInt

// argCount checks that a command has got from least to most arguments, and says
// in words what is wanted.
func argCount(least, most int, wanted string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if n := len(args); n < least || n > most {
			return usage.Errorf("%s wants %s, and got %s", cmd.Name(), wanted, figure.Plural(int64(n), "argument"))
		}
		return nil
	}
}
