// What record.bpf.c needs of the kernel: types, helpers of BPF by their numbers
// (linux/bpf.h), and fields of the kernel's structures, whose offsets are found in the
// running kernel's BTF when the program is loaded (CO-RE).

#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;

#define SEC(name) __attribute__((section(name), used))
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static u64 (*bpf_ktime_get_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static u32 (*bpf_get_prandom_u32)(void) = (void *)BPF_FUNC_get_prandom_u32;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)BPF_FUNC_get_smp_processor_id;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)BPF_FUNC_get_current_pid_tgid;
static long (*bpf_probe_read_user)(void *dst, u32 size, const void *addr) = (void *)BPF_FUNC_probe_read_user;
static long (*bpf_probe_read_kernel)(void *dst, u32 size, const void *addr) = (void *)BPF_FUNC_probe_read_kernel;
static long (*bpf_ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)BPF_FUNC_ringbuf_output;
static u64 (*bpf_ringbuf_query)(void *ring, u64 what) = (void *)BPF_FUNC_ringbuf_query;
static long (*bpf_get_stack)(void *ctx, void *buf, u32 size, u64 flags) = (void *)BPF_FUNC_get_stack;
static struct task_struct *(*bpf_get_current_task_btf)(void) = (void *)BPF_FUNC_get_current_task_btf;
static long (*bpf_task_pt_regs)(struct task_struct *task) = (void *)BPF_FUNC_task_pt_regs;

// Fields that the running kernel's BTF relocates.
#define RELOCATED __attribute__((preserve_access_index))

// EXISTS says whether the running kernel has a field (BPF_FIELD_EXISTS of libbpf).
#define EXISTS(field) __builtin_preserve_field_info(field, 2)

struct rq {
	u64 clock;      // of the scheduler
	u64 clock_task; // without the time that no thread had
} RELOCATED;

struct cfs_rq {
	struct rq *rq; // of its CPU, with CONFIG_FAIR_GROUP_SCHED
} RELOCATED;

struct sched_entity {
	u64 sum_exec_runtime;
	u64 exec_start;
	struct cfs_rq *cfs_rq; // where the thread is or was queued last, with CONFIG_FAIR_GROUP_SCHED
} RELOCATED;

struct thread_struct {
	unsigned long fsbase;
} RELOCATED;

struct thread_info {
	u32 status;
} RELOCATED;

struct mm_struct;

struct task_struct {
	struct thread_info thread_info;
	struct sched_entity se;
	struct thread_struct thread;
	struct mm_struct *mm;
	u32 flags;
	char comm[16];
	u64 self_exec_id;
	u64 start_boottime;
	struct task_struct *group_leader;
} RELOCATED;

// In thread_info.status while a thread makes a 32-bit system call, as a 64-bit program can by
// int 0x80, too (arch/x86/include/asm/thread_info.h).
#define TS_COMPAT 2

// In task_struct.flags of a kernel thread (linux/sched.h).
#define PF_KTHREAD 0x00200000

// Where registers are in the kernel's struct pt_regs, in words (arch/x86/include/asm/ptrace.h).
enum { R15, R14, R13, R12, RBP, RBX, R11, R10, R9, R8, RAX, RCX, RDX, RSI, RDI, ORIG_RAX, RIP, CS, RFLAGS, RSP, SS, REGISTERS };
