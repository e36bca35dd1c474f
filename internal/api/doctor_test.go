package api

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/sampler/engine"
)

// diagnosing returns a server whose reports a function makes.
func diagnosing(t *testing.T, diagnose func(pid int) engine.Report) *Server {
	t.Helper()
	s := newServer(t, newFake(), Options{})
	s.doctors.diagnose = func(_ context.Context, pid int) engine.Report { return diagnose(pid) }
	return s
}

// TestDoctor: a peer may ask about its own processes, a master about all. Other processes do not
// exist.
func TestDoctor(t *testing.T) {
	t.Parallel()
	s := diagnosing(t, func(pid int) engine.Report { return engine.Report{Auto: fmt.Sprint("auto of ", pid)} })
	own, user := ownProcess(t)
	for _, test := range []struct {
		name   string
		peer   peer
		query  string
		status int
		auto   string
	}{
		{"master", master, fmt.Sprint("?pid=", own), 200, fmt.Sprint("auto of ", own)},
		{"master, the daemon", master, "", 200, "auto of 0"},
		{"master, no process", master, "?pid=2147483647", 404, ""},
		{"owner", user, fmt.Sprint("?pid=", own), 200, fmt.Sprint("auto of ", own)},
		{"owner, the daemon", user, "", 404, ""},
		{"another user", userOf(12345), fmt.Sprint("?pid=", own), 404, ""},
		{"loopback", onTCP, fmt.Sprint("?pid=", own), 404, ""},
		{"loopback, the daemon", onTCP, "?pid=0", 403, ""},
		{"stranger", stranger, "", 403, ""},
		{"not a number", master, "?pid=x", 400, ""},
		{"a URL", master, "?url=http://localhost", 400, ""},
	} {
		w := get(s, test.peer, "/v1/doctor"+test.query)
		var r engine.Report
		if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Code != test.status || r.Auto != test.auto {
			t.Errorf("%s: %d %s %v, want %d, %q", test.name, w.Code, w.Body, err, test.status, test.auto)
		}
	}
}

// TestDoctorIsBounded: one report is made at a time, and answers all for some seconds.
func TestDoctorIsBounded(t *testing.T) {
	t.Parallel()
	begun, goOn, made := make(chan bool), make(chan bool), 0
	s := diagnosing(t, func(int) engine.Report {
		made++
		begun <- true
		<-goOn
		return engine.Report{}
	})
	now := time.Now()
	s.doctors.now = func() time.Time { return now }
	answered := make(chan int)
	ask := func() { answered <- get(s, master, "/v1/doctor").Code }
	go ask()
	<-begun
	if w := get(s, master, fmt.Sprint("/v1/doctor?pid=", os.Getpid())); w.Code != 503 || !strings.Contains(w.Body.String(), `"code":"busy"`) {
		t.Errorf("while another is made: %d %s", w.Code, w.Body)
	}
	goOn <- true
	if status := <-answered; status != 200 {
		t.Errorf("the first: %d", status)
	}
	if w := get(s, master, "/v1/doctor"); w.Code != 200 || made != 1 {
		t.Errorf("at once again: %d, %d made", w.Code, made)
	}
	now = now.Add(reportKept)
	go ask()
	<-begun
	goOn <- true
	if status := <-answered; status != 200 || made != 2 || len(s.doctors.kept) != 1 {
		t.Errorf("later: %d, %d made, %d kept", status, made, len(s.doctors.kept))
	}
}

// TestDoctorOfAReusedNumber: a process that ends while it is looked at has no report, because
// another one may have its number.
func TestDoctorOfAReusedNumber(t *testing.T) {
	t.Parallel()
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		child.Process.Kill()
		child.Wait()
	})
	t.Cleanup(end)
	s := diagnosing(t, func(int) engine.Report {
		end()
		return engine.Report{Auto: "of another"}
	})
	if w := get(s, master, fmt.Sprint("/v1/doctor?pid=", child.Process.Pid)); w.Code != 404 || strings.Contains(w.Body.String(), "another") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
