package bucket

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/safepath"
)

// Dir is a bucket in a directory. Each object is a file. Processes share it by the locks and links of one kernel, so
// the file system must be local.
//
//	KEY              an object, never changed in place
//	.new/<random>    an object that is being written; it is removed an hour later
//	.lock            flock(2) of those who replace or remove
type Dir struct{ root *os.Root }

const (
	tempDir  = ".new"
	lockName = ".lock"
	mode     = 0o700
	tempAge  = time.Hour
)

// OpenDir opens the bucket of a directory, which it makes if it is missing. No other user may be able to change the
// directory or the way to it ([safepath.ErrOthers]).
func OpenDir(name string) (*Dir, error) {
	checked, err := safepath.MakeDir(name, mode)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	defer checked.Close()
	root, err := os.OpenRoot(safepath.At(checked, "."))
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	d := &Dir{root}
	if err := root.MkdirAll(tempDir, mode); err != nil {
		root.Close()
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	d.removeOld(time.Now().Add(-tempAge))
	return d, nil
}

// Close frees the directory.
func (d *Dir) Close() error { return d.root.Close() }

// removeOld removes what processes that were killed have left.
func (d *Dir) removeOld(before time.Time) {
	names, err := fs.ReadDir(d.root.FS(), tempDir)
	if err != nil {
		return
	}
	for _, n := range names {
		if info, err := n.Info(); err == nil && info.ModTime().Before(before) {
			d.root.Remove(path.Join(tempDir, n.Name()))
		}
	}
}

// Get implements [Bucket].
func (d *Dir) Get(_ context.Context, key string, most int64) ([]byte, string, error) {
	f, size, err := d.open(key)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	if size > most {
		return nil, "", fmt.Errorf("get %s: %w: %d bytes", key, ErrTooLarge, size)
	}
	body := bytes.NewBuffer(make([]byte, 0, size))
	if _, err := io.Copy(body, io.LimitReader(f, most)); err != nil {
		return nil, "", fmt.Errorf("get %s: %w", key, err)
	}
	return body.Bytes(), tagOf(body.Bytes()), nil
}

// Range implements [Bucket].
func (d *Dir) Range(_ context.Context, key string, offset, size int64) ([]byte, error) {
	f, all, err := d.open(key)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if offset < 0 || size < 0 || offset > all-size {
		return nil, fmt.Errorf("get %s: it has %d bytes, not %d from %d on", key, all, size, offset)
	}
	body := make([]byte, size)
	if _, err := f.ReadAt(body, offset); err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	return body, nil
}

// open opens the file of an object, and returns its size.
func (d *Dir) open(key string) (*os.File, int64, error) {
	if err := checkKey(key); err != nil {
		return nil, 0, err
	}
	f, err := d.root.OpenFile(key, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, 0, fmt.Errorf("get %s: %w", key, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file: remove it, nothing but a hub may write there")
	}
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("get %s: %w", key, err)
	}
	return f, info.Size(), nil
}

func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:16])
}

// Put implements [Bucket]. A new object appears by link(2), which fails if the name is taken; a changed one by a
// rename under the lock.
func (d *Dir) Put(ctx context.Context, key string, body []byte, c Condition) error {
	if err := checkKey(key); err != nil {
		return err
	}
	temp := path.Join(tempDir, rand.Text())
	defer d.root.Remove(temp) // after a rename it is gone
	err := d.writeTemp(temp, body)
	if err == nil && c.Absent {
		err = d.link(temp, key)
	} else if err == nil {
		err = d.replace(ctx, temp, key, c)
	}
	if err == nil {
		err = d.syncDirs(path.Dir(key))
	}
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

func (d *Dir) writeTemp(temp string, body []byte) error {
	f, err := d.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// link makes an object that must be absent. Another process may remove the empty directory meanwhile.
func (d *Dir) link(temp, key string) error {
	const most = 100
	for range most {
		if err := d.root.MkdirAll(path.Dir(key), mode); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		err := d.root.Link(temp, key)
		if errors.Is(err, fs.ErrExist) {
			return ErrCondition
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return errors.New("its directory is removed again and again: nothing but hubs may write there")
}

func (d *Dir) replace(ctx context.Context, temp, key string, c Condition) error {
	unlock, err := d.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if c.Tag != "" {
		_, tag, err := d.Get(ctx, key, 1<<62)
		if errors.Is(err, ErrNotFound) || err == nil && tag != c.Tag {
			return ErrCondition
		}
		if err != nil {
			return err
		}
	}
	if err := d.root.MkdirAll(path.Dir(key), mode); err != nil {
		return err
	}
	return d.root.Rename(temp, key)
}

// lock waits for all others who replace or remove. A process that is killed frees its lock.
func (d *Dir) lock() (unlock func(), err error) {
	f, err := d.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w: the file system must be local", lockName, err)
	}
	return func() { f.Close() }, nil
}

// Delete implements [Bucket].
func (d *Dir) Delete(_ context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	unlock, err := d.lock()
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	defer unlock()
	if err := d.root.Remove(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	dir := path.Dir(key)
	for ; dir != "." && d.root.Remove(dir) == nil; dir = path.Dir(dir) { // as long as they are empty
	}
	if err := d.syncDirs(dir); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

// syncDirs makes the names of a directory durable, and its own. A directory that was removed has none.
func (d *Dir) syncDirs(dir string) error {
	for ; ; dir = path.Dir(dir) {
		f, err := d.root.Open(dir)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if dir == "." {
			return nil
		}
	}
}

// List implements [Bucket]. It reads the directories below the prefix as it comes to them.
func (d *Dir) List(ctx context.Context, prefix string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		start := "."
		if at := strings.LastIndexByte(prefix, '/'); at >= 0 {
			start = prefix[:at]
		}
		if start != "." && checkKey(start) != nil {
			return
		}
		var all []Entry
		err := fs.WalkDir(d.root.FS(), start, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // it was removed meanwhile
			case err != nil:
				return err
			case name != "." && entry.Name()[0] == '.' && entry.IsDir():
				return fs.SkipDir
			case !entry.Type().IsRegular() || entry.Name()[0] == '.' || !strings.HasPrefix(name, prefix):
				return ctx.Err()
			}
			if info, err := entry.Info(); err == nil {
				all = append(all, Entry{name, info.Size(), info.ModTime()})
			}
			return nil
		})
		sortByKey(all) // a walk has a/b before a.b
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(Entry{}, fmt.Errorf("list %s: %w", prefix, err))
		}
	}
}
