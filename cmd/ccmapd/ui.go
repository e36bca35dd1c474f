package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/browse"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/livepage"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/loading"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/sources"
	"github.com/ccmapd/ccmapd/cmd/internal/signals"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/api"
	"github.com/ccmapd/ccmapd/internal/pages"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

const uiLong = `Ui shows profiles in the browser: flame graphs, both ways from any method, comparisons
whose noise is grey, tables, search. With FILE it shows profiles that are files, stored
or elsewhere, by number, and two of them compared; it needs no daemon. Without, or with
the name of a target, it shows what the daemon lets you see, and only reads.

It listens on loopback, for one browser: the address has a secret that is used up when
the page opens, within a minute. If it is opened twice, the page ends. As root, where
there is no display, and with --no-open, no browser is started: open the address that
is printed. Ctrl-C ends it. With --source the pages of methods have their source lines:
this process reads them, no daemon does. docs/http.md has more, SECURITY.md what it
defends.`

const uiExample = `  ccmapd ui web.pb.gz                     a file
  ccmapd ui before.pb.gz after.pb.gz      two, compared
  ccmapd ui best:web web.pb.gz            a stored profile and a file
  ccmapd ui                               all targets of the daemon
  ccmapd ui @web                          one of them
  ccmapd ui @hub                          what the hub of the fleet has
  ccmapd ui --source . web.pb.gz          with lines of the source files here
  ccmapd ui --no-open --port 8080 a.json  over 'ssh -L 8080:127.0.0.1:8080 HOST'`

// uiFlags are the flags of ui.
type uiFlags struct {
	noOpen     bool
	port       uint16
	sampleType string
	source     string // directory; "": none
}

func newUICmd(env *environment) subcommand {
	var f uiFlags
	cmd := &cobra.Command{
		Use:     "ui [REF|FILE...]",
		Short:   "Show profiles in the browser",
		Long:    uiLong,
		Example: uiExample,
		GroupID: groupRead,
		RunE:    func(cmd *cobra.Command, args []string) error { return runUI(cmd.Context(), env, f, args) },
	}
	cmd.Flags().BoolVar(&f.noOpen, "no-open", false, "start no browser, but print the address")
	cmd.Flags().Uint16Var(&f.port, "port", 0, "listen on port `N` of loopback; 0: any that is free")
	cmd.Flags().StringVar(&f.source, "source", "", "show lines of the source files below `DIR` beside a method")
	registerSampleType(cmd, &f.sampleType)
	return subcommand{cmd, filesAlone}
}

// runUI shows profiles until it is interrupted. It opens the port and prepares the browser first: then it gives up the
// rights to do either, and reads profiles.
func runUI(ctx context.Context, env *environment, f uiFlags, args []string) error {
	if err := checkStdinOnce(args); err != nil {
		return err
	}
	d, page, proxied, err := proxiedPage(ctx, args)
	if err != nil {
		return err
	}
	env.reader.Event = f.sampleType
	for _, where := range args {
		if !proxied {
			if err := env.fetch(ctx, where); err != nil {
				return err
			}
		}
	}
	s, err := newShowing(env, f.port, f.noOpen)
	if err != nil {
		return err
	}
	defer s.close()
	if f.source != "" {
		if s.source, err = sources.Open(f.source); err != nil {
			return withHint(err, "Name the directory that the program was built in.")
		}
	}
	if proxied {
		if err := env.process.NoNewPrivileges(); err != nil {
			return err
		}
		data := d.Proxy()
		if env.reader.Hub.URL != "" {
			data = besideDaemon(api.Local(api.LocalOptions{Version: buildVersion(), Fleet: pagesOfUser(*env.reader.Hub)}), data)
		}
		return s.run(ctx, data, page)
	}
	if err := s.confine(); err != nil {
		return err
	}
	l := loading.Begin(func(note loading.Note) (http.Handler, error) {
		files, err := readFiles(env, f, args, note)
		return api.Local(api.LocalOptions{Version: buildVersion(), Files: files}), err
	})
	if err := l.Await(time.After(moment)); err != nil {
		return err
	}
	return s.runLoading(ctx, l, pageOfFiles(len(args)))
}

// moment is how long profiles are read before the page is shown without them.
const moment = 300 * time.Millisecond

// hubName is the argument that means the page of the fleet. It needs no daemon.
const hubName = "@hub"

// proxiedPage returns the daemon that the arguments mean, and the page to begin with; false: they mean files.
func proxiedPage(ctx context.Context, args []string) (d client.Daemon, page string, ok bool, err error) {
	if len(args) > 1 {
		return d, "", false, nil
	}
	page = "/"
	if len(args) == 1 && args[0] == hubName {
		return d, "/fleet", true, nil
	}
	if len(args) == 1 {
		var ref string
		if d, ref, ok = client.ParseDaemon(args[0]); !ok || d.URL != nil {
			return d, "", false, nil
		}
		ref = client.FullRef(ref)
		page = "/p/" + url.PathEscape(ref) + "/flame"
		return d, page, true, d.Get(ctx, new(struct{}), "p", ref, "meta")
	}
	if _, err := d.Names(ctx); err != nil {
		if errors.Is(err, client.ErrNoDaemon) {
			err = withHint(err, "A file needs none: 'ccmapd ui FILE'.")
		}
		return d, "", false, err
	}
	return d, page, true, nil
}

// readFiles reads the profiles of the arguments, and notes how much of them is read.
func readFiles(env *environment, f uiFlags, args []string, note loading.Note) ([]api.File, error) {
	var files []api.File
	for i, where := range args {
		name := client.Name(where)
		if !client.IsRemote(where) && where != stdPath {
			name = filepath.Base(where)
		}
		m, err := readMap(env, where, export.ReadOptions{SampleType: f.sampleType, Progress: func(part float64) {
			if part >= 0 {
				part = (float64(i) + part) / float64(len(args))
			}
			note(name, part)
		}})
		if err != nil {
			return nil, err
		}
		files = append(files, api.File{Name: name, Snapshot: m.Snapshot()})
	}
	return files, nil
}

// pageOfFiles returns the page to begin with.
func pageOfFiles(n int) string {
	switch n {
	case 1:
		return "/p/file:1/flame"
	case 2:
		return "/compare?a=file:1&b=file:2"
	}
	return "/"
}

// showing is a page on its way to a browser.
type showing struct {
	env     *environment
	shell   *pages.Shell
	port    net.Listener
	entry   string          // file that leads the browser to the page; "": no browser is opened
	browser *browse.Browser // nil: none is opened
	why     error           // no browser is opened; nil: the user wants none
	source  *sources.Dir    // nil: no source files are shown
}

// newShowing opens the port, and prepares the browser.
func newShowing(env *environment, port uint16, noOpen bool) (s *showing, err error) {
	s = &showing{env: env}
	if s.shell, err = env.shell(); err != nil {
		return nil, err
	}
	if s.port, err = pages.Listen(port); err != nil {
		return nil, err
	}
	if noOpen {
		return s, nil
	}
	if s.browser, s.why = browse.Prepare(os.Geteuid(), os.Getenv); s.why != nil {
		return s, nil
	}
	s.entry = entryPath(os.Getenv("XDG_RUNTIME_DIR"))
	return s, nil
}

// entryPath returns where the file is made that leads the browser to the page. The user's own directory, if there is
// one, goes before that of all.
func entryPath(own string) string {
	if own == "" || unix.Access(own, unix.W_OK|unix.X_OK) != nil {
		own = os.TempDir()
	}
	return filepath.Join(own, "ccmapd-"+rand.Text()+".html")
}

// makeEntry makes the file, for this user alone.
func makeEntry(path, address string) error {
	const redirect = "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=%s\">\n"
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("lead browser to the page: %w", err)
	}
	_, err = fmt.Fprintf(f, redirect, html.EscapeString(address))
	return errors.Join(err, f.Close())
}

// confine gives up all rights but to read files, to answer, and to remove the entry.
func (s *showing) confine() error {
	var outputs []string
	if s.entry != "" {
		outputs = append(outputs, s.entry)
	}
	return s.env.process.ConfineServing(outputs...)
}

// close ends what has not been shown, and removes the entry.
func (s *showing) close() {
	s.port.Close()
	if s.browser != nil {
		s.browser.Close()
	}
	if s.entry != "" {
		os.Remove(s.entry)
	}
}

// run shows a page until ctx is done.
func (s *showing) run(ctx context.Context, data http.Handler, page string) error {
	ctx, stop := signals.UntilInterrupted(ctx)
	defer stop()
	server := s.open(data, page)
	s.announce(s.env.stderr, s.address(server, page), "Ctrl-C ends it.")
	return explainShut(server.Serve(ctx))
}

// runLoading shows a page until ctx is done, also while its profiles are still being read: the terminal has how much of
// them is. If they cannot be, it ends with that error.
func (s *showing) runLoading(ctx context.Context, l *loading.Loading, page string) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	failed := make(chan error, 1)
	go func() {
		line := terminal.StartLive(s.env.stderr, l.Line)
		select {
		case <-l.Ready():
		case <-ctx.Done():
		}
		line.Stop()
		if ctx.Err() != nil {
			failed <- nil
			return
		}
		err := l.Err()
		if failed <- err; err != nil {
			end()
		}
	}()
	err := s.run(ctx, l, page)
	end()
	return cmp.Or(<-failed, err)
}

// open has the browser open a page. From then on it must be served.
func (s *showing) open(data http.Handler, page string) *pages.Server {
	server := pages.NewServer(s.port, s.shell, pages.NewGate(nil), s.source.Handler(data))
	if s.browser == nil {
		return server
	}
	err := makeEntry(s.entry, s.address(server, page))
	if err == nil {
		err = s.browser.Open(s.entry)
	}
	if err != nil {
		s.why = err
		return server
	}
	go func() {
		if err := <-s.browser.Failed(); err != nil {
			fmt.Fprintf(s.env.stderr, "No browser was opened (%v): open the address yourself.\n", err)
		}
	}()
	return server
}

// address is where the browser enters. It tells the page whether there are source files.
func (s *showing) address(server *pages.Server, page string) string {
	if s.source == nil {
		return server.URL(page)
	}
	return server.URL(page) + "&source=1"
}

// announce says where the page is.
func (s *showing) announce(w io.Writer, address, until string) {
	switch {
	case s.why != nil:
		fmt.Fprintf(w, "Open this in a browser within a minute (%v). %s\n", s.why, until)
	case s.browser == nil:
		fmt.Fprintf(w, "Open this in a browser within a minute. %s\n", until)
	default:
		fmt.Fprintf(w, "The browser opens it; if it does not, open it yourself within a minute. %s\n", until)
	}
	fmt.Fprintf(w, "  %s\n", address)
}

// explainShut says what to do about a page that nobody can open any more.
func explainShut(err error) error {
	switch {
	case errors.Is(err, pages.ErrUsedTwice):
		return withHint(err, "Start it again, and tell nobody the address.")
	case errors.Is(err, pages.ErrNotOpened):
		return withHint(err, "Start it again.")
	}
	return err
}

// newPageCmd returns the command of the process that shows a session of another one ([livepage]).
func newPageCmd(env *environment) subcommand {
	var noOpen bool
	cmd := &cobra.Command{
		Use:    livepage.Command,
		Short:  "What --open starts",
		Hidden: true,
		Args:   argCount(0, 0, "no arguments"),
		RunE:   func(cmd *cobra.Command, _ []string) error { return runPage(cmd.Context(), env, noOpen) },
	}
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "start no browser")
	return subcommand{cmd, func(env *environment, _ *cobra.Command, _ []string) error { return env.process.Keep(privilege.Use(0)) }}
}

// runPage shows a session until its process ends.
func runPage(ctx context.Context, env *environment, noOpen bool) error {
	session, err := livepage.Open()
	if errors.Is(err, io.EOF) {
		return nil // the session was not begun
	}
	if err != nil {
		return err
	}
	s, err := newShowing(env, 0, noOpen)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.confine(); err != nil {
		return err
	}
	page := "/p/" + url.PathEscape("live:"+session.Name) + "/flame"
	server := s.open(api.Local(api.LocalOptions{Version: buildVersion(), Sessions: map[string]api.Session{session.Name: session}}), page)
	s.announce(env.stderr, server.URL(page), "")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-session.Gone()
		cancel()
	}()
	if err := session.Ready(); err != nil {
		return err
	}
	return explainShut(server.Serve(ctx))
}
