package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/safepath"
)

// Files of periods are under Dir/targets, as TARGET/BUILD/FROM-TO.json.zst, with times in UTC. They have
// command lines and labels, and the daemon removes files there with its own rights. So no level of the
// path up to / may be one that other users can change ([safepath]).
const (
	targetsDir = "targets"
	periodTime = "20060102T150405.000Z"
	periodType = ".json.zst"
	buildChars = 12    // of a build id, in names of files
	storeMode  = 0o750 // of directories that are made
	// storeTime is how long the disk has to answer when the store is checked.
	storeTime = 30 * time.Second
)

// PrepareStore makes the directory of the files, and returns an error with a cure if no file can be written
// there, or if others than root and this user can change the directory or the path to it. Without files it
// does nothing. Call it before Run: the first period may end an hour later.
func (d *Daemon) PrepareStore() error { return prepareStore(d.Config().Store, prepareTargets) }

// prepareStore waits for prepare, which may hang with the disk.
func prepareStore(s config.Store, prepare func(dir string) error) error {
	if !s.Files {
		return nil
	}
	dir := filepath.Join(s.Dir, targetsDir)
	answer := make(chan error, 1)
	err := errors.New("the disk does not answer")
	if within(context.Background(), storeTime, func() { answer <- prepare(dir) }) {
		err = <-answer
	}
	if err == nil {
		return nil
	}
	cure := fmt.Sprintf("Let user %d write there, name another directory as dir in [store], or set files = false.", os.Geteuid())
	if first, ok := advice.Of(err); ok {
		cure = first + " Or name another directory as dir in [store]."
	}
	return advice.Add(fmt.Errorf("prepare to file periods: %w", err), "%s", cure)
}

// prepareTargets makes the directory of all targets, and looks whether this process may write there.
func prepareTargets(path string) error {
	dir, err := safepath.MakeDir(path, storeMode)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Faccessat(int(dir.Fd()), ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "write to", Path: path, Err: err}
	}
	return nil
}

func (p *periods) path(target, build string, from, to time.Time) string {
	name := from.UTC().Format(periodTime) + "-" + to.UTC().Format(periodTime) + periodType
	return filepath.Join(p.store().Dir, targetsDir, target, buildName(build), name)
}

// buildName returns a build id as the name of a directory.
func buildName(build string) string {
	if build == "" {
		return "unknown"
	}
	name := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, build)
	return name[:min(len(name), buildChars)]
}

// writePeriod writes a file below a directory that it opens anew: that may have been mounted, or have got
// another owner, since the last period.
func writePeriod(path string, s *ccmap.Snapshot) error {
	dir, err := safepath.MakeDir(filepath.Dir(path), storeMode)
	if err != nil {
		return fmt.Errorf("file period: %w", err)
	}
	defer dir.Close()
	if err := export.WriteFile(safepath.At(dir, filepath.Base(path)), s); err != nil {
		return fmt.Errorf("file period: write %s: %w", path, errors.Unwrap(err)) // whose own path is of a descriptor
	}
	return nil
}

// periodFile is a file of a period.
type periodFile struct {
	path string // in the directory of all targets
	to   time.Time
	size int64
}

// retention tells how old files are. The wall clock may be wrong: a jump ahead must not make all files
// old at once. So the time that files are compared with goes ahead as this process runs, and begins
// with the latest file that there was, where the wall clock is not behind it.
type retention struct {
	at  time.Time     // that files are compared with; zero: not known yet
	ran time.Duration // how long this process had run then
}

// now returns the time that files are compared with.
func (r *retention) now(wall time.Time, ran time.Duration, latest time.Time) time.Time {
	if r.at.IsZero() {
		r.at = latest
	} else {
		r.at = r.at.Add(ran - r.ran)
	}
	if r.ran = ran; wall.Before(r.at) {
		r.at = wall
	}
	return r.at
}

// removeOld removes the files of periods that are older than permitted, and then the oldest, until the
// rest is small enough. It touches no file of another name. Its first call is at the start.
func (p *periods) removeOld(wall time.Time) {
	p.removing.Lock()
	defer p.removing.Unlock()
	store := p.store()
	dir, err := openTargets(store.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		p.log.Error("cannot look for old files", "error", err)
		return
	}
	defer dir.Close()
	files, err := periodFiles(dir.FS())
	if err != nil {
		p.log.Error("cannot look for old files", "error", err)
	}
	total, latest := int64(0), wall
	for _, f := range files {
		total, latest = total+f.size, f.to
	}
	now := p.retention.now(wall, time.Since(p.began), latest)
	for _, f := range files {
		old := store.Keep > 0 && now.Sub(f.to) > store.Keep
		if !old && (store.MaxBytes <= 0 || total <= store.MaxBytes) {
			return
		}
		if err := dir.Remove(f.path); err != nil {
			p.log.Error("cannot remove old file", "error", err)
			continue
		}
		total -= f.size
		dir.Remove(filepath.Dir(f.path)) // fails unless it is empty
	}
}

// openTargets opens the directory of all targets, if it is one that no other user can change.
func openTargets(store string) (*os.Root, error) {
	dir, err := safepath.OpenDir(filepath.Join(store, targetsDir))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return os.OpenRoot(safepath.At(dir, "."))
}

// periodFiles returns all files of periods, the oldest first, by their paths in the directory of all
// targets.
func periodFiles(dir fs.FS) ([]periodFile, error) {
	var files []periodFile
	err := fs.WalkDir(dir, ".", func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		to, ok := periodEnd(e.Name())
		info, err := e.Info()
		if ok && err == nil {
			files = append(files, periodFile{path, to, info.Size()})
		}
		return nil
	})
	slices.SortFunc(files, func(a, b periodFile) int { return cmp.Or(a.to.Compare(b.to), cmp.Compare(a.path, b.path)) })
	return files, err
}

// periodEnd reads the end of a period out of the name of its file.
func periodEnd(name string) (to time.Time, ok bool) {
	name, ok = strings.CutSuffix(name, periodType)
	from, end, found := strings.Cut(name, "-")
	if !ok || !found {
		return time.Time{}, false
	}
	if _, err := time.Parse(periodTime, from); err != nil {
		return time.Time{}, false
	}
	to, err := time.Parse(periodTime, end)
	return to, err == nil
}
