package report

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Measured says when and on which machine a campaign ran.
func Measured(when time.Time) string {
	return fmt.Sprintf("Measured %s: %s, %d CPUs, Linux %s, %s.",
		when.UTC().Format(time.DateOnly), processor(), runtime.NumCPU(), kernel(), runtime.Version())
}

// LoadAverage returns the machine's, over the last minute; 0 where unknown.
func LoadAverage() float64 {
	var load float64
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Sscan(string(text), &load)
	}
	return load
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

func kernel() string {
	release, err := exec.Command("uname", "-r").Output()
	if err != nil {
		return "of unknown release"
	}
	return string(bytes.TrimSpace(release))
}
