package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// startOnDisk starts a hub whose bucket is on a small disk of its own. It returns the path of a file on this disk.
func (p *place) startOnDisk(t *testing.T, size string) (h *process, ballast string) {
	t.Helper()
	disk := p.file("disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", disk).CombinedOutput(); err != nil {
		testrun.Lacks(t, "mount a small disk: %v: %s (needs root)", err, out)
	}
	h = p.startBy(t, disk+"/bucket", "unshare", "-m", "sh", "-c", `mount -t tmpfs -o mode=700,size="$1" tmpfs "$2" && shift 2 && exec "$@"`, "sh", size, disk)
	return h, fmt.Sprintf("/proc/%d/root%s/ballast", h.Process.Pid, disk)
}

// fill writes a file until its disk has no room, and returns its size.
func fill(t *testing.T, name string) (size int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4<<10); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestFullDisk: while the disk of its bucket is full, a hub acknowledges nothing, answers 503, and serves what it has.
// It goes on when there is room, some or enough, and loses nothing that it has acknowledged.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	hub, ballast := p.startOnDisk(t, "4m")
	want, seq, waiting := ccmap.New(ccmap.Options{}), 0, [][]byte{}
	begin := func() []byte {
		seq++
		body, profile := contributionOf(t, "web", "1f0c", seq%3, seq, "main.a", fmt.Sprintf("main.f%d", seq%9))
		if err := want.Merge(profile); err != nil {
			t.Fatal(err)
		}
		return body
	}
	// send sends what waits, and returns how many were acknowledged. The others wait.
	send := func() (acked int) {
		t.Helper()
		var refused [][]byte
		for _, body := range waiting {
			switch status := p.status(t, hub.url, body); status {
			case http.StatusNoContent:
				acked++
			case http.StatusServiceUnavailable:
				refused = append(refused, body)
			default:
				t.Fatalf("status %d", status)
			}
		}
		waiting = refused
		return acked
	}
	more := func(n int) {
		for range n {
			waiting = append(waiting, begin())
		}
	}
	more(20)
	if acked := send(); acked != 20 {
		t.Fatalf("%d of 20 were acknowledged on an empty disk", acked)
	}
	p.await(t, hub.url, 20)
	before := p.sum(t, hub.url)
	size := fill(t, ballast)
	more(20)
	if acked := send(); acked != 0 {
		t.Errorf("%d were acknowledged on a full disk", acked)
	}
	if p.sum(t, hub.url) != before {
		t.Error("the sum has changed on a full disk")
	}
	acked := 20
	for _, room := range []int64{16 << 10, 40 << 10, 100 << 10} { // for some segments, and less for their sums
		if err := os.Truncate(ballast, size-room); err != nil {
			t.Fatal(err)
		}
		more(10)
		acked += send()
		size = fill(t, ballast)
	}
	t.Logf("%d of %d were acknowledged while there was little room", acked-20, seq-20)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for len(waiting) > 0 && t.Context().Err() == nil {
		send()
	}
	p.await(t, hub.url, seq)
	if got := p.sum(t, hub.url); got != textOf(t, want) {
		t.Error("the sum is not the offline merge")
	}
}

// sum returns the sum of the build of web, without its description.
func (p *place) sum(t *testing.T, url string) string {
	t.Helper()
	m, _, err := export.Read(bytes.NewReader(p.get(t, url+"/v1/p/build:web")), export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return textOf(t, m)
}

// textOf returns a profile without its description.
func textOf(t *testing.T, m *ccmap.Map) string {
	t.Helper()
	*m.Meta() = ccmap.Meta{}
	var text bytes.Buffer
	if err := export.Write(&text, export.JSON, m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	return text.String()
}
