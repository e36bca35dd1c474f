package bucket

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/internal/versitygw"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

// TestDir checks a directory with more writers than the hub's start has.
func TestDir(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "bucket")
	d, err := OpenDir(name)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 3 {
		if err := Check(t.Context(), d, "check", 100); err != nil {
			t.Fatal(err)
		}
	}
	info, err := d.root.Stat(".")
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	if names, err := os.ReadDir(filepath.Join(name, tempDir)); err != nil || len(names) > 0 {
		t.Errorf("%d temporary files stay, error %v", len(names), err)
	}
}

// TestKilledWriter: what a killed process has left is no object, and goes after an hour.
func TestKilledWriter(t *testing.T) {
	t.Parallel()
	name := t.TempDir()
	os.Chmod(name, 0o700)
	d, err := OpenDir(name)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	old := filepath.Join(name, tempDir, "old")
	for _, file := range []string{old, filepath.Join(name, tempDir, "new")} {
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hours := time.Now().Add(-2 * time.Hour)
	os.Chtimes(old, hours, hours)
	again, err := OpenDir(name)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if names, _ := os.ReadDir(filepath.Join(name, tempDir)); len(names) != 1 || names[0].Name() != "new" {
		t.Errorf("after an hour %v is left, want new", names)
	}
	for e := range d.List(t.Context(), "") {
		t.Errorf("%s is listed", e.Key)
	}
}

// TestKeys: no key leads out of a bucket, or to a file of the bucket's own.
func TestKeys(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "bucket")
	d, err := OpenDir(name)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := os.Symlink("/etc", filepath.Join(name, "out")); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", "/", "/a", "a/", "a//b", "..", "a/../b", ".lock", "a/.b", "A", "a b", "a\x00", strings.Repeat("a", 1000)} {
		_, _, err := d.Get(t.Context(), key, 1)
		if err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("read %q: %v", key, err)
		}
		if d.Put(t.Context(), key, nil, Condition{}) == nil || d.Delete(t.Context(), key) == nil {
			t.Errorf("%q was written or removed", key)
		}
	}
	if _, _, err := d.Get(t.Context(), "out/hostname", 1<<20); err == nil {
		t.Error("a link leads out of the bucket")
	}
}

// TestOthersDirectory: a directory that others can write to is refused.
func TestOthersDirectory(t *testing.T) {
	t.Parallel()
	name := t.TempDir()
	os.Chmod(name, 0o777)
	if d, err := OpenDir(name); err == nil {
		d.Close()
		t.Error("a directory that all users can change was opened")
	}
}

// deaf is a bucket that ignores conditions, as some look-alikes of S3 do.
type deaf struct{ Bucket }

func (d deaf) Put(ctx context.Context, key string, body []byte, _ Condition) error {
	return d.Bucket.Put(ctx, key, body, Condition{})
}

// racy checks conditions, and writes a moment later: when all that race have checked theirs.
type racy struct {
	Bucket
	checked *sync.WaitGroup
}

func (r racy) Put(ctx context.Context, key string, body []byte, c Condition) error {
	_, tag, err := r.Get(ctx, key, 1<<20)
	if c.Absent && err == nil || c.Tag != "" && tag != c.Tag {
		return ErrCondition
	}
	if strings.HasSuffix(key, "/race") {
		r.checked.Done()
		r.checked.Wait()
	}
	return r.Bucket.Put(ctx, key, body, Condition{})
}

// TestBadBuckets: the check finds buckets that lose writes.
func TestBadBuckets(t *testing.T) {
	t.Parallel()
	d, err := OpenDir(filepath.Join(t.TempDir(), "bucket"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const writers = 20
	checked := new(sync.WaitGroup)
	checked.Add(writers)
	for name, b := range map[string]Bucket{"deaf": deaf{d}, "racy": racy{d, checked}} {
		if err := Check(t.Context(), b, "check", writers); err == nil {
			t.Errorf("a %s bucket passes", name)
		} else {
			t.Log(err)
		}
	}
}

// TestS3 checks a real server of S3, versitygw, where it is installed.
func TestS3(t *testing.T) {
	address := versitygw.ForTest(t)
	s, err := OpenS3(S3Options{Endpoint: address, Bucket: versitygw.Bucket, Prefix: "fleet", Region: versitygw.Region, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := Check(t.Context(), s, "check", 50); err != nil {
			t.Fatal(err)
		}
	}
	other, err := OpenS3(S3Options{Endpoint: address, Bucket: "none", Region: versitygw.Region, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.Get(t.Context(), "a", 1); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("a bucket that does not exist: %v", err)
	}
}
