package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/terminal/terminaltest"
)

// longProfile has names that fit no terminal.
func longProfile(t *testing.T) string {
	m := ccmap.New(ccmap.Options{})
	frames := make([]ccmap.Frame, 4)
	for i := range frames {
		frames[i].Method = m.Names().Intern(ccmap.Method{
			Name:      fmt.Sprintf("github.com/example/%s/service.(*Server%d).handle", strings.Repeat("long", 20), i),
			File:      "/home/user/go/pkg/mod/github.com/example/" + strings.Repeat("long", 20) + "/service/server.go",
			StartLine: 100,
		})
		frames[i].Offset = uint32(i)
	}
	m.Fold(&ccmap.Sample{Frames: frames, Weight: 1e7, Fresh: ccmap.FreshUnknown})
	other := m.Names().At(frames[0].Method) // another receiver of the innermost call
	other.Name = strings.Replace(other.Name, "Server0", "Client", 1)
	frames[0].Method = m.Names().Intern(other)
	m.Fold(&ccmap.Sample{Frames: frames, Weight: 1e7, Fresh: ccmap.FreshUnknown})
	path := filepath.Join(t.TempDir(), "long.json")
	if err := export.WriteFile(path, m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTablesFitTerminals: on a terminal of 80 columns and more, every line of a
// table fits, and names keep the end that tells them apart.
func TestTablesFitTerminals(t *testing.T) {
	t.Parallel()
	file := longProfile(t)
	for _, width := range []uint16{80, 100, 140} {
		for _, line := range questions("FILE") {
			if strings.Contains(line, "FILE FILE") || strings.HasPrefix(line, "requests") {
				continue // a comparison prints paths whole, and nothing of the profile answers requests
			}
			line = strings.NewReplacer("main.f1>main.f0", "Server1.handle>Server0.handle", "main.f0", "Server0.handle").Replace(line)
			for _, row := range runOnTerminal(t, width, commandLine(line, file, "")) {
				if n := utf8.RuneCountInString(row); n > int(width) {
					t.Errorf("ccmapd %s at %d columns: line of %d: %q", line, width, n, row)
				}
			}
		}
	}
	if rows := strings.Join(runOnTerminal(t, 100, []string{"top", file}), "\n"); !strings.Contains(rows, "(*Server3).handle") {
		t.Errorf("the names in the table at 100 columns do not tell the methods apart:\n%s", rows)
	}
}

// runOnTerminal returns the lines of the table, which begins after a blank line.
func runOnTerminal(t *testing.T, width uint16, args []string) []string {
	screen, terminal := terminaltest.Open(t, width)
	lines := make(chan []string)
	go func() { lines <- tableLines(screen) }()
	var stderr bytes.Buffer
	if code := run(args, nil, terminal, &stderr); code != exitOK {
		t.Fatalf("ccmapd %q: exit code %d, %s", args, code, &stderr)
	}
	terminal.Close() // the screen reads EIO after the last line
	rows := <-lines
	if len(rows) == 0 {
		t.Fatalf("ccmapd %q: no table on the terminal", args)
	}
	return rows
}

func tableLines(screen *os.File) []string {
	var rows []string
	begun := false
	for lines := bufio.NewScanner(screen); lines.Scan(); {
		line := strings.TrimRight(lines.Text(), "\r")
		if begun {
			rows = append(rows, line)
		}
		begun = begun || line == ""
	}
	return rows
}
