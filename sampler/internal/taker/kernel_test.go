package taker

import (
	"slices"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// TestInKernel: the functions of the kernel are frames below the system call, but for those that only lead to it.
// Return addresses are looked up in the call.
func TestInKernel(t *testing.T) {
	t.Parallel()
	functions := map[uint64]string{
		10: "_raw_spin_lock", 20: "tcp_sendmsg", 30: "__x64_sys_writev", 40: "do_syscall_64", 50: "entry_SYSCALL_64_after_hwframe", 60: "asm_exc_page_fault",
	}
	name := func(pc uint64) (string, bool) { n, ok := functions[pc/10*10]; return n, ok }
	for title, test := range map[string]struct {
		names func(uint64) (string, bool)
		m     process.Moment
		want  []string
	}{
		"not asked for":    {nil, process.Moment{Syscall: "writev", KernelChain: []uint64{10}}, []string{"[kernel] writev"}},
		"engine bpf":       {name, process.Moment{Syscall: "writev", KernelChain: []uint64{10, 25, 31, 41, 51}}, []string{"[kernel] _raw_spin_lock", "[kernel] tcp_sendmsg", "[kernel] writev"}},
		"engine perf":      {name, process.Moment{KernelChain: []uint64{20, 31, 41, 51, 61}}, []string{"[kernel] tcp_sendmsg", "[kernel] __x64_sys_writev", "[kernel] asm_exc_page_fault", "[kernel]"}},
		"a fault":          {name, process.Moment{KernelChain: []uint64{60}}, []string{"[kernel] asm_exc_page_fault", "[kernel]"}},
		"a nested call":    {name, process.Moment{Syscall: "read", KernelChain: []uint64{30}}, []string{"[kernel] __x64_sys_writev", "[kernel] read"}},
		"unknown function": {name, process.Moment{Syscall: "read", KernelChain: []uint64{1, 25}}, []string{"[kernel] tcp_sendmsg", "[kernel] read"}},
		"no chain":         {name, process.Moment{}, []string{"[kernel]"}},
	} {
		tk := &Taker{kernelNames: test.names, Sink: sampler.Sink{Names: ccmap.NewNames()}}
		var got []string
		for _, f := range tk.inKernel(&test.m, nil) {
			got = append(got, tk.Sink.Names.At(f.Method).Title())
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", title, got, test.want)
		}
	}
}
