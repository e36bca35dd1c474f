package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/livepage"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/cmd/internal/signals"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// openFlag shows the profile of a session in the browser, while it is sampled and after.
const openFlag = "open"

func registerOpen(cmd *cobra.Command) {
	cmd.Flags().Bool(openFlag, false, "show the profile in the browser meanwhile, and afterwards until Ctrl-C: see 'ccmapd ui --help'")
}

// withPage starts the process of the page, if there is to be one, before this process gives up rights: the browser is
// not bound by them. It waits for a session to show.
func withPage(r rights) rights {
	return func(env *environment, cmd *cobra.Command, args []string) error {
		if flag := cmd.Flag(openFlag); flag != nil && flag.Value.String() == "true" {
			page := exec.Command("/proc/self/exe", livepage.Command)
			page.Args[0] = os.Args[0]
			page.Stderr = terminal.Unguarded(env.stderr)
			page.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C ends the session, and not the page
			var err error
			if env.page, err = livepage.Start(page); err != nil {
				return err
			}
		}
		return r(env, cmd, args)
	}
}

// showPage shows a session in the browser, if that is asked for. The session goes on without its page, too.
func (env *environment) showPage(s *session.Session) {
	if env.page != nil {
		reportError(env.stderr, nil, env.page.Show(s.Name(), s.Manager))
	}
}

// keepPage leaves the page of a session that has ended in the browser, until the user has seen enough.
func (env *environment) keepPage() {
	if env.page == nil {
		return
	}
	defer env.page.Close()
	ctx, stop := signals.UntilInterrupted(context.Background())
	defer stop()
	select {
	case <-env.page.Ended():
		return
	default:
		fmt.Fprintln(env.stderr, "The page stays until Ctrl-C.")
	}
	select {
	case <-env.page.Ended():
	case <-ctx.Done():
	}
}
