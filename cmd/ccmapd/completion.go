package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/export"
)

// addCompletion makes shells complete the names of profiles, for all commands that read some.
func addCompletion(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.GroupID == groupRead && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = completeProfiles
		}
	}
	root.InitDefaultCompletionCmd()
	bash, _, err := root.Find([]string{"completion", "bash"})
	if err != nil {
		panic(err) // cobra makes it
	}
	script := bash.RunE
	bash.RunE = func(cmd *cobra.Command, args []string) error {
		if err := script(cmd, args); err != nil {
			return err
		}
		_, err := fmt.Fprint(root.OutOrStdout(), bashWords)
		return err
	}
}

// bashWords keeps @NAME one word.
const bashWords = `
# Bash would begin a new word at an '@', where it completes names of hosts.
COMP_WORDBREAKS=${COMP_WORDBREAKS//@/}
`

// completionTime is how long a shell waits for a daemon to complete a name.
const completionTime = 300 * time.Millisecond

// completeMethods completes FILE with the targets of a daemon if it begins with '@', and the argument
// after it with the methods in it.
func completeMethods(env *environment) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		switch {
		case len(args) == 0 && strings.HasPrefix(typed, "@"):
			return completeTargets(ctx, typed)
		case len(args) != 1 || args[0] == stdPath:
			return nil, cobra.ShellCompDirectiveDefault
		}
		if err := env.fetch(ctx, args[0]); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		p, err := loadProfile(env, args[0], export.ReadOptions{})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		others := func(name string) bool { return !strings.HasPrefix(name, typed) }
		return slices.DeleteFunc(query.AllNames(p.Names()), others), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeProfiles completes every argument with the targets of a daemon if it begins with '@', and as a
// file otherwise.
func completeProfiles(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if !strings.HasPrefix(typed, "@") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	return completeTargets(ctx, typed)
}

func completeTargets(ctx context.Context, typed string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
	names, err := client.Daemon{}.Names(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	for _, name := range names {
		if isPlain(name) && strings.HasPrefix("@"+name, typed) {
			found = append(found, "@"+name)
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// isPlain reports whether a name means nothing else to a shell. A completion becomes part of a command
// line, and another program may listen on the socket.
func isPlain(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("._-", r))
	})
}
