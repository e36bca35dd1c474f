package bpf

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/ccmapd/ccmapd/sampler"
	"golang.org/x/sys/unix"
)

// adviceRights names the ways to get permission.
const adviceRights = "run ccmapd as root, or give it CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE (setcap cap_bpf,cap_perfmon,cap_sys_ptrace+p)"

// vmlinux describes the kernel's types.
const vmlinux = "/sys/kernel/btf/vmlinux"

// initialPIDs names the initial PID namespace (PROC_PID_INIT_INO of linux/proc_ns.h).
const initialPIDs = "pid:[4026531836]"

// supported says why this machine cannot run the program, with any rights.
func supported() error {
	var name unix.Utsname
	unix.Uname(&name)
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	_, err := os.Stat(vmlinux)
	return refusal(runtime.GOARCH, unix.ByteSliceToString(name.Release[:]), namespace, err)
}

// refusal says why a machine cannot run the program; types is the error of looking for
// the description of the kernel's types.
func refusal(arch, release, namespace string, types error) error {
	var major, minor int
	fmt.Sscanf(release, "%d.%d", &major, &minor)
	reason := ""
	switch {
	case arch != "amd64":
		reason = "the BPF program reads the registers of amd64, not of " + arch
	case major < 5 || major == 5 && minor < 15:
		reason = fmt.Sprintf("it needs Linux 5.15, this is %s", release)
	case types != nil:
		reason = fmt.Sprintf("the kernel does not describe its types (CONFIG_DEBUG_INFO_BTF): %v", types)
	case namespace != initialPIDs:
		reason = "ccmapd is in a PID namespace, where processes have other numbers: run it outside of the container, or with --pid=host"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", sampler.ErrUnsupported, reason)
}

// explainLoad turns a refusal to load the program into an error that helps.
func explainLoad(err error) error {
	if explained := explainRights(err); errors.Is(explained, sampler.ErrPermission) {
		return fmt.Errorf("load BPF program: %w", explained)
	}
	return fmt.Errorf("load BPF program: %w: %w", sampler.ErrUnsupported, err)
}

// explainRights adds to an error for want of rights how to get them.
func explainRights(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w: %s: %w", sampler.ErrPermission, adviceRights, err)
	}
	return err
}
