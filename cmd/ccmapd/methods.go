package main

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// methodFlags say which methods are meant where they are not an argument.
type methodFlags struct {
	match  string // regular expression; empty: none
	regexp bool   // the argument is a regular expression: the form before --match
}

func (f *methodFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.match, "match", "", "instead of a name: the methods that `REGEXP` matches anywhere in their names")
	flags.BoolVar(&f.regexp, "regexp", false, "the argument is a regular expression; deprecated for --match")
	_ = flags.MarkHidden("regexp") // the only error is that there is no such flag
	usage.Complete(cmd, "match")
}

// method returns what the arguments FILE [METHOD] and the flags say: a name or a regular
// expression, empty for all methods.
func (f *methodFlags) method(args []string) (text string, isRegexp bool) {
	switch {
	case f.match != "":
		return f.match, true
	case len(args) < 2:
		return "", false
	}
	return args[1], f.regexp
}

// methodArgs checks the arguments FILE METHOD. METHOD may be missing if least is 0, and
// must be where --match stands in for it.
func methodArgs(least int, wanted string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		matches := cmd.Flags().Changed("match")
		switch {
		case matches && len(args) == 2:
			return usage.Errorf("--match stands in place of %q: give one of them", args[1])
		case matches:
			return argCount(1, 1, "a profile beside --match")(cmd, args)
		case cmd.Flags().Changed("regexp"):
			least = 1
		}
		return argCount(1+least, 2, wanted)(cmd, args)
	}
}

// finder returns a function that finds the methods of a name or, if isRegexp, of a
// regular expression. Its errors give advice.
func finder(isRegexp bool) query.Finder {
	return func(names *ccmap.Names, text string) (query.Methods, error) {
		if !isRegexp {
			set, err := query.Named(names, text)
			return set, explainName(err, text)
		}
		re, err := compileRegexp(text)
		if err != nil {
			return nil, err
		}
		set, err := query.Matching(names, re)
		return set, withHint(err, listsAllMethods)
	}
}

const listsAllMethods = "'ccmapd top -n 0 FILE' lists all methods."

// explainName adds to an error in finding the methods of a name which names are like it.
func explainName(err error, name string) error {
	var e *advice.Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Code == advice.CodeAmbiguousMethod:
		return withHint(err, "Give more of the name, or --match REGEXP: %s", terminal.ListNames(e.Candidates))
	case len(e.Candidates) > 0:
		return withHint(err, "Near it: %s", terminal.ListNames(e.Candidates))
	case strings.Contains(name, query.Separator):
		return withHint(err, "A path is written with spaces around the separators: 'A > B > C'.")
	}
	return withHint(err, listsAllMethods)
}

// compileRegexp says in our words what is wrong with a regular expression.
func compileRegexp(text string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(text)
	return re, explainRegexp(text, err)
}

// explainRegexp returns an error of the compiler of regular expressions in our words, and others as they are.
func explainRegexp(text string, err error) error {
	var e *syntax.Error
	if errors.As(err, &e) {
		return usage.Errorf("%q is not a regular expression: %s in %q", text, e.Code, e.Expr)
	}
	return err
}
