// Command ccmapd-mcp answers the questions of agents about profiles, by the Model Context Protocol on standard input
// and output. 'ccmapd mcp' starts it.
//
//	ccmapd-mcp              what the daemon on this machine lets the caller see
//	ccmapd-mcp FILE|REF…    these profiles, and nothing else: file:1, file:2 and so on
//
// The tools are the questions of package view, asked as a browser asks them: of the daemon's routes, or of the same
// routes over the files. An agent names no file, no address and no command.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/api"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if err := serve(ctx, args); err != nil && ctx.Err() == nil {
		fmt.Fprintf(stderr, "ccmapd-mcp: %s\n", terminal.PrintableError(err))
		if hint, ok := advice.Of(err); ok {
			fmt.Fprintf(stderr, "  %s\n", terminal.IndentLines(terminal.PrintableLines(hint)))
		}
		return max(advice.CodeOf(err).ExitCode(), 1)
	}
	return 0
}

// serve answers until the client closes standard input. Before it reads a profile it gives up the rights to do
// anything else.
func serve(ctx context.Context, args []string) error {
	if slices.Contains(args, client.Stdin) {
		return errors.New("standard input is the agent's: name a file")
	}
	process, err := privilege.Start()
	if err != nil {
		return err
	}
	if err := errors.Join(process.Keep(privilege.Files), process.NoNewPrivileges()); err != nil {
		return err
	}
	data, isDaemon := client.Daemon{}.Proxy(), len(args) == 0
	if !isDaemon {
		if data, err = readFiles(ctx, process, args); err != nil {
			return err
		}
	}
	return newServer(data, isDaemon).Run(ctx, &mcp.StdioTransport{})
}

// mostFetched bounds a profile that is not a file here, bytes.
const mostFetched = 256 << 20

// readFiles returns the routes over the profiles of the command line.
func readFiles(ctx context.Context, process *privilege.Process, args []string) (http.Handler, error) {
	var reader client.Reader
	for _, where := range args {
		if _, err := reader.Fetch(ctx, where, mostFetched); err != nil {
			return nil, err
		}
	}
	if err := process.Confine(); err != nil {
		return nil, err
	}
	var files []api.File
	for _, where := range args {
		m, err := reader.Read(ctx, where, export.ReadOptions{})
		if err != nil {
			return nil, err
		}
		name := client.Name(where)
		if !client.IsRemote(where) {
			name = filepath.Base(where)
		}
		files = append(files, api.File{Name: name, Snapshot: m.Snapshot()})
	}
	return api.Local(api.LocalOptions{Version: version(), Files: files}), nil
}

// version returns the version of the build.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
