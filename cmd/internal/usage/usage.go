// Package usage has the errors of command lines, flags that take one of a few words ([Choice]), and completions
// for shells ([Complete]). Its errors speak to users: the errors of the flag parser name functions and types of Go.
package usage

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// Of returns an error as one in the command line.
func Of(err error) error { return &advice.Error{Code: advice.CodeCommandLine, Err: err} }

// Errorf returns an error in the command line.
func Errorf(format string, args ...any) error { return Of(fmt.Errorf(format, args...)) }

// ExplainFlag puts an error of the flag parser into words for users: the parser's own
// name Go's functions and types.
func ExplainFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown)
	case errors.As(err, &missing):
		return Errorf("%s needs a value: %[1]s %s", typedName(missing), valueName(missing.GetFlag()))
	case errors.As(err, &invalid):
		return invalidValue(invalid)
	}
	return Of(err)
}

func unknownFlag(cmd *cobra.Command, e *pflag.NotExistError) error {
	name := e.GetSpecifiedName()
	if group := e.GetSpecifiedShortnames(); group != "" {
		return Errorf("%s has no flag -%.1s, as in -%s", cmd.Name(), name, group)
	}
	err := Errorf("%s has no flag --%s", cmd.Name(), name)
	if near := similarFlags(cmd, name); len(near) > 0 {
		return advice.Add(err, "Did you mean %s?", terminal.OrList(near))
	}
	return err
}

// similarFlags returns the flags of a command that begin alike, or contain the name.
func similarFlags(cmd *cobra.Command, name string) []string {
	const prefix = 3
	var near []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && (strings.Contains(f.Name, name) || len(name) >= prefix && strings.HasPrefix(f.Name, name[:prefix])) {
			near = append(near, "--"+f.Name)
		}
	})
	return near
}

// valueName is how the help calls the value of a flag, for example "N".
func valueName(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	return name
}

// standardTypes says why a value does not fit one of pflag's own types. Flags of our types
// say it in their errors.
var standardTypes = map[string]string{
	"bool":     "neither true nor false",
	"uint":     "not a whole number from 0",
	"int":      "not a whole number",
	"float64":  "not a number",
	"duration": "not a duration: write 10s, 500ms or 1h30m",
}

// typedName returns the name of a flag as it was typed.
func typedName(e *pflag.ValueRequiredError) string {
	if e.GetSpecifiedShortnames() != "" {
		return "-" + e.GetSpecifiedName()
	}
	return "--" + e.GetSpecifiedName()
}

// flagNames names a flag by its short and its long name: the parser does not tell which was typed.
func flagNames(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + ", --" + f.Name
	}
	return "--" + f.Name
}

func invalidValue(e *pflag.InvalidValueError) error {
	f, value, cause := e.GetFlag(), strconv.Quote(e.GetValue()), e.Unwrap().Error()
	if standard, ok := standardTypes[f.Value.Type()]; ok {
		return Errorf("%s %s is %s", flagNames(f), value, standard)
	}
	if strings.HasPrefix(cause, value) {
		return Errorf("%s %s", flagNames(f), cause)
	}
	return Errorf("%s %s: %s", flagNames(f), value, cause)
}

// UnknownCommand replaces cobra's error where the command line begins with a word that
// is not a command.
func UnknownCommand(root *cobra.Command, args []string, err error) error {
	i := slices.IndexFunc(args, func(s string) bool { return !strings.HasPrefix(s, "-") })
	if i < 0 {
		return Of(err)
	}
	unknown := Errorf("there is no command %q", args[i])
	if near := root.SuggestionsFor(args[i]); len(near) > 0 {
		return advice.Add(unknown, "Did you mean %s?", terminal.OrList(near))
	}
	return unknown
}

// CheckRequired returns an error if a flag is missing that a command cannot do without.
func CheckRequired(cmd *cobra.Command) (err error) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, required := f.Annotations[cobra.BashCompOneRequiredFlag]; required && !f.Changed && err == nil {
			err = Errorf("%s needs --%s %s", cmd.Name(), f.Name, valueName(f))
		}
	})
	return err
}

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
	Complete(cmd, name, c.From...)
}

// completed is the annotation of a flag with the words that a shell completes.
const completed = "ccmapd_words"

// Complete has a shell complete a flag of a command by some words, and by no files. See [Completions].
func Complete(cmd *cobra.Command, name string, words ...string) {
	_ = cmd.Flags().SetAnnotation(name, completed, words) // the only error is that there is no such flag
}

// Completions tells cobra the words of all flags, if a shell asks by args. Cobra keeps them in a table that holds
// commands for ever, so other command lines leave it empty.
func Completions(root *cobra.Command, args []string) {
	if len(args) == 0 || !strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return
	}
	for _, cmd := range root.Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if words, has := f.Annotations[completed]; has {
				_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
			}
		})
		Completions(cmd, args)
	}
}
