package usage

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/internal/terminal"
)

// Choice is the value of a flag that takes one of a few words.
type Choice struct {
	Value string
	From  []string
}

// NewChoice returns a choice of some words; the first is the default.
func NewChoice(from []string) Choice { return Choice{Value: from[0], From: from} }

func (c *Choice) String() string { return c.Value }

// Type is the flag's type in the eyes of package pflag.
func (c *Choice) Type() string { return "word" }

// Set takes one of the words, or returns an error that lists them.
func (c *Choice) Set(s string) error {
	if !slices.Contains(c.From, s) {
		return fmt.Errorf("must be %s", terminal.OrList(c.From))
	}
	c.Value = s
	return nil
}

// Register adds a flag of the choice to a command. A shell completes its words.
func (c *Choice) Register(cmd *cobra.Command, name, usage string) {
	cmd.Flags().Var(c, name, usage)
	// The only error is that there is no such flag.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(c.From, cobra.ShellCompDirectiveNoFileComp))
}
