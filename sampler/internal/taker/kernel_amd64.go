package taker

// callPrefix begins the functions that system calls on x86 lead to (arch/x86/include/asm/syscall_wrapper.h).
const callPrefix = "__x64_sys_"

// entries are the functions between the entry of the kernel and that of a system call: their time is the call's
// (arch/x86/entry, Linux 5.15 to 6.18).
var entries = map[string]bool{
	"entry_SYSCALL_64": true, "entry_SYSCALL_64_after_hwframe": true, "do_syscall_64": true, "do_syscall_x64": true, "x64_sys_call": true,
}
