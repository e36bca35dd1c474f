package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/store/internal/disk"
)

const (
	// lockWait is how long Add waits for the lock. It holds it for milliseconds itself; a daemon keeps it.
	lockWait  = 2 * time.Second
	lockEvery = 5 * time.Millisecond

	// tempAge is when a file that is being written counts as left behind by a kill.
	tempAge = time.Hour

	// mostTries bounds the attempts to begin a file whose directory another process removes as empty.
	mostTries = 3
)

// Add files the profile of a run without a daemon, and returns its path. Any number of processes may add to one store
// at the same time, and beside a daemon: a file is written under a name of its own, and gets its name by a link, which
// replaces nothing. The lock is taken for the index, the best file and the bounds of Options alone. If another process
// keeps the lock, they follow with the next file, or by that process.
func Add(o Options, k Key, from, to time.Time, whole *ccmap.Snapshot) (string, error) {
	if !isName(k.Target) {
		return "", fmt.Errorf("file profile: %q cannot be the name of a directory", k.Target)
	}
	a := newAdding(o, disk.At(o.Dir))
	if err := a.prepare(); err != nil {
		return "", fmt.Errorf("file profile: %w", withCure(o.Dir, err))
	}
	name, err := a.place(k, fileName{from: from, to: to, owner: k.Owner}, whole)
	if err != nil {
		return "", fmt.Errorf("file profile: %w", withCure(o.Dir, err))
	}
	a.account(k, name, whole)
	return filepath.Join(o.Dir, name), nil
}

// adding is a store without a log, which is another process's if there is one.
type adding struct{ *Store }

func newAdding(o Options, d fileSystem) adding {
	s := &Store{
		Options: o, disk: d, log: o.Logger, opened: time.Now(), unlike: make(map[phaseKey]int), recorded: make(map[string]bool),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return adding{s}
}

// prepare makes a store that is missing, and refuses one of a later version.
func (a adding) prepare() error {
	switch version, err := readFormat(a.disk); {
	case errors.Is(err, fs.ErrNotExist):
		lock, err := awaitLock(a.Dir)
		if errors.Is(err, ErrLocked) {
			return nil // who has it has made the store
		}
		if err != nil {
			return err
		}
		defer lock.Close()
		return a.checkFormat()
	case err != nil:
		return err
	case version > Version:
		return a.checkFormat()
	}
	return nil
}

// awaitLock takes the lock as soon as it is free.
func awaitLock(dir string) (dirLock, error) {
	for until := time.Now().Add(lockWait); ; time.Sleep(lockEvery) {
		lock, err := lockDir(dir)
		if !errors.Is(err, ErrLocked) || time.Now().After(until) {
			return lock, err
		}
	}
}

// place writes a file, and returns its name, which no file had.
func (a adding) place(k Key, n fileName, whole *ccmap.Snapshot) (name string, err error) {
	temp, err := a.write(k.dir(), whole)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, a.disk.Remove(temp)) }()
	for {
		name = path.Join(k.dir(), n.String())
		err := a.disk.Link(temp, name)
		if err == nil {
			return name, a.disk.SyncDir(k.dir())
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		n.to = n.to.Add(time.Millisecond) // another run ended in this one
	}
}

// write writes and syncs a file that has no name yet.
func (a adding) write(dir string, whole *ccmap.Snapshot) (temp string, err error) {
	temp = path.Join(dir, "."+strconv.FormatUint(newID(), 36)+tempType)
	f, err := a.disk.Create(temp)
	for try := 1; errors.Is(err, fs.ErrNotExist) && try < mostTries; try++ {
		f, err = a.disk.Create(temp)
	}
	if err != nil {
		return "", err
	}
	err = writeProfile(f, whole)
	if err == nil {
		err = f.Sync()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err != nil {
		a.disk.Remove(temp) // the first error is the one to report
		return "", err
	}
	return temp, nil
}

// account has the index account for a file. If another process keeps the lock, it follows later.
func (a adding) account(k Key, name string, whole *ccmap.Snapshot) {
	lock, err := awaitLock(a.Dir)
	if err != nil {
		a.log.Info("the index of the store does not know the new file yet", "path", name, "reason", err)
		return
	}
	defer lock.Close()
	a.enter(k, name, whole)
}

// enter evaluates a file, and files of its directory that others could not evaluate, and removes what is too old or
// too much. The caller has the lock. Errors are logged: the file is there.
func (a adding) enter(k Key, name string, whole *ccmap.Snapshot) {
	a.filing.Lock()
	var err error
	if a.index, err = readIndex(a.disk); err != nil {
		a.log.Warn("cannot read the index of the store: it is made anew", "error", err)
	}
	a.takeInDir(k, name)
	a.added(name, whole)
	a.filing.Unlock()
	if now := time.Now(); a.index.exceeds(a.Keep, a.MaxBytes, now) {
		a.Retain(now)
	}
}

// takeInDir evaluates files of the directory of a key that the index does not know, but one of a name, and removes
// what kills have left.
func (a adding) takeInDir(k Key, but string) {
	infos, _ := a.disk.List(k.dir()) // it is there
	looked := 0
	for _, info := range infos {
		name := path.Join(k.dir(), info.Name())
		switch _, known := a.index.find(name, info); {
		case isTemporary(info.Name()) && isLeft(info):
			a.disk.Remove(name)
		case !known && name != but && isFile(name) && info.Mode().IsRegular() && looked < looksAtOnce:
			a.takeIn(name)
			looked++
		}
	}
}

// takeIn looks at a file that the index does not know. The best file of its build may be a later one: then the file
// must be better, and not only about as good.
func (s *Store) takeIn(name string) {
	info, err := s.disk.Stat(name)
	if err != nil {
		return
	}
	whole := s.look(name, info)
	n, isFile := parseFileName(path.Base(name))
	if whole == nil || !isFile || n.best {
		return
	}
	best, q := phaseKey{path.Dir(name), n.owner}.name(0), QualityOf(whole)
	if was, there := s.qualityOf(best); there && Supersedes(was, q) && s.index.files[best].to > s.index.files[name].to {
		return
	}
	if err := s.evaluate(name, q, whole); err != nil {
		s.log.Error("cannot make a file the best of its build", "path", name, "error", err)
	}
}

// exceeds reports whether files that an index knows are too old, or too large together.
func (x *index) exceeds(keep time.Duration, maxBytes int64, now time.Time) bool {
	total, oldest := int64(0), now.UnixNano()
	for name, e := range x.files {
		if n, _ := parseFileName(path.Base(name)); n.best {
			continue // another name, or one that is kept
		}
		total += e.size
		if e.to != 0 {
			oldest = min(oldest, e.to)
		}
	}
	return keep > 0 && now.UnixNano()-oldest > int64(keep) || maxBytes > 0 && total > maxBytes
}
