package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// session is a run of ccmapd that is attached to a process.
type session struct {
	*process
	file   string // the profile that it writes
	stdout bytes.Buffer
}

// sessionReport is the campaigns' part of ccmapd's report.
type sessionReport struct {
	CPU time.Duration `json:"ccmapd_cpu_ns"` // CPU time of ccmapd
}

var sampling = regexp.MustCompile(`^Sampling \d+ `)

// attach runs ccmapd on a process as a user, "" for the campaign's user, and returns when
// it samples. The profile goes to a file whose name gives the format. flags are flags of
// 'ccmapd attach'.
func (f *field) attach(ctx context.Context, pid int, user, file string, flags ...string) (*session, error) {
	if err := writableBy(user, filepath.Dir(file)); err != nil {
		return nil, err
	}
	s := &session{file: file}
	var err error
	s.process, err = f.start(ctx, launch{
		command: append([]string{f.ccmapd, "attach", strconv.Itoa(pid), "--json", "-o", file}, flags...),
		user:    user, ready: sampling, stdout: &s.stdout,
	})
	return s, err
}

// end ends the session and returns ccmapd's report.
func (s *session) end() (sessionReport, error) {
	s.cmd.Process.Signal(syscall.SIGINT) // if it has ended, wait says why
	return s.report()
}

// report waits for the session's end and returns ccmapd's report.
func (s *session) report() (sessionReport, error) {
	var r sessionReport
	if err := s.wait(); err != nil {
		return r, err
	}
	if err := json.Unmarshal(s.stdout.Bytes(), &r); err != nil {
		return r, fmt.Errorf("read ccmapd's report: %w\n%s", err, &s.stdout)
	}
	return r, nil
}

// writableBy makes a folder that a user may write to.
func writableBy(user, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil || user == "" {
		return err
	}
	credential, err := credentialOf(user)
	if err != nil {
		return err
	}
	return os.Chown(folder, int(credential.Uid), int(credential.Gid))
}

// readProfile reads a profile, of ccmapd or of runtime/pprof.
func readProfile(file string) (*ccmap.Snapshot, error) {
	m, _, err := export.ReadFile(file, export.ReadOptions{})
	if err != nil {
		return nil, err
	}
	return m.Snapshot(), nil
}
