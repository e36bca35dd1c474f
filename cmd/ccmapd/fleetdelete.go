package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/fleet"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/uplink"
)

const fleetDeleteLong = `Delete removes a target from the hub for good, with all builds, or one build, by its whole
id. Without --yes it lists what would go, and deletes nothing.

For 7 days the hub takes nothing of these builds, so that no contribution that comes late
brings them back. The token must be of a line with delete, which reads, too, and its file
must be closed to other users.`

func newFleetDeleteCmd(env *environment, f *fleetFlags) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "delete TARGET [BUILD]", Short: "Delete a target or a build from a fleet", Long: fleetDeleteLong,
		Example: "  ccmapd fleet delete web 1f0c7d2e55aa --token-file deleter --yes",
		Args:    argCount(1, 2, "a target, and perhaps a build"),
		RunE: func(cmd *cobra.Command, args []string) error {
			build := ""
			if len(args) > 1 {
				build = args[1]
			}
			return f.delete(cmd.Context(), env, args[0], build, yes)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "delete, instead of listing what would go")
	return cmd
}

func (f *fleetFlags) delete(ctx context.Context, env *environment, target, build string, yes bool) error {
	if yes {
		list, err := f.deleteAtHub(ctx, target, build)
		if err != nil {
			return err
		}
		return f.printDeleted(env, list, "is deleted")
	}
	list, err := f.hub().builds(ctx, target)
	if err != nil {
		return err
	}
	var doomed []fleet.Build
	for _, b := range list {
		if build == "" || b.Build == build {
			doomed = append(doomed, b)
		}
	}
	if len(doomed) == 0 {
		return noSuchBuild(target, build)
	}
	if err := f.printDeleted(env, doomed, "would go"); err != nil {
		return err
	}
	return usage.Errorf("nothing is deleted: repeat the command with --yes")
}

// deleteAtHub deletes, and returns what is gone.
func (f *fleetFlags) deleteAtHub(ctx context.Context, target, build string) ([]fleet.Build, error) {
	is := f.address()
	if is.URL == "" {
		return nil, usage.Errorf("no hub is known: name its URL in --hub or $%s", hubVariable)
	}
	h, err := uplink.New(uplink.Options{URL: is.URL, TokenFile: is.TokenFile, CAFile: is.CAFile})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	list, err := h.Delete(ctx, target, build)
	switch {
	case errors.Is(err, uplink.ErrToken):
		return nil, &advice.Error{Code: advice.CodeNotPermitted, Err: err, Hint: "The line of the token in the hub's file must begin with delete, and permit the target."}
	case errors.Is(err, fs.ErrNotExist) && !errors.As(err, new(*fs.PathError)):
		return nil, noSuchBuild(target, build)
	}
	return list, err
}

func noSuchBuild(target, build string) error {
	what := fmt.Sprintf("the hub has no profile of %q", target)
	if build != "" {
		what = fmt.Sprintf("the hub has no build %q of %q", build, target)
	}
	return &advice.Error{Code: advice.CodeNoTarget, Err: errors.New(what), Hint: "'ccmapd fleet builds --json' lists whole ids."}
}

func (f *fleetFlags) printDeleted(env *environment, list []fleet.Build, what string) error {
	if f.asJSON {
		return terminal.WriteJSON(env.stdout, list)
	}
	out := terminal.NewPrinter(env.stdout, env.wide)
	for _, b := range list {
		out.Line("%s@%s, %s: %s of %s, %s.", terminal.Printable(b.Target), store.BuildName(b.Build), terminal.Printable(eventOf(b.Unit)),
			figure.Plural(b.Samples, "sample"), figure.Plural(int64(b.Instances), "instance"), what)
	}
	return out.Err()
}
