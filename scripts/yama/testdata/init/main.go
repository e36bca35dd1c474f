// Init is the first process of a virtual machine. It does what /script says, a line at a time, and turns the machine off:
//
//	set FILE TEXT    writes to a file of /proc
//	target ARGS      starts a program as nobody; PID in later lines is its process
//	ARGS             runs a program as nobody, and prints its output and its exit code
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const nobody = 65534

func main() {
	defer syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	for dir, kind := range map[string]string{"/proc": "proc", "/sys": "sysfs", "/dev": "devtmpfs", "/tmp": "tmpfs"} {
		if err := syscall.Mount(kind, dir, kind, 0, ""); err != nil {
			fmt.Println("mount", dir, err)
		}
	}
	os.Chmod("/tmp", 0o1777)
	script, err := os.ReadFile("/script")
	if err != nil {
		fmt.Println(err)
	}
	pid := ""
	for line := range strings.Lines(string(script)) {
		fmt.Print("$ ", line)
		words := strings.Fields(strings.ReplaceAll(line, "PID", pid))
		switch words[0] {
		case "set":
			err = os.WriteFile(words[1], []byte(words[2]), 0)
		case "target":
			pid, err = start(words[1:])
		default:
			var out []byte
			out, err = asNobody(words).CombinedOutput()
			fmt.Printf("%s", out)
		}
		fmt.Println("=", result(err))
	}
}

func asNobody(words []string) *exec.Cmd {
	c := exec.Command(words[0], words[1:]...)
	c.Dir, c.Env = "/tmp", []string{"HOME=/tmp", "CCMAPD_SOCKET=/tmp/none"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return c
}

// start starts a program, and waits for its first line.
func start(words []string) (pid string, err error) {
	c := asNobody(words)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err == nil {
		_, err = io.ReadFull(out, make([]byte, 1))
		pid = fmt.Sprint(c.Process.Pid)
	}
	time.Sleep(time.Second) // its goroutines begin
	return pid, err
}

// result returns the exit code, or the error.
func result(err error) string {
	if ended, ok := err.(*exec.ExitError); ok {
		return fmt.Sprint(ended.ExitCode())
	}
	if err != nil {
		return err.Error()
	}
	return "0"
}
