package process_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/refusal"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/internal/traceetest"
)

func TestMain(m *testing.M) {
	traceetest.Main()
	os.Exit(testrun.Guard(m).Run())
}

// TestAccessAgainstKernel: Access allows no process of any kind to a peer that the kernel refuses, and all that the
// kernel allows but for what its table calls stricter.
func TestAccessAgainstKernel(t *testing.T) {
	t.Parallel()
	needRoot(t)
	program := traceetest.Program(t)
	peers := []struct {
		name      string
		user      traceetest.User
		contained bool
		asker     *traceetest.Process
	}{
		{name: "the user", user: traceetest.Nobody},
		{name: "the user after newgrp", user: traceetest.OtherGroup},
		{name: "another user", user: traceetest.Other},
		{name: "the user in a container", user: traceetest.Nobody, contained: true},
	}
	for i, p := range peers {
		peers[i].asker = traceetest.Ask(t, program, p.user, p.contained)
	}
	allowed := 0
	for _, kind := range traceetest.Kinds() {
		target := kind.Start(t, program)
		owner, err := process.OwnerOf(target.PID)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range peers {
			tracer := process.Tracer{UID: int(p.user.UID), GID: int(p.user.GID), Free: process.IsFree(p.asker.PID)}
			got, kernel := tracer.Access(owner, process.ReadScope()), p.asker.Access(t, target.PID)
			if got > kernel || got < kernel && !kind.Strict && !p.contained {
				t.Errorf("%s into %s: %v, the kernel says %v; owner %+v, free %v", p.name, kind.Name, got, kernel, owner, tracer.Free)
			}
			if got > process.NoAccess {
				allowed++
			}
		}
	}
	if allowed != 3 { // plain, other user and newgrp, each to its own
		t.Errorf("%d pairs are allowed", allowed)
	}
}

// TestOwnerFollowsProcess: a process that executes a set-group-ID program, or makes itself undumpable, is no longer its
// user's.
func TestOwnerFollowsProcess(t *testing.T) {
	t.Parallel()
	needRoot(t)
	program := traceetest.Program(t)
	p := traceetest.KindNamed(t, "plain").Start(t, program)
	check := func(when string, traceable bool) {
		t.Helper()
		if owner, err := process.OwnerOf(p.PID); err != nil || owner.Traceable != traceable || owner.UID != int(traceetest.Nobody.UID) {
			t.Errorf("%s: %+v, %v", when, owner, err)
		}
	}
	check("at its start", true)
	p.SetDumpable(t, false)
	check("not dumpable", false)
	p.SetDumpable(t, true)
	check("dumpable again", true)
	p.Exec(t, traceetest.KindNamed(t, "setgid").File(t, program))
	check("after an exec", false)
}

// TestAccessByScope: Yama's scopes, which the machine of the test may not have.
func TestAccessByScope(t *testing.T) {
	t.Parallel()
	own := process.Owner{UID: 1, GID: 1, Traceable: true}
	tracer := process.Tracer{UID: 1, GID: 1, Free: true}
	for scope, want := range map[process.Scope]process.Access{
		process.ScopeClassic: process.AttachAccess, process.ScopeRestricted: process.ReadAccess,
		process.ScopeAdmin: process.NoAccess, process.ScopeNone: process.NoAccess, 4: process.NoAccess, -1: process.NoAccess,
	} {
		if got := tracer.Access(own, scope); got != want {
			t.Errorf("scope %d: %v, want %v", scope, got, want)
		}
		if got := (process.Tracer{UID: 1, GID: 1}).Access(own, scope); got != process.NoAccess {
			t.Errorf("scope %d: a tracer that is not free has %v", scope, got)
		}
		if got := (process.Tracer{Free: true}).Access(process.Owner{}, scope); got != process.NoAccess {
			t.Errorf("scope %d: an owner that is not known lets root's group in: %v", scope, got)
		}
	}
}

// TestNoMemory: the reason tells what a user can do, by Yama's scope.
func TestNoMemory(t *testing.T) {
	t.Parallel()
	for scope, want := range map[process.Scope]string{
		process.ScopeClassic: "", process.ScopeRestricted: "ptrace_scope is 1: start the program by 'ccmapd run'",
		process.ScopeAdmin: "ptrace_scope is 2: set that to 0", process.ScopeNone: "ptrace_scope is 3: that stays",
	} {
		if got := process.ScopeRefuses(scope); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("scope %d: %q, want %q", scope, got, want)
		}
	}
	if err := process.NoMemory(os.Getpid(), unix.EPERM); !errors.Is(err, refusal.ErrPermission) || !errors.Is(err, unix.EPERM) {
		t.Error(err)
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		testrun.Lacks(t, "only root can run this test")
	}
}
