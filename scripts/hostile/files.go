package main

import (
	"cmp"
	"context"
	"os"
	"time"

	"github.com/ccmapd/ccmapd/scripts/report"
	"github.com/ccmapd/ccmapd/testdata/hostile/files"
)

// filesCampaign reads hostile files of every kind with the real commands.
var filesCampaign = kind{
	name:  "files",
	about: "read profiles that are made to exhaust their reader",
	example: `  go -C scripts run ./hostile files             every kind; half an hour or more on a busy machine
  go -C scripts run ./hostile files -quick      each by one command, most of them 200 times as small
  go -C scripts run ./hostile files -only 'equal.*,nesting.xml.gz'`,
	head: []string{"file", "attacks with", "size", "`top`", "CPU time", "memory", "`convert`", "CPU time", "memory", "`merge` of two", "CPU time", "memory"},
	run:  runFiles,
}

const (
	mostFileMemory = 600 << 20        // resident, bytes
	mostFileCPU    = time.Minute      // CPU time; usually at most a third of it
	mostFileTime   = 10 * time.Minute // of a busy machine; a hang takes longer
	fileAddresses  = 4 << 30          // so that a miss hurts nothing else
	quickShare     = 200              // of a kind's size
)

func runFiles(ctx context.Context, h *hostile) error {
	folder, err := os.MkdirTemp(h.Work, "files-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	for i, k := range files.Kinds() {
		if !h.wants(k.Name, "`"+k.Name+"`") {
			continue
		}
		if err := h.file(ctx, folder, k, i); err != nil {
			return err
		}
	}
	return nil
}

// file makes the i-th kind's file, reads it with all commands and adds its row. A quick
// campaign keeps a kind that amplifies memory so large that it exceeds a bound. It reads each
// file with one command, by turns.
func (h *hostile) file(ctx context.Context, folder string, k files.Kind, i int) error {
	size := k.Size
	switch {
	case h.Quick && k.Amplifies:
		size = cmp.Or(k.Least, k.Size)
	case h.Quick:
		size = size/quickShare + 1
	}
	path, out := folder+"/"+k.Name, folder+"/out.pb.gz"
	if err := k.Write(path, size); err != nil {
		return err
	}
	defer os.Remove(path)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	r := row{cells: []string{"`" + k.Name + "`", k.What, formatSize(uint64(info.Size()))}}
	commands := [][]string{{"top", path}, {"convert", path, out}, {"merge", "-o", out, path, path}}
	if h.Quick && k.Amplifies {
		commands = commands[:1]
	} else if h.Quick {
		commands = commands[i%len(commands):][:1]
	}
	for _, args := range commands {
		o, err := h.child(ctx, limits{memory: fileAddresses, time: mostFileTime}, append([]string{h.Ccmapd}, args...)...)
		if err != nil {
			return err
		}
		os.Remove(out) // where it was written
		switch {
		case o.panicked() || o.signal != 0 || o.timedOut:
			r.miss("%s: %s: %s", args[0], o.how(), tail(o.stderr))
		case o.rss > mostFileMemory:
			r.miss("%s: more than %s of memory", args[0], formatSize(mostFileMemory))
		case o.cpu > mostFileCPU:
			r.late("%s: more than %v of CPU time", args[0], mostFileCPU)
		}
		r.cells = append(r.cells, fileResult(o), report.Seconds(o.cpu.Seconds()), formatSize(o.rss))
	}
	h.add(r)
	return ctx.Err()
}

// formatSize returns a number of bytes in the unit that has few digits.
func formatSize(bytes uint64) string {
	switch {
	case bytes >= 1<<20:
		return report.Count(float64(bytes>>20)) + " MiB"
	case bytes >= 1<<10:
		return report.Count(float64(bytes>>10)) + " KiB"
	}
	return report.Count(float64(bytes)) + " B"
}

// fileResult says whether a file was read.
func fileResult(o outcome) string {
	if o.code == 0 && o.signal == 0 && !o.timedOut {
		return "read"
	}
	if o.code == 1 && o.signal == 0 {
		return "refused"
	}
	return o.how()
}
