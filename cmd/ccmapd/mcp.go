package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

const mcpLong = `Mcp answers the questions of an agent about profiles, by the Model Context Protocol on
standard input and output: top, contexts, query, sites, receivers, points, diff, overlap,
methods. With FILE it is asked about these profiles alone; without, about what the daemon
lets you see, and there are targets and doctor, too. It only reads; the agent names no
file, no address and no command.

Answers are JSON of 20 rows at most, with a judgement in words, so that an agent takes no
noise for a change. It is a program of its own, ccmapd-mcp, beside ccmapd or in PATH.
docs/http.md explains it.`

const mcpExample = `  ccmapd mcp before.pb.gz after.pb.gz      an agent's client starts this
  ccmapd mcp                               what the daemon samples`

// mcpProgram is the program that speaks to agents. Its dependencies are none of ccmapd's.
const mcpProgram = "ccmapd-mcp"

func newMCPCmd(*environment) subcommand {
	return subcommand{&cobra.Command{
		Use:     "mcp [REF|FILE...]",
		Short:   "Answer an agent's questions about profiles",
		Long:    mcpLong,
		Example: mcpExample,
		GroupID: groupRead,
		RunE: func(_ *cobra.Command, args []string) error {
			program, err := findMCP()
			if err != nil {
				return err
			}
			return fmt.Errorf("start %s: %w", program, unix.Exec(program, append([]string{mcpProgram}, args...), os.Environ()))
		},
	}, filesAlone}
}

// findMCP returns the program beside this one, or else in PATH.
func findMCP() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), mcpProgram)
		if unix.Access(beside, unix.X_OK) == nil {
			return beside, nil
		}
	}
	program, err := exec.LookPath(mcpProgram)
	if err != nil {
		return "", withHint(errors.Join(fmt.Errorf("%s is not installed", mcpProgram), err),
			"Packages have it. From the source: 'go build -C cmd/ccmapd-mcp -o DIR/', where DIR has ccmapd.")
	}
	return program, nil
}
