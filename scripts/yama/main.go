// Command yama asks a kernel with Yama what an ordinary user may sample: Debian's, in a virtual machine without KVM.
//
//	apt-get install qemu-system-x86
//	go -C scripts run ./yama
//
// It takes some minutes: it builds ccmapd, fetches the kernel by apt-get, and boots it with a first process that goes
// through [steps]. The output of each is printed, and what is not as expected fails.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// step is a line of the script (testdata/init), its exit code, and a text that its output has.
type step struct{ line, code, text string }

const (
	paranoid = "/proc/sys/kernel/perf_event_paranoid"
	scope    = "/proc/sys/kernel/yama/ptrace_scope"
	workload = "/ccmapd demo-workload -rest 5ms -d "

	refused = "3" // the exit code
)

// steps are what the pages promise: see docs/permissions.md. Debian's kernel takes a perf_event_paranoid of 3 for what
// Ubuntu's does with 4.
var steps = []step{
	{"set " + paranoid + " 2", "0", ""},
	{"set " + scope + " 1", "0", ""},
	{"target " + workload + "10m", "0", ""},
	{"/ccmapd attach PID --event wall -d 1s -o wall1.json", refused, "kernel.yama.ptrace_scope is 1: start the program by 'ccmapd run'"},
	{"/ccmapd attach PID -d 1s -o cpu1.json", refused, "kernel.yama.ptrace_scope is 1"},
	{"/ccmapd requests PID -d 1s", refused, "kernel.yama.ptrace_scope is 1"},
	{"/ccmapd stuck PID --longer 1s", refused, "kernel.yama.ptrace_scope is 1"},
	{"/ccmapd doctor PID", refused, "cure: sysctl -w kernel.yama.ptrace_scope=0"},
	{"/ccmapd run --event wall -o run1.json -- " + workload + "20s", "0", "[select]"},
	{"set " + scope + " 2", "0", ""},
	{"/ccmapd attach PID --event wall -d 1s -o wall2.json", refused, "kernel.yama.ptrace_scope is 2"},
	{"/ccmapd run --event wall -o run2.json -- " + workload + "1s", "0", "kernel.yama.ptrace_scope is 2"},
	{"set " + scope + " 0", "0", ""},
	{"set " + paranoid + " 3", "0", ""},
	{"/ccmapd doctor PID", refused, "--event wait, wall"},
	{"/ccmapd attach PID -d 1s -o cpu3.json", refused, "--event wall samples what its goroutines or threads do"},
	{"/ccmapd attach PID --event wall -d 1s -o wall3.json", "0", "[select]"},
}

func main() {
	work := flag.String("work", filepath.Join(os.TempDir(), "ccmapd-yama"), "keep the kernel and the programs in `FOLDER`")
	flag.Parse()
	if err := run(*work); err != nil {
		fmt.Fprintln(os.Stderr, "yama:", err)
		os.Exit(1)
	}
}

func run(work string) error {
	kernel, err := fetchKernel(work)
	if err != nil {
		return err
	}
	files, err := buildFiles(work)
	if err != nil {
		return err
	}
	disk := filepath.Join(work, "initrd")
	if err := os.WriteFile(disk, archive(files), 0o644); err != nil {
		return err
	}
	out, err := output("", "qemu-system-x86_64", "-cpu", "max", "-m", "1024", "-smp", "2", "-nographic", "-no-reboot",
		"-kernel", kernel, "-initrd", disk, "-append", "console=ttyS0 quiet panic=-1")
	if err != nil {
		return err
	}
	return check(strings.ReplaceAll(out, "\r", ""))
}

// fetchKernel returns Debian's kernel for virtual machines, which a former run may have left.
func fetchKernel(work string) (string, error) {
	const kernels = "kernel/boot/vmlinuz-*"
	if have, _ := filepath.Glob(filepath.Join(work, kernels)); len(have) > 0 {
		return have[0], nil
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return "", err
	}
	const fetch = `apt-get download "$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p' | head -n 1)" && dpkg -x linux-image-*.deb kernel`
	if _, err := output(work, "sh", "-c", fetch); err != nil {
		return "", err
	}
	have, _ := filepath.Glob(filepath.Join(work, kernels))
	if len(have) == 0 {
		return "", fmt.Errorf("find a kernel in %s: the package has none", work)
	}
	return have[0], nil
}

// buildFiles builds the programs of the machine. The working directory is the laboratory.
func buildFiles(work string) ([]entry, error) {
	var script strings.Builder
	for _, s := range steps {
		fmt.Fprintln(&script, s.line)
	}
	files := []entry{{name: "script", data: []byte(script.String())}}
	for name, in := range map[string]struct{ module, program string }{"init": {".", "./yama/testdata/init"}, "ccmapd": {"..", "./cmd/ccmapd"}} {
		path := filepath.Join(work, name)
		if _, err := output("", "env", "CGO_ENABLED=0", "go", "-C", in.module, "build", "-ldflags=-s -w", "-o", path, in.program); err != nil {
			return nil, err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, entry{name, data})
	}
	return files, nil
}

// output runs a command, and returns what it printed.
func output(dir, name string, args ...string) (string, error) {
	var out, said bytes.Buffer
	c := exec.Command(name, args...)
	c.Dir, c.Stdout, c.Stderr = dir, &out, &said
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("run %s: %w\n%s", name, err, &said)
	}
	return out.String(), nil
}

// check prints what the machine printed, and compares each step with what is expected.
func check(out string) error {
	done := strings.Split(out[max(strings.Index(out, steps[0].line), 0):], "\n$ ") // the firmware has its say before
	missed := 0
	for i, s := range steps {
		is := ""
		if i < len(done) {
			is = done[i]
		}
		fmt.Println("$", is)
		if !strings.Contains(is, s.line) || !strings.Contains(is+"\n", "\n= "+s.code+"\n") || !strings.Contains(is, s.text) {
			fmt.Printf("MISSED: %s: want exit code %s and %q\n", s.line, s.code, s.text)
			missed++
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d steps are not as expected", missed, len(steps))
	}
	fmt.Printf("all %d steps are as expected\n", len(steps))
	return nil
}
