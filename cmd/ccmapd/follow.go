package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/livetop"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/cmd/internal/signals"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/manager"
)

// followFlag is the flag of top that follows a target.
const followFlag = "follow"

// isFollowing reports whether a command follows a target.
func isFollowing(cmd *cobra.Command) bool {
	flag := cmd.Flag(followFlag)
	return flag != nil && flag.Value.String() == "true"
}

// followTop shows the hottest methods of a target until it is told to stop.
func followTop(ctx context.Context, env *environment, a *asking, args []string) error {
	where := args[0]
	if a.withStored || len(args) > 1 || a.match != "" || !client.IsRemote(where) {
		return usage.Errorf("--%s wants a target of a daemon alone, for example @web: / filters its methods", followFlag)
	}
	ctx, stop := signals.UntilInterrupted(ctx)
	defer stop()
	return explainTerminal(livetop.Run(ctx, livetop.Options{
		In: env.stdin, Out: env.stdout, Sort: a.Flag("sort").Value.String(), Recent: a.recent,
		Profile: func(ctx context.Context) (*view.Profile, error) {
			m, err := (&client.Reader{Event: a.sampleType}).Read(ctx, where, env.memory.bound(a.options()))
			if err != nil {
				return nil, explainRead(err)
			}
			return a.labels.choose(view.New(where, m.Snapshot()))
		},
	}))
}

// explainTerminal adds advice to the error of a missing terminal.
func explainTerminal(err error) error {
	if errors.Is(err, terminal.ErrNoTerminal) {
		return usage.Of(withHint(err, "Without one, 'ccmapd top' prints the methods once."))
	}
	return err
}

// runLive samples until the session or the screen ends, and shows the hottest methods
// meanwhile.
func runLive(ctx context.Context, env *environment, s *session.Session) (manager.Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type ending struct {
		report manager.Report
		err    error
	}
	ended := make(chan ending, 1)
	go func() {
		r, err := s.Run(ctx, nowhere{}, nowhere{})
		cancel(nil)
		ended <- ending{r, err}
	}()
	shown := livetop.Run(ctx, livetop.Options{In: env.stdin, Out: env.stdout, Profile: func(context.Context) (*view.Profile, error) {
		return view.New(s.Name(), s.Snapshot()), nil
	}})
	cancel(errQuit)
	e := <-ended
	return e.report, errors.Join(explainTerminal(shown), e.err)
}

// errQuit is why a session ends whose screen is closed.
var errQuit = errors.New("as asked for")

// nowhere is a writer for lines that have no place.
type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
