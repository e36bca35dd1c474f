package demo

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// Command is the hidden command of ccmapd that runs [Main].
const Command = "demo-workload"

// Process is a workload in a process of its own. It belongs to one goroutine.
type Process struct{ cmd *exec.Cmd }

// Start starts this executable again by [Command], and returns when the workload is
// ready. The workload ends with its standard input, so it outlives no parent that is
// killed.
func Start(stderr io.Writer) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start workload: %w", err)
	}
	cmd := exec.Command(self, Command, "-attended")
	cmd.Stderr = stderr
	_, err = cmd.StdinPipe() // stays open as long as this process lives
	stdout, err2 := cmd.StdoutPipe()
	if err = errors.Join(err, err2); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start workload: %w", err)
	}
	p := &Process{cmd}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		p.Stop()
		return nil, fmt.Errorf("start workload: %w", err)
	}
	return p, nil
}

// PID returns the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the workload, and waits for its end.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(unix.SIGTERM) // fails only if it has ended
	_ = p.cmd.Wait()                       // how it ends is of no interest
}
