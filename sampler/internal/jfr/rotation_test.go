package jfr

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/attach"
)

// Chunks that others begin by dumps lose no event and repeat none: a recording beside ours has
// as many by the JDK's own reader, however short the chunks live.
func TestRotations(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the goroutines of TestSession, for longer")
	}
	for _, java := range javas(t) {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(java))), func(t *testing.T) {
			jvm := startJVM(t, java, spin)
			target, err := attach.Open(jvm.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			defer target.Close()
			jcmd := func(line string) {
				t.Helper()
				if answer, err := target.Jcmd(t.Context(), patient, line); err != nil {
					t.Fatal(answer, err)
				}
			}
			jcmd("JFR.start name=other settings=none")
			s, err := Open(t.Context(), options(jvm.Process.Pid))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := s.Run(ctx)
				done <- err
			}()
			events, dir := 0, t.TempDir()
			count := func(sample *ccmap.Sample) {
				if sample.Thread < restThreads { // others are of no event
					events++
				}
			}
			const rotations, enough = 12, 20
			dump := "JFR.dump name=other filename=" + filepath.Join(dir, "dump.jfr")
			for i := 0; i < rotations || events < enough; i++ {
				if jcmd(dump); i%10 == 0 { // the others come as fast as the JVM can
					time.Sleep(pollTime)
				}
				s.Info().Sink.Queue.Drain(count)
			}
			jcmd(dump)
			cancel()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			last := filepath.Join(dir, "last.jfr")
			jcmd("JFR.dump name=other filename=" + last)
			s.Info().Sink.Queue.Drain(count)
			if want := recorded(t, java, last); events != want {
				t.Errorf("%d events, want %d", events, want)
			}
			if w := s.Stats().Warning; w != "" {
				t.Errorf("the session warns: %s", w)
			}
		})
	}
}

var sampledLine = regexp.MustCompile(`(?m)^ *(?:sampled|event)Thread = "([^"]*)"`)

// recorded returns how many samples the JDK's own reader finds, without those of the recorder's threads.
func recorded(t *testing.T, java, file string) (events int) {
	t.Helper()
	jfr := exec.Command(filepath.Join(filepath.Dir(java), "jfr"), "print", "--events", "jdk.ExecutionSample,jdk.CPUTimeSample", "--stack-depth", "1", file)
	out, err := jfr.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range sampledLine.FindAllStringSubmatch(string(out), -1) {
		if !isOverhead(kindOfThread(found[1])) {
			events++
		}
	}
	return events
}
