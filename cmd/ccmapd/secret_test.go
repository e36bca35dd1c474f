package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/programtest"
)

// TestSetgidSecret: a set-group-ID program has the contents of a file in its labels that its user may not read. A
// daemon that all users may connect to tells that user nothing of it.
func TestSetgidSecret(t *testing.T) {
	t.Parallel()
	needEngine(t)
	needRoot(t)
	const token, group = "xyzzy-4711", 4321
	secret, program := filepath.Join(programtest.PublicDir(t, 0o755), "token"), setgidProgram(t, group)
	for _, err := range []error{os.WriteFile(secret, []byte(token), 0o640), os.Chown(secret, 0, group)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, secret)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("the program says %q, %v", line, err)
	}
	s := startServed(t, fmt.Sprintf("[[target]]\nname = \"secret\"\nmatch = { exe = %q }\n", program))
	openToAll(t, s)
	s.listen(t)
	s.awaitTarget(t, "secret", "samples", func(st daemon.TargetStatus) bool { return st.Status.Samples > 10 })
	if out, err := s.ask(t, "convert", "@secret", "-", "--to", "folded"); err != nil || !strings.Contains(out, token) {
		t.Fatalf("root does not see the token, so this test proves nothing: %v\n%s", err, out)
	}
	ccmapd := programtest.Copy(t, s.Path, "ccmapd")
	pid := fmt.Sprint(cmd.Process.Pid)
	for _, args := range [][]string{
		{"attach", "--daemon", pid}, {"convert", "@secret", "-", "--to", "folded"}, {"convert", "@secret:" + pid, "-", "--to", "json"},
		{"top", "@secret"}, {"top", "--by", "label:token", "@secret"}, {"doctor", "@" + pid}, {"targets", "--json"},
	} {
		ask := exec.Command(ccmapd, args...)
		ask.Dir, ask.Env = "/", s.Env
		ask.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := ask.CombinedOutput()
		if strings.Contains(string(out), token) || strings.Contains(string(out), "spin") || err == nil && args[0] != "targets" {
			t.Errorf("ccmapd %s, as the user: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// setgidProgram builds the program with labels, and gives it a group.
func setgidProgram(t *testing.T, group int) string {
	t.Helper()
	built := filepath.Join(t.TempDir(), "secret")
	if out, err := exec.Command("go", "build", "-o", built, "./testdata/secret").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := programtest.Copy(t, built, "secret")
	for _, err := range []error{os.Chown(program, 0, group), syscall.Chmod(program, 0o2755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return program
}

// openToAll lets all users connect to a daemon that is not started yet.
func openToAll(t *testing.T, s *servedDaemon) {
	t.Helper()
	file := s.Args[len(s.Args)-1]
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	opened := strings.Replace(string(text), "[listen]\n", "[listen]\nopen = true\n", 1)
	for _, err := range []error{os.WriteFile(file, []byte(opened), 0o600), os.Chmod(filepath.Dir(s.socket), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
}
