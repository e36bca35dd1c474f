package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// methodSet says of every method of a name table whether it is meant.
type methodSet []bool

func (s methodSet) has(id ccmap.MethodID) bool { return uint64(id) < uint64(len(s)) && s[id] }

// ids returns the methods.
func (s methodSet) ids() []ccmap.MethodID {
	var ids []ccmap.MethodID
	for id, in := range s {
		if in {
			ids = append(ids, ccmap.MethodID(id))
		}
	}
	return ids
}

// list returns the names of the methods.
func (s methodSet) list(names *ccmap.Names) []string {
	var list []string
	for _, id := range s.ids() {
		list = append(list, names.At(id).Name)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// methodFlags say which methods are meant where they are not an argument.
type methodFlags struct {
	match  string // regular expression; empty: none
	regexp bool   // the argument is a regular expression: the form before --match
}

func (f *methodFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.match, "match", "", "instead of a name: the methods that `REGEXP` matches anywhere in their names")
	flags.BoolVar(&f.regexp, "regexp", false, "the argument is a regular expression; deprecated for --match")
	// The only error is that there is no such flag.
	_ = flags.MarkHidden("regexp")
	_ = cmd.RegisterFlagCompletionFunc("match", cobra.NoFileCompletions)
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
			return usagef("--match stands in place of %q: give one of them", args[1])
		case matches:
			return argCount(1, 1, "a profile beside --match")(cmd, args)
		case cmd.Flags().Changed("regexp"):
			least = 1
		}
		return argCount(1+least, 2, wanted)(cmd, args)
	}
}

// selectMethods returns the methods that a user means by text: all that a
// regular expression matches anywhere in their name or, without isRegexp, those
// of one name. That is the name itself or a suffix that only one name has,
// whatever their signatures.
func selectMethods(names *ccmap.Names, text string, isRegexp bool) (methodSet, error) {
	if isRegexp {
		return selectRegexp(names, text)
	}
	name, err := resolveMethod(names, text)
	if err != nil {
		return nil, err
	}
	return selectNames(names, func(s string) bool { return s == name }), nil
}

func selectRegexp(names *ccmap.Names, text string) (methodSet, error) {
	re, err := compileRegexp(text)
	if err != nil {
		return nil, err
	}
	set := selectNames(names, re.MatchString)
	if !slices.Contains(set, true) {
		return nil, withHint(fmt.Errorf("no method matches %q", text), "'ccmapd top -n 0 FILE' lists all methods.")
	}
	return set, nil
}

// compileRegexp says in our words what is wrong with a regular expression.
func compileRegexp(text string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(text)
	var e *syntax.Error
	if errors.As(err, &e) {
		return nil, usagef("%q is not a regular expression: %s in %q", text, e.Code, e.Expr)
	}
	return re, err
}

func selectNames(names *ccmap.Names, match func(string) bool) methodSet {
	set := make(methodSet, names.Len())
	for i := range set {
		set[i] = match(names.At(ccmap.MethodID(i)).Name)
	}
	return set
}

// resolveMethod returns the one full name that text stands for. Of several it is the
// one that ends as text is written: "T.f" is rather main.T.f than main.(*T).f, with
// which an interface calls it.
func resolveMethod(names *ccmap.Names, text string) (string, error) {
	all := distinctNames(names)
	if _, found := slices.BinarySearch(all, text); found {
		return text, nil
	}
	plain := plainName(text)
	var found, asWritten []string
	for _, name := range all {
		if hasNameSuffix(plainName(name), plain) {
			found = append(found, name)
		}
		if hasNameSuffix(name, text) {
			asWritten = append(asWritten, name)
		}
	}
	switch {
	case len(found) == 0:
		return "", unknownMethod(all, text)
	case len(found) == 1:
		return found[0], nil
	case len(asWritten) == 1:
		return asWritten[0], nil
	}
	return "", withHint(fmt.Errorf("%d methods are called %q", len(found), text),
		"Give more of the name, or --match REGEXP: %s", listNames(found))
}

// compareMethods orders methods by name and signature.
func compareMethods(names *ccmap.Names, a, b ccmap.MethodID) int {
	if a == b || a == ccmap.NoMethod || b == ccmap.NoMethod {
		return cmp.Compare(b, a) // NoMethod, the highest, comes first
	}
	x, y := names.At(a), names.At(b)
	return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Signature, y.Signature))
}

func distinctNames(names *ccmap.Names) []string {
	all := make([]string, names.Len())
	for i := range all {
		all[i] = names.At(ccmap.MethodID(i)).Name
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// completeMethods completes the argument after FILE with the methods in it.
func completeMethods(env *environment) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) != 1 || args[0] == stdPath {
			return nil, cobra.ShellCompDirectiveDefault
		}
		p, err := loadProfile(env, args[0], export.ReadOptions{})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		others := func(name string) bool { return !strings.HasPrefix(name, typed) }
		return slices.DeleteFunc(distinctNames(p.Names()), others), cobra.ShellCompDirectiveNoFileComp
	}
}

// plainName removes what people leave out when they write a Go name: the
// parentheses and star of a receiver, and type arguments.
func plainName(name string) string {
	name, rest, generic := strings.Cut(name, "[")
	if generic {
		name += rest[strings.LastIndexByte(rest, ']')+1:]
	}
	return receiverMarks.Replace(name)
}

var receiverMarks = strings.NewReplacer("(*", "", "(", "", ")", "")

// hasNameSuffix reports whether name ends in suffix at the start of a package,
// type or method.
func hasNameSuffix(name, suffix string) bool {
	head, found := strings.CutSuffix(name, suffix)
	return found && suffix != "" && (head == "" || strings.HasSuffix(head, ".") || strings.HasSuffix(head, "/"))
}

// lastComponent returns what follows the last dot or slash.
func lastComponent(name string) string { return name[strings.LastIndexAny(name, "./")+1:] }
