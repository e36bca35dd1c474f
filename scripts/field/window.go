package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// window is a time while witnesses watched the same process.
type window struct {
	file  string        // ccmapd's profile in JSON, which is complete
	pprof string        // the same in profile.proto
	pgo   string        // the same for go build -pgo; empty: it would find nothing
	peer  string        // runtime/pprof's, or empty
	clock time.Duration // CPU time of the process, by its own clock; 0: unknown

	switches int // number of times that the process's threads left a CPU; 0: unknown
}

// watch attaches ccmapd to a process. If the process serves runtime/pprof at an address,
// that watches at the same time. For a user without privileges CPU time is that in user
// mode alone.
func (f *field) watch(ctx context.Context, p *campaign.Process, name, user, address string) (window, error) {
	w := f.newWindow(name)
	clock := func() (time.Duration, error) { return p.CPU() }
	if user != "" {
		clock = func() (time.Duration, error) { return userTime(p.PID()) }
	}
	args := []string{"-o", w.pprof, "--tune=false", "-i", "10ms"}
	if w.pgo != "" {
		args = append(args, "-o", w.pgo)
	}
	s, err := f.Attach(ctx, p.PID(), user, w.file, args...)
	if err != nil {
		return w, err
	}
	switched := p.Switches()
	before, err1 := clock()
	err2 := f.watchPeer(ctx, &w, address)
	after, err3 := clock()
	_, err4 := s.End()
	w.clock, w.switches = after-before, p.Switches()-switched
	return w, errors.Join(err1, err2, err3, err4)
}

// newWindow names the files of a window.
func (f *field) newWindow(name string) window {
	folder := f.Path("profiles", name)
	w := window{file: filepath.Join(folder, "ccmapd.json.gz"), pprof: filepath.Join(folder, "ccmapd.pb.gz")}
	if !slices.Contains(withoutStartLines, strings.TrimSuffix(name, again)) {
		w.pgo = filepath.Join(folder, "default.pgo")
	}
	return w
}

// again is what a second window's name ends with.
const again = "-again"

// withoutStartLines are programs of versions of Go that do not tell where functions begin, which go build -pgo wants.
var withoutStartLines = []string{"go1.18.10", "go1.19.13", "debian-go1.19"}

// watchPeer lets the window's time pass.
func (f *field) watchPeer(ctx context.Context, w *window, address string) error {
	if address == "" {
		select {
		case <-time.After(f.length()):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.peer = filepath.Join(filepath.Dir(w.file), "runtime.pb.gz")
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%.0f", address, f.length().Seconds())
	file, err := os.Create(w.peer)
	if err != nil {
		return err
	}
	return errors.Join(campaign.Fetch(ctx, http.DefaultClient, url, file), file.Close())
}

// length is the length of a window.
func (f *field) length() time.Duration {
	if f.Quick {
		return 3 * time.Second
	}
	return f.window
}

// userTime returns the CPU time of a process in user mode.
func userTime(pid int) (time.Duration, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	stat, err := p.Stat()
	const tick = 10 * time.Millisecond // USER_HZ, which is 100 on all of Linux
	return time.Duration(stat.UTime) * tick, err
}
