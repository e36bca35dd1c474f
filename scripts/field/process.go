package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a sampled program, a program that makes another one work, or ccmapd.
type process struct {
	cmd   *exec.Cmd
	ready []string // match of the line that said so, with its groups
	ended chan error

	mu   sync.Mutex
	said strings.Builder // guarded by mu; the first mostSaid bytes of output
}

// mostSaid bounds the output that is kept to explain an end.
const mostSaid = 64 << 10

// launch describes the start of a program.
type launch struct {
	command []string
	dir     string
	env     []string       // in addition to the environment
	user    string         // empty: the campaign's
	ready   *regexp.Regexp // matches the output line that says that it works; nil: it works at once
	stdin   io.Reader
	stdout  io.Writer // nil: output is read only for the line
}

// start starts a program and returns when it is ready.
func (f *field) start(ctx context.Context, l launch) (*process, error) {
	cmd, err := l.cmd(ctx)
	if err != nil {
		return nil, err
	}
	out, in := io.Pipe()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = l.stdin, in, in
	if l.stdout != nil {
		cmd.Stdout = l.stdout
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", l.command[0], err)
	}
	p := &process{cmd: cmd, ended: make(chan error, 1)}
	go func() {
		err := cmd.Wait()
		in.Close()
		p.ended <- err
	}()
	if ready := p.listen(out, l.ready); l.ready != nil && !<-ready {
		return nil, errors.Join(fmt.Errorf("%s ended before it was ready", l.command[0]), p.wait())
	}
	return p, nil
}

func (l launch) cmd(ctx context.Context) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, l.command[0], l.command[1:]...)
	cmd.Dir = l.dir
	cmd.Env = append(cmd.Environ(), l.env...)
	if l.user == "" {
		return cmd, nil
	}
	credential, err := credentialOf(l.user)
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	return cmd, nil
}

func credentialOf(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// listen reads all output. The channel gets true when a matching line has come, and false
// if the output ends without one.
func (p *process) listen(out io.Reader, ready *regexp.Regexp) <-chan bool {
	found := make(chan bool, 1)
	go func() {
		defer close(found)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			p.keep(lines.Text())
			if ready == nil || p.ready != nil {
				continue
			}
			if p.ready = ready.FindStringSubmatch(lines.Text()); p.ready != nil {
				found <- true
			}
		}
		io.Copy(io.Discard, out) // rest of a line that is too long
	}()
	return found
}

func (p *process) keep(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said.Len() < mostSaid {
		p.said.WriteString(line + "\n")
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// cpu returns the CPU time that the process has used so far, by its own clock.
func (p *process) cpu() (time.Duration, error) {
	var t unix.Timespec
	clock := int32(^p.pid()<<3 | 2) // CPUCLOCK_SCHED of the process, as in clock_getcpuclockid(3)
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", p.pid(), err)
	}
	return time.Duration(t.Nano()), nil
}

// wait waits for the end of the program. The program's output explains an error.
func (p *process) wait() error {
	err := <-p.ended
	p.ended <- err // for another wait
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(p.cmd.Args, " "), err, p.said.String())
	}
	return nil
}

// stop ends the program. It is not an error if the program has ended.
func (p *process) stop() {
	p.cmd.Process.Kill()
	p.wait()
}
