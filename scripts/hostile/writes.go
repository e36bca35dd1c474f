package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// writesCampaign kills ccmapd while it writes a profile. The file must hold the old
// content or the new one, and the next run must leave no temporary file.
var writesCampaign = kind{
	name:  "writes",
	about: "kill ccmapd as it writes a profile, and see whether files are whole",
	example: `  go -C scripts run ./hostile writes            500 kills in mid-write, some minutes
  go -C scripts run ./hostile writes -quick     some of each`,
	head: []string{"attack", "rounds", "killed in mid-write", "file as before", "file new and whole", "file torn",
		"temporary files after the next run"},
	run: runWrites,
}

// write is one way to write a profile. IN and OUT stand for files.
type write struct {
	name     string
	kills    int // in mid-write
	quick    int // kills with -quick
	command  string
	replaces bool // an existing file
}

func writes() []write {
	return []write{
		{"SIGKILL of `convert` to a new file", 200, 6, "convert IN OUT.xml", false},
		{"SIGKILL of `convert` in place of a file", 200, 6, "convert IN OUT.pb.gz", true},
		{"SIGKILL of `merge` in place of a file", 100, 6, "merge IN IN -o OUT.json.zst", true},
	}
}

// writing is the rounds of a write, and their results.
type writing struct {
	*hostile
	folder   string
	args     []string
	file     string
	old, new []byte        // old is nil without an old file
	takes    time.Duration // from the creation of the temporary file to the end

	rounds, killed, before, after, torn, left int
}

// tries is how many rounds a kill in mid-write may take on the average: a round whose
// kill comes after the end of the write kills nothing.
const tries = 10

func runWrites(ctx context.Context, h *hostile) error {
	in := h.Path(fmt.Sprintf("writes-%d.json", os.Getpid()))
	if err := export.WriteFile(in, thicket(h, 18_000).Snapshot()); err != nil {
		return err
	}
	defer os.Remove(in)
	for _, w := range writes() {
		if !h.wants(w.name) {
			continue
		}
		if err := h.assaultWrite(ctx, w, in); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

// thicket returns a map of about so many contexts: its file takes long to write.
func thicket(h *hostile, contexts int) *ccmap.Map {
	const depth, methods = 12, 500
	m := ccmap.New(ccmap.Options{})
	frames := make([]ccmap.Frame, depth)
	for range contexts / depth {
		for i := range frames {
			frames[i].Method = m.Names().Intern(ccmap.Method{Name: fmt.Sprintf("main.f%d", h.IntN(methods)), File: "main.go", StartLine: 7})
			frames[i].Offset = 1
		}
		m.Fold(&ccmap.Sample{Frames: frames, Weight: 1e7, Fresh: ccmap.FreshUnknown})
	}
	return m
}

// assaultWrite runs all rounds of a write, and adds its row.
func (h *hostile) assaultWrite(ctx context.Context, w write, in string) error {
	if h.Quick {
		w.kills = w.quick
	}
	folder, err := os.MkdirTemp(h.Work, "writes-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	k := &writing{hostile: h, folder: folder}
	k.args = strings.Fields(strings.NewReplacer("IN", in, "OUT", filepath.Join(folder, "out")).Replace(w.command))
	for _, arg := range k.args {
		if strings.HasPrefix(arg, folder) {
			k.file = arg
		}
	}
	if err := k.undisturbed(ctx); err != nil {
		return err
	}
	if w.replaces {
		k.old = append([]byte("old "), k.new...)
	}
	for k.killed < w.kills && k.rounds < tries*w.kills {
		if err := k.round(ctx); err != nil {
			return err
		}
		k.rounds++
	}
	h.add(k.row(w))
	return nil
}

// undisturbed writes the file once, to know its content and its time.
func (k *writing) undisturbed(ctx context.Context) error {
	cmd, err := k.begin(ctx)
	if err != nil {
		return err
	}
	appeared := k.appears(cmd)
	if err := cmd.Wait(); err != nil {
		return err
	}
	k.takes = time.Since(appeared)
	k.new, err = os.ReadFile(k.file)
	return err
}

// begin starts ccmapd. The caller must wait for its end.
func (k *writing) begin(ctx context.Context) (*started, error) {
	cmd := exec.CommandContext(ctx, k.Ccmapd, k.args...)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &started{cmd, make(chan struct{}), nil}
	go func() {
		s.err = cmd.Wait()
		close(s.ended)
	}()
	return s, nil
}

// started is a command whose end is awaited.
type started struct {
	*exec.Cmd
	ended chan struct{}
	err   error // after its end
}

func (s *started) Wait() error {
	<-s.ended
	return s.err
}

// appears waits for the temporary file, and returns the time of its appearance. It also
// returns at the end of the command.
func (k *writing) appears(s *started) time.Time {
	for {
		select {
		case <-s.ended:
			return time.Now()
		case <-time.After(50 * time.Microsecond):
		}
		if len(k.temps()) > 0 {
			return time.Now()
		}
	}
}

// temps returns the temporary files in the folder.
func (k *writing) temps() []string {
	found, _ := filepath.Glob(filepath.Join(k.folder, ".*.tmp")) // the pattern is valid
	return found
}

// round kills a write at a random time after its temporary file appeared, looks at the
// file, and then lets another run write to the folder.
func (k *writing) round(ctx context.Context) error {
	if err := k.reset(); err != nil {
		return err
	}
	s, err := k.begin(ctx)
	if err != nil {
		return err
	}
	k.appears(s)
	select {
	case <-s.ended:
	case <-time.After(time.Duration(k.Int64N(int64(k.takes) + 1))):
	}
	s.Process.Kill() // it may have ended
	if err := s.Wait(); err != nil && !strings.Contains(err.Error(), "killed") {
		return err
	}
	if len(k.temps()) > 0 {
		k.killed++
	}
	if err := k.inspect(); err != nil {
		return err
	}
	o, err := k.next(ctx)
	if err == nil && o.code != 0 {
		err = fmt.Errorf("the next run: %s\n%s", o.how(), tail(o.stderr))
	}
	k.left += len(k.temps())
	return errors.Join(err, ctx.Err())
}

// next writes a small profile to the folder.
func (k *writing) next(ctx context.Context) (outcome, error) {
	l := limits{time: longestEnd, stdin: strings.NewReader("main.main;main.f 7\n")}
	return k.child(ctx, l, k.Ccmapd, "convert", "-", filepath.Join(k.folder, "next.json"))
}

// reset restores the folder's first state.
func (k *writing) reset() error {
	if k.old == nil {
		return os.RemoveAll(k.file)
	}
	return os.WriteFile(k.file, k.old, 0o600)
}

// inspect compares the file with the old and the new one.
func (k *writing) inspect() error {
	got, err := os.ReadFile(k.file)
	switch {
	case errors.Is(err, os.ErrNotExist) && k.old == nil:
		k.before++
	case errors.Is(err, os.ErrNotExist):
		k.torn++ // missing
	case err != nil:
		return err
	case k.old != nil && bytes.Equal(got, k.old):
		k.before++
	case bytes.Equal(got, k.new):
		k.after++
	default:
		k.torn++
	}
	return nil
}

// row fills in the row, and its misses.
func (k *writing) row(w write) row {
	r := row{cells: []string{w.name}}
	for _, n := range []int{k.rounds, k.killed, k.before, k.after, k.torn, k.left} {
		r.cells = append(r.cells, strconv.Itoa(n))
	}
	if k.torn > 0 {
		r.miss("%d files torn, want none", k.torn)
	}
	if k.left > 0 {
		r.miss("%d temporary files left after the next run, want none", k.left)
	}
	if k.killed < w.kills {
		r.late("%d rounds killed ccmapd in mid-write, want %d", k.killed, w.kills)
	}
	return r
}
