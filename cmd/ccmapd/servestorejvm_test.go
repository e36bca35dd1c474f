package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
)

// aJavaOwner is the user of a daemon without capabilities and of its JVM, and of no other test.
const aJavaOwner = 65527

// TestServeGoesOnOfJVMs: a daemon that was killed goes on in the same profile of a JVM: root's daemon, the packaged
// unit's on a JVM of another user, and an ordinary user's on a JVM of its own.
func TestServeGoesOnOfJVMs(t *testing.T) {
	t.Parallel()
	jdks := jvmtest.JDKs(t)
	jdk := jdks[len(jdks)-1]
	needEngine(t)
	needRoot(t)
	for name, as := range map[string]func(*testing.T, *servedDaemon){
		"root":    func(*testing.T, *servedDaemon) {},
		"service": func(t *testing.T, s *servedDaemon) { s.asService(t) },
		"user":    func(t *testing.T, s *servedDaemon) { s.asUser(t, aJavaOwner, nil) },
	} {
		t.Run(jdk.Name+" "+name, func(t *testing.T) {
			jvm := jdk.StartAs(t, aJavaOwner, "Work", "rests")
			s := startServed(t, fmt.Sprintf("[[target]]\nname = \"jvm\"\nmatch = { pid = %d }\n", jvm.PID))
			as(t, s)
			s.listen(t)
			logged := s.copied(t)
			for begin := time.Now(); logged < 20; logged = s.copied(t) {
				if time.Sleep(50 * time.Millisecond); time.Since(begin) > 3*time.Minute {
					t.Fatalf("%d samples are logged", logged)
				}
			}
			next := s.killed(t)
			m, err := (&client.Reader{Sockets: []string{s.socket}}).Read(t.Context(), "@jvm", export.ReadOptions{})
			if err != nil {
				t.Fatalf("the first answer: %v", err)
			}
			first := m.Snapshot().Total().Samples
			if first < logged {
				t.Errorf("the first answer has %d samples, and the log had %d", first, logged)
			}
			next.awaitTarget(t, "jvm", "that the process goes on", func(st daemon.TargetStatus) bool {
				return st.State == daemon.Sampling && int64(st.Counters.Samples) > first
			})
			if out, err := next.ask(t, "rotate", "@jvm"); err != nil {
				t.Fatalf("rotate: %v\n%s", err, out)
			}
			if n := s.copied(t); n <= first {
				t.Errorf("the store has %d samples of a process that goes on, and had %d", n, first)
			}
		})
	}
}

// copied returns the samples of the target in a copy of the store: root does not read one that is another user's.
func (s *servedDaemon) copied(t *testing.T) int64 {
	t.Helper()
	for begin := time.Now(); ; {
		dir := filepath.Join(t.TempDir(), "store")
		err := os.CopyFS(dir, os.DirFS(s.store))
		if err == nil {
			return samplesIn(t, dir, "jvm")
		}
		if !errors.Is(err, fs.ErrNotExist) || time.Since(begin) > time.Minute { // else it was filed meanwhile
			t.Fatal(err)
		}
	}
}
