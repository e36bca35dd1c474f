package campaign

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Process is a sampled program, a program that makes another one work, or a profiler.
type Process struct {
	Cmd   *exec.Cmd
	Ready []string // match of the line that said so, with its groups
	ended chan error

	mu   sync.Mutex
	said strings.Builder // guarded by mu; the first mostSaid bytes of output
}

// mostSaid bounds the output that is kept to explain an end.
const mostSaid = 64 << 10

// Launch describes the start of a program.
type Launch struct {
	Command []string
	Dir     string
	Env     []string       // in addition to the environment
	User    string         // empty: the campaign's
	Ready   *regexp.Regexp // matches the output line that says that it works; nil: it works at once
	Stdin   io.Reader
	Stdout  io.Writer // nil: output is read only for the line
}

// Start starts a program and returns when it is ready.
func (l Launch) Start(ctx context.Context) (*Process, error) {
	cmd, err := l.Cmd(ctx)
	if err != nil {
		return nil, err
	}
	out, in := io.Pipe()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = l.Stdin, in, in
	if l.Stdout != nil {
		cmd.Stdout = l.Stdout
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", l.Command[0], err)
	}
	p := &Process{Cmd: cmd, ended: make(chan error, 1)}
	go func() {
		err := cmd.Wait()
		in.Close()
		p.ended <- err
	}()
	if ready := p.listen(out, l.Ready); l.Ready != nil && !<-ready {
		return nil, errors.Join(fmt.Errorf("%s ended before it was ready", l.Command[0]), p.Wait())
	}
	return p, nil
}

// Cmd returns the command, which is not started.
func (l Launch) Cmd(ctx context.Context) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, l.Command[0], l.Command[1:]...)
	cmd.Dir = l.Dir
	cmd.Env = append(cmd.Environ(), l.Env...)
	if l.User == "" {
		return cmd, nil
	}
	credential, err := credentialOf(l.User)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	return cmd, err
}

func credentialOf(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

// listen reads all output. The channel gets true when a matching line has come, and false
// if the output ends without one.
func (p *Process) listen(out io.Reader, ready *regexp.Regexp) <-chan bool {
	found := make(chan bool, 1)
	go func() {
		defer close(found)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			p.keep(lines.Text())
			if ready == nil || p.Ready != nil {
				continue
			}
			if p.Ready = ready.FindStringSubmatch(lines.Text()); p.Ready != nil {
				found <- true
			}
		}
		io.Copy(io.Discard, out) // rest of a line that is too long
	}()
	return found
}

func (p *Process) keep(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said.Len() < mostSaid {
		p.said.WriteString(line + "\n")
	}
}

// LastLine returns the last line that the process has printed so far.
func (p *Process) LastLine() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(p.said.String()), "\n")
	return lines[len(lines)-1]
}

// PID returns the process's number.
func (p *Process) PID() int { return p.Cmd.Process.Pid }

// CPU returns the CPU time that the process has used so far, by its own clock.
func (p *Process) CPU() (time.Duration, error) { return CPUOf(p.PID()) }

// CPUOf returns the CPU time that any process has used so far.
func CPUOf(pid int) (time.Duration, error) {
	var t unix.Timespec
	clock := int32(^pid<<3 | 2) // CPUCLOCK_SCHED of the process, as in clock_getcpuclockid(3)
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// Children returns the processes that the process has started.
func (p *Process) Children() (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.PID())) // the pattern is well-formed
	for _, file := range files {
		text, _ := os.ReadFile(file) // a thread may have ended
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Memory returns the process's resident memory in bytes, or 0.
func (p *Process) Memory() int {
	process, err := procfs.NewProc(p.PID())
	if err != nil {
		return 0
	}
	stat, err := process.Stat()
	if err != nil {
		return 0
	}
	return stat.ResidentMemory()
}

// Switches returns the number of times that the process's living threads have left a CPU.
func (p *Process) Switches() int {
	threads, err := procfs.AllThreads(p.PID())
	if err != nil {
		return 0
	}
	sum := 0
	for _, t := range threads {
		if s, err := t.NewStatus(); err == nil {
			sum += int(s.VoluntaryCtxtSwitches + s.NonVoluntaryCtxtSwitches)
		}
	}
	return sum
}

// Wait waits for the end of the program. The program's output explains an error.
func (p *Process) Wait() error {
	err := <-p.ended
	p.ended <- err // for another wait
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(p.Cmd.Args, " "), err, p.said.String())
	}
	return nil
}

// Stop ends the program. It is not an error if the program has ended.
func (p *Process) Stop() {
	p.Cmd.Process.Kill()
	p.Wait()
}

// Session is a run of ccmapd that is attached to a process.
type Session struct {
	*Process
	stdout bytes.Buffer
}

// SessionReport is the campaigns' part of ccmapd's report.
type SessionReport struct {
	CPU    time.Duration `json:"ccmapd_cpu_ns"` // CPU time of ccmapd
	Source struct{ Samples, Repaired, Rooted, Truncated, Hits uint64 }

	Profile  struct{ Held string }     // which budget has kept ccmapd from more samples
	Overhead struct{ Percent float64 } // of the program's CPU time
}

var sampling = regexp.MustCompile(`^Sampling \d+ `)

// Attach runs ccmapd on a process as a user, "" for the campaign's user, and returns when
// it samples. The profile goes to a file whose name gives the format. flags are flags of
// 'ccmapd attach'.
func (c *Campaign) Attach(ctx context.Context, pid int, user, file string, flags ...string) (*Session, error) {
	if err := WritableBy(user, filepath.Dir(file)); err != nil {
		return nil, err
	}
	s := new(Session)
	var err error
	s.Process, err = Launch{
		Command: append([]string{c.Ccmapd, "attach", strconv.Itoa(pid), "--json", "-o", file}, flags...),
		User:    user, Ready: sampling, Stdout: &s.stdout,
	}.Start(ctx)
	return s, err
}

// End ends the session and returns ccmapd's report.
func (s *Session) End() (SessionReport, error) {
	s.Cmd.Process.Signal(syscall.SIGINT) // if it has ended, Wait says why
	if err := s.Wait(); err != nil {
		return SessionReport{}, err
	}
	return ParseReport(s.stdout.Bytes())
}

// ParseReport reads ccmapd's report, which --json prints. What follows the report is ccmapd's error.
func ParseReport(text []byte) (r SessionReport, err error) {
	from := json.NewDecoder(bytes.NewReader(text))
	if err := from.Decode(&r); err != nil {
		return r, fmt.Errorf("read ccmapd's report: %w\n%s", err, text)
	}
	if said := bytes.TrimSpace(text[from.InputOffset():]); len(said) > 0 {
		return r, fmt.Errorf("sample the program: %s", said)
	}
	return r, nil
}

// WritableBy makes a folder that a user may write to.
func WritableBy(user, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil || user == "" {
		return err
	}
	credential, err := credentialOf(user)
	if err != nil {
		return err
	}
	return os.Chown(folder, int(credential.Uid), int(credential.Gid))
}

// Load sends requests over a number of connections, each as soon as the last is answered,
// until ctx ends.
func Load(ctx context.Context, connections int, url string) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	for range connections {
		go func() {
			for ctx.Err() == nil {
				if Fetch(ctx, client, url, io.Discard) != nil {
					time.Sleep(10 * time.Millisecond) // it may not listen yet
				}
			}
		}()
	}
}

// Fetch writes the content at an address.
func Fetch(ctx context.Context, client *http.Client, url string, w io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(w, response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return err
}
