package main

import (
	"io"
	"strconv"

	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// printCandidates prints the processes, the endpoints and the whole host, as targets would take them now.
func printCandidates(w io.Writer, d *daemon.Daemon) error {
	found, err := d.Check()
	if err != nil {
		return err
	}
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "target"}, {Title: "pid", Right: true}, {Title: "user"}, {Title: "executable", Shorten: terminal.ShortenMiddle, Least: 16}, {Title: "note"},
	}}
	for _, c := range found {
		note := ""
		if c.LeftOut {
			note = "left out: the target has max older processes"
		}
		if c.URL != "" {
			t.Add(c.Target, "", "", c.URL, "asked every 5 s for its profile")
			continue
		}
		if c.OfHost {
			t.Add(c.Target, "", "", "", "all processes of this machine")
			continue
		}
		t.Add(c.Target, strconv.Itoa(c.PID), c.User, c.Executable, note)
	}
	out := terminal.NewPrinter(w, false)
	if len(found) == 0 {
		out.Line("The configuration is valid. No process fits a target now.")
		return out.Err()
	}
	out.Table("", t)
	return out.Err()
}
