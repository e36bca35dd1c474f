package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/ccmapd/ccmapd/cmd/internal/man"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// complete returns the completions of a command line, as a shell asks for them.
func complete(t *testing.T, socket string, args ...string) string {
	t.Helper()
	got := ccmapdAt(t, socket, append([]string{"__complete"}, args...)...)
	if got.code != exitOK {
		t.Errorf("%q exits with %d: %s", args, got.code, got.stderr)
	}
	return got.stdout
}

// TestCompletionOfTargets: @NAME is completed by the targets of the daemon, with no name that a shell would take
// for more. Without a daemon, and with one that does not answer, there are no names.
func TestCompletionOfTargets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket, silent := filepath.Join(dir, "s"), filepath.Join(dir, "silent")
	for _, path := range []string{socket, silent} {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if path == silent {
				select {
				case <-r.Context().Done():
				case <-time.After(20 * time.Second):
				}
			}
			w.Write([]byte(`{"targets": [{"name": "web"}, {"name": "web-2.b"}, {"name": "db"}, {"name": "w$(reboot)"}, {"name": "w\nx"}]}`))
		}))
	}
	const names, files, none = ":4\n", ":0\n", ":1\n"
	for _, test := range []struct {
		socket string
		args   []string
		want   string
	}{
		{socket, []string{"top", "@w"}, "@web\n@web-2.b\n" + names},
		{socket, []string{"overlap", "file", "@"}, "@web\n@web-2.b\n@db\n" + names},
		{socket, []string{"top", "--recent", "@db"}, "@db\n" + names},
		{socket, []string{"top", "prof"}, files},
		{filepath.Join(dir, "gone"), []string{"top", "@w"}, none},
		{silent, []string{"top", "@w"}, none},
	} {
		got := complete(t, test.socket, test.args...)
		for range 100 { // on a busy machine the limit may come before the answer
			if got != none || test.want == none {
				break
			}
			got = complete(t, test.socket, test.args...)
		}
		if got != test.want {
			t.Errorf("%q: %q, want %q", test.args, got, test.want)
		}
	}
	if script := ccmapdAt(t, socket, "completion", "bash").stdout; !strings.Contains(script, "complete -o default -F __start_ccmapd ccmapd") || !strings.HasSuffix(script, bashWords) {
		t.Errorf("the script for bash ends with %q", script[max(0, len(script)-200):])
	}
}

var (
	manDir     = flag.String("man", "", "write the manual pages to this directory")
	manVersion = flag.String("man-version", "", "the version in the manual pages")
)

// exitStatus returns what the exit codes of a command mean, and the codes of errors that stand for each.
func exitStatus(command string) (all []man.Exit) {
	for _, e := range exitMeanings {
		if e.of != "" && e.of != command {
			continue
		}
		if codes := advice.Codes(e.code); e.of == "" && len(codes) > 0 {
			e.means += "; errors of code " + terminal.OrList(codes)
		}
		all = append(all, man.Exit{Code: e.code, Means: e.means})
	}
	return all
}

// TestManualPages makes the page of every command. To write them:
//
//	go test ./cmd/ccmapd -run TestManualPages -man DIR -man-version VERSION
func TestManualPages(t *testing.T) {
	t.Parallel()
	o := man.Options{Version: *manVersion, Pages: docsHelp}
	if s, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		o.Date = time.Unix(s, 0)
	}
	pages := 0
	for cmd := range man.Commands(newRoot(&environment{})) {
		var page strings.Builder
		cmd.Long, _, _ = strings.Cut(cmd.Long, "\n\n"+exitCodesHelp()) // sections have it, and where the pages are
		o.Exits = exitStatus(cmd.Name())
		if err := man.Write(&page, cmd, o); err != nil {
			t.Fatal(err)
		}
		pages++
		for _, code := range []advice.Code{advice.CodeFailed, advice.CodeUsage, advice.CodeNotPermitted, advice.CodeNoTarget} {
			if exit := fmt.Sprintf(".TP\n\\fB%d\\fR\n", code.ExitCode()); strings.Count(page.String(), exit) != 1 {
				t.Errorf("the page of %s does not say once what exit code %d means", cmd.CommandPath(), code.ExitCode())
			}
		}
		if is, has := cmd.Name() == "run", strings.Contains(page.String(), `\fB127\fR`); is != has {
			t.Errorf("the page of %s has the exit codes of run: %v", cmd.CommandPath(), has)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if flag := strings.ReplaceAll("--"+f.Name, "-", `\-`); !f.Hidden && !strings.Contains(page.String(), flag) {
				t.Errorf("the page of %s lacks --%s", cmd.CommandPath(), f.Name)
			}
		})
		for line := range strings.Lines(page.String()) {
			macro, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			if line[0] == '.' && !strings.Contains(".TH .SH .PP .TP .nf .fi", macro) || line[0] == '\'' {
				t.Errorf("the page of %s has the macro %q", cmd.CommandPath(), line)
			}
		}
		if *manDir == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(*manDir, man.Name(cmd)+"."+man.Section), []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if pages < 20 {
		t.Errorf("%d pages", pages)
	}
}
