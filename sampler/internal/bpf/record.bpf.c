//go:build ignore

// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// One record a sample, made at the instant of the timer interrupt: what only that
// instant knows. A cpu-clock event of each CPU runs this program for whatever
// thread is interrupted there. Package bpf reads the records; record.go decodes
// them.

#include "kernel.h"

char program_license[] SEC("license") = "Dual MIT/GPL"; // the helpers that read memory are GPL-only

// The most bytes that a record holds of a g or an m, of all three, and of a stack.
#define OBJECT    384
#define OBJECTS   (3 * OBJECT)
#define MAX_STACK (64 << 10)

// Bytes of the outer end of a stack that a record holds where its copy does not reach there: the
// outermost frames of a recursion.
#define OUTERMOST (16 << 10)

// Where thread-local storage has g, from the thread's FS base. An executable that is
// linked by another linker may have it elsewhere, so find_g checks it.
#define TLS_G (-8)

// Bytes that a record holds of the kernel's stack, as addresses of 8 bytes: as many as perf events take by default
// (kernel.perf_event_max_stack).
#define KERNEL_STACK (127 * 8)

// How far a thread's own stack goes on beyond its bound, bytes: where C has started the
// thread, the runtime takes the address of a local variable for the bound (mstart0, Go 1.18
// to 1.27), and so leaves out the return addresses of that function and its caller.
#define BEYOND 256

// An address where no process has memory, for objects that are missing.
#define NOWHERE (~0ull)

// Whether targets may have a layout of descriptors. User space says so before the program is
// loaded, and the verifier leaves out what is for them alone.
const volatile u32 descriptors = 1;

// Goroutines that a target can have watched at a time.
#define WATCHED 4

// The system call that ends a thread (arch/x86/entry/syscalls/syscall_64.tbl).
#define EXIT 60

// The ticks of /proc/PID/stat, ns.
#define TICK 10000000

// enum counter says what each element of counters counts.
enum counter {
	INTERRUPTS,   // all
	IDLE,         // of CPUs that had nothing to run
	TAKEN,        // that made a record, or one that the ring had no room for
	UNREADABLE,   // records whose stack could not be read
	REUSED,       // interrupts of a process that has a target's number, but is another one
	ENDING,       // records of threads that have given up their memory
	COUNTERS,
};

// struct target is what user space says of a process to be sampled. Offsets are
// those of fields in the runtime's g and m; a layout of all zeros has none.
struct target {
	u32 share;      // of the interrupts that are kept, in 2^-32; 0: all
	u32 max_stack;  // bytes that a record may hold of a stack whose end is not known
	u32 drain;      // bytes in the ring that wake the reader
	u32 choose;     // share of the kept samples that wake the reader, in 2^-32
	u16 has_layout;
	u16 g_m, g_sched_sp, g_bytes; // g_bytes: what a record holds of a g; at least its bounds
	u16 m_g0, m_curg, m_bytes;
	u16 callbacks;  // C may call Go: the thread's own stack matters where a goroutine runs on its stack
	u32 kernel;     // a sample in the kernel has the kernel's stack
	u32 unused;
	u64 started;    // of the process, since boot, in ticks of TICK ns
	u64 watched[WATCHED]; // goroutines whose samples wake the reader; 0: none
};

// struct piece is memory that follows the record's head: objects, then stacks. A piece
// without bytes takes no room. The kernel's stack has no address.
struct piece {
	u64 addr;
	u32 bytes;
	u32 unused;
};

enum { G, M, OTHER, STACK, OTHER_STACK, OUTER, KERNEL, PIECES };

enum { IN_KERNEL = 1, NO_REGISTERS = 2, CHOSEN = 4, CUT = 8, STRANGER = 16, KERNEL_THREAD = 32, AWAITED = 64 };

// The target that stands for all processes that are no targets. It is the number of idle CPUs, which no
// process has. A record of such a process has no pieces, and STRANGER.
#define WHOLE_HOST 0

// Bytes of a process's name (TASK_COMM_LEN).
#define NAME 16

struct head {
	u64 time;       // CLOCK_MONOTONIC, ns
	u64 stands;     // time of the CPU that the interrupt stands for, ns
	u64 stolen;     // part of stands that no thread had, as far as it is known, ns
	u64 cpu_time;   // of the thread, when the scheduler counted it last, ns
	u64 counted;    // when that was, by the scheduler's own clock, ns
	u64 program;    // differs between two programs that one process has executed
	u32 pid, tid;
	u32 cpu;
	s32 syscall;    // that the kernel was interrupted in, by its 64-bit number; -1: none
	u32 flags;
	u32 share;      // of the target at that time
	u64 started;    // of the process, as in struct target
	u8 name[NAME];  // of the process: of its first thread, which may change it at will
	u64 regs[REGISTERS];
	struct piece pieces[PIECES];
};

// struct record ends where its last piece does.
struct record {
	struct head head;
	u8 memory[OBJECTS + 3 * MAX_STACK]; // the last of the three is for the verifier's sake
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct target);
} targets SEC(".maps");

// Records of each target that the ring had no room for; of the whole host: of all processes.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, u64);
} losses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20); // user space sets another size
} records SEC(".maps");

// One element for each CPU: a value of a per-CPU map can't be as long.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // user space says how many CPUs there are
	__type(key, u32);
	__type(value, struct record);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

// struct clock is the timer of a CPU. User space writes it when it begins another period.
struct clock {
	u64 period;     // ns
	u64 broken;     // the part that had passed of the period before, ns
	u64 until;      // CLOCK_MONOTONIC, ns; the first interrupt comes before then
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // user space says how many CPUs there are
	__type(key, u32);
	__type(value, struct clock);
} clocks SEC(".maps");

// What the program remembers of each CPU: the most time that no thread had, since the machine
// started, ns; and when it ran last, CLOCK_MONOTONIC in ns, in which process.
enum { STOLEN, WHEN, WHO, REMEMBERED };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REMEMBERED);
	__type(key, u32);
	__type(value, u64);
} remembered SEC(".maps");

static __always_inline void count(u32 which)
{
	u64 *n = bpf_map_lookup_elem(&counters, &which);
	if (n)
		*n += 1;
}

// drawn says yes with a probability of share in 2^32.
static __always_inline int drawn(u32 share)
{
	return bpf_get_prandom_u32() < share;
}

// A function that the verifier checks once, for any arguments, instead of at each call for what it knows
// there (Linux 5.12 for arguments that are addresses). With four of them it follows 5,600 instructions,
// not 103,000, and loading takes 20 ms of CPU time, not 300.
#define VERIFIED_ALONE __attribute__((noinline))

// bounded keeps compilers from moving a check that the verifier wants to see.
static __always_inline u64 bounded(u64 n, u64 most)
{
	asm volatile("" : "+r"(n));
	if (n > most)
		n = most;
	asm volatile("" : "+r"(n));
	return n;
}

// struct bounds is g.stack, which the runtime's g begins with.
struct bounds { u64 lo, hi; };

// took notes a piece that the record holds.
static __always_inline void took(struct record *r, u64 which, u64 addr, u32 bytes)
{
	r->head.pieces[which].addr = addr;
	r->head.pieces[which].bytes = bytes;
}

// end returns where the pieces that the record holds end in its memory. The verifier does not
// follow values through maps, so that it need not follow every way to a sum of pieces.
static __always_inline u64 end(struct record *r)
{
	u64 n = 0;
	for (int i = 0; i < PIECES; i++)
		n += r->head.pieces[i].bytes;
	return n;
}

// take_object copies a g or an m to the end of the record. It reports whether there is one that can be
// read.
VERIFIED_ALONE int take_object(struct record *r, u64 which, u64 addr, u64 n)
{
	which = bounded(which, PIECES - 1);
	n = bounded(n, OBJECT);
	if (!r || n < sizeof(struct bounds)) // a layout without fields
		return 0;
	if (bpf_probe_read_user(&r->memory[bounded(end(r), OBJECTS - OBJECT)], n, (void *)(addr ? addr : NOWHERE)))
		return 0;
	took(r, which, addr, n);
	return 1;
}

// held returns a word of an object that the record has at a place; 0 beyond the object.
static __always_inline u64 held(struct record *r, u64 which, u64 at, u64 offset)
{
	if (offset + sizeof(u64) > r->head.pieces[which].bytes)
		return 0;
	return *(u64 *)&r->memory[bounded(at, OBJECTS - OBJECT) + bounded(offset, OBJECT - sizeof(u64))];
}

// take_more copies the next n bytes of a piece that begins at sp, behind those that the record
// has of it already. It reports whether they could be read.
static __always_inline int take_more(struct record *r, u64 which, u64 at, u64 sp, u64 n)
{
	u64 got = bounded(r->head.pieces[which].bytes, MAX_STACK);
	n = bounded(n, MAX_STACK);
	if (n == 0 || bpf_probe_read_user(&r->memory[at + got], n, (void *)(sp + got)))
		return 0;
	took(r, which, sp, got + n);
	return 1;
}

// take_stack copies a stack from the address of its piece on: up to hi, if that is known and within the
// target's limit, and beyond it if there is more; else up to that limit, or as much as
// there is.
VERIFIED_ALONE int take_stack(struct record *r, u64 which, u64 hi, u64 beyond, u64 limit)
{
	if (!r)
		return 0;
	which = bounded(which, PIECES - 1);
	u64 at = bounded(end(r), OBJECTS + MAX_STACK), sp = r->head.pieces[which].addr;

	took(r, which, 0, 0); // until some of it is read
	if (hi > sp && hi - sp < limit) {
		limit = hi - sp;
		if (beyond && take_more(r, which, at, sp, limit + beyond))
			return 1;
	}
	if (take_more(r, which, at, sp, limit) || which != STACK)
		return 1;
	// The end of a C thread's stack is not known: go on by ever smaller steps, each half as
	// long as the one before.
	limit = bounded(limit, MAX_STACK);
	for (int i = 0; i < 5; i++) {
		limit /= 2;
		take_more(r, which, at, sp, limit);
	}
	return 1;
}

// take_outer copies the outer end of a stack, if the record's copy does not reach that end. It reports
// whether it does not.
VERIFIED_ALONE int take_outer(struct record *r, u64 which, u64 hi)
{
	if (!r)
		return 0;
	which = bounded(which, PIECES - 1);
	u64 held = r->head.pieces[which].bytes, sp = r->head.pieces[which].addr;
	if (held && hi <= sp + held)
		return 0;
	took(r, OUTER, 0, 0); // of the other stack
	u64 at = bounded(end(r), OBJECTS + 2 * MAX_STACK);
	if (!bpf_probe_read_user(&r->memory[at], OUTERMOST, (void *)(hi - OUTERMOST)))
		took(r, OUTER, hi - OUTERMOST, OUTERMOST);
	return 1;
}

// take_kernel takes the return addresses of the kernel's stack, from the interrupted instruction on.
static __always_inline void take_kernel(struct bpf_perf_event_data *ctx, struct record *r)
{
	u64 at = bounded(end(r), OBJECTS + 2 * MAX_STACK + OUTERMOST);
	long n = bpf_get_stack(ctx, &r->memory[at], KERNEL_STACK, 0);
	if (n > 0)
		took(r, KERNEL, 0, bounded(n, KERNEL_STACK));
}

static __always_inline int holds(struct bounds *b, u64 sp)
{
	return b->lo < sp && sp <= b->hi;
}

// bounds_of returns the stack of a g that the record has.
static __always_inline struct bounds bounds_of(struct record *r, u64 which, u64 at)
{
	struct bounds b = { held(r, which, at, 0), held(r, which, at, sizeof(u64)) };
	return b;
}

static __always_inline u64 word(u64 addr)
{
	u64 w = 0;
	bpf_probe_read_user(&w, sizeof w, (void *)addr);
	return w;
}

// find_g takes the goroutine descriptor of the thread to the record's beginning: from R14,
// where Go code keeps it, if the stack is that descriptor's; else from thread-local storage,
// if the m of that descriptor leads back to it.
static __always_inline u64 find_g(struct record *r, struct target *t, struct task_struct *task, u64 r14, u64 sp, struct bounds *b)
{
	if (take_object(r, G, r14, t->g_bytes)) {
		*b = bounds_of(r, G, 0);
		if (holds(b, sp))
			return r14;
	}
	took(r, G, 0, 0);
	b->lo = b->hi = 0;
	u64 g = word(task->thread.fsbase + TLS_G), m = word(g + t->g_m);
	if (!g || !m || (word(m + t->m_g0) != g && word(m + t->m_curg) != g))
		return 0;
	if (!take_object(r, G, g, t->g_bytes))
		return 0;
	*b = bounds_of(r, G, 0);
	return g;
}

// left_at returns where a thread on its own stack has left the goroutine's. The runtime
// keeps SP in R12 when it calls the vDSO and the race detector (sys_linux_amd64.s and
// race_amd64.s, Go 1.26), which may save it elsewhere. Then the frame pointers lead there.
VERIFIED_ALONE u64 left_at(u64 lo, u64 hi, u64 r12, u64 bp)
{
	struct bounds b = { lo, hi };
	if (holds(&b, r12))
		return r12;
	for (int i = 0; i < 4; i++) {
		if (holds(&b, bp))
			return bp;
		bp = word(bp);
	}
	return 0;
}

// stands_for returns the time that an interrupt of a CPU stands for: a period, and at the
// first interrupt the part of the period that was broken off.
static __always_inline u64 stands_for(u32 cpu, u64 now)
{
	struct clock *c = bpf_map_lookup_elem(&clocks, &cpu);
	u64 ns;

	if (!c)
		return 0;
	ns = c->period;
	if (now < c->until)
		ns += c->broken;
	c->until = 0;
	return ns;
}

// stolen_from returns the time since the last interrupt of this CPU that was stolen from a
// process: the hypervisor had it, or interrupts, where the kernel counts their time
// (update_rq_clock_task in kernel/sched/core.c, Linux 5.15 to 6.18). Clocks of threads leave
// it out, and the timer does not. Another CPU that moves both clocks may be halfway; then
// this is too much once, and the next time as much less.
//
// Time is also stolen from idle CPUs: each one that wakes up waits for the hypervisor. No
// thread lacks that. So the interrupt before must have been of the same process, and one
// period ago: idle CPUs of virtual machines have none.
static __always_inline u64 stolen_from(u32 pid, struct task_struct *task, u64 when, u64 period)
{
	u32 i = STOLEN, j = WHEN, k = WHO;
	u64 *before = bpf_map_lookup_elem(&remembered, &i), *last = bpf_map_lookup_elem(&remembered, &j);
	u64 *who = bpf_map_lookup_elem(&remembered, &k), now, ns = 0;

	if (!before || !last || !who || !EXISTS(task->se.cfs_rq) || !EXISTS(((struct cfs_rq *)0)->rq))
		return 0;
	int same = pid && *who == pid && when - *last < period + period / 2;
	struct rq *rq = task->se.cfs_rq->rq;
	now = rq->clock - rq->clock_task;
	if (now > *before) {
		ns = now - *before;
		*before = now;
	}
	*last = when;
	*who = pid;
	return same ? ns : 0;
}

// lose counts a record that the ring had no room for.
static __always_inline void lose(u32 pid)
{
	u64 *lost = bpf_map_lookup_elem(&losses, &pid);
	if (lost)
		__sync_fetch_and_add(lost, 1);
}

// hand_over puts a record with so many bytes of pieces into the ring, and wakes the reader if it is
// awaited or if the ring is full enough.
static __always_inline void hand_over(struct record *r, u64 bytes, struct target *t)
{
	int wake = r->head.flags & AWAITED || bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > t->drain;
	if (!bpf_ringbuf_output(&records, r, sizeof r->head + bytes, wake ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP))
		return;
	lose(WHOLE_HOST);
	if (!(r->head.flags & STRANGER))
		lose(r->head.pid);
}

VERIFIED_ALONE int watches(struct target *t, u64 g)
{
	if (!t)
		return 0;
	for (int i = 0; i < WATCHED; i++)
		if (g && t->watched[i] == g)
			return 1;
	return 0;
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	u64 id = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();
	u32 pid = id >> 32, cpu = bpf_get_smp_processor_id();
	u64 stands = stands_for(cpu, now);
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	u64 stolen = stolen_from(pid, task, now, stands);

	count(INTERRUPTS);
	if (!pid) {
		count(IDLE);
		return 0;
	}
	u64 started = task->group_leader->start_boottime / TICK;
	u32 flags = 0, whole = WHOLE_HOST;
	struct target *t = bpf_map_lookup_elem(&targets, &pid);
	if (t && t->started != started) {
		count(REUSED);
		t = 0;
	}
	if (!t) {
		t = bpf_map_lookup_elem(&targets, &whole);
		flags = STRANGER;
	}
	if (!t)
		return 0;
	if (t->share && !drawn(t->share))
		return 0;
	struct record *r = bpf_map_lookup_elem(&scratch, &cpu);
	if (!r)
		return 0;
	count(TAKEN);

	struct pt_regs *user = (void *)bpf_task_pt_regs(task);
	struct head *h = &r->head;

	__builtin_memset(h->pieces, 0, sizeof h->pieces);
	h->time = now;
	h->stands = stands;
	h->stolen = stolen;
	h->cpu_time = task->se.sum_exec_runtime;
	h->counted = task->se.exec_start;
	h->program = task->self_exec_id;
	h->pid = pid;
	h->tid = id;
	h->cpu = cpu;
	h->share = t->share;
	h->started = started;
	bpf_probe_read_kernel(h->name, sizeof h->name, task->group_leader->comm);
	h->flags = flags | (drawn(t->choose) ? CHOSEN : 0);
	if (task->flags & PF_KTHREAD)
		h->flags |= KERNEL_THREAD;
	h->syscall = -1;
	if (bpf_probe_read_kernel(h->regs, sizeof h->regs, user))
		h->flags |= NO_REGISTERS;
	if (ctx->regs.rip >> 63) {
		h->flags |= IN_KERNEL;
		// A fault or an interrupt of the program leaves -1 there, before it enables
		// interrupts (idtentry_body in entry_64.S, Linux 5.15 to 6.18).
		if (!(h->flags & NO_REGISTERS) && !(task->thread_info.status & TS_COMPAT))
			h->syscall = h->regs[ORIG_RAX];
	}

	if (flags & STRANGER) {
		hand_over(r, 0, t);
		return 0;
	}
	u64 sp = h->regs[RSP], g = 0;
	struct bounds b = {};
	u32 most = t->max_stack;
	// A thread that ends has given up its memory, and the CPU has the memory of the process
	// that ran before. Linux before 6.4 reads that (copy_from_user_nofault).
	if (!task->mm) {
		count(ENDING);
		most = 0;
		h->syscall = EXIT; // whatever call it was in when it was told to end
	} else if (descriptors && t->has_layout) {
		g = find_g(r, t, task, h->regs[R14], sp, &b);
	}

	u64 own = 0, other = 0, from = 0, left = 0;
	struct bounds o = {};
	u64 place = end(r);
	if (g && take_object(r, M, held(r, G, 0, t->g_m), t->m_bytes)) {
		u64 curg = held(r, M, place, t->m_curg);
		own = held(r, M, place, t->m_g0);
		other = curg != g ? curg : t->callbacks ? own : 0;
	}
	place = end(r);
	if (other && other != g && take_object(r, OTHER, other, t->g_bytes)) {
		o = bounds_of(r, OTHER, place);
		from = held(r, OTHER, place, t->g_sched_sp);
	}
	if (g && !holds(&b, sp))
		left = left_at(b.lo, b.hi, h->regs[R12], h->regs[RBP]);
	if (left) { // the thread is on its own stack, and g is the goroutine it will return to
		other = g;
		o = b;
		from = left;
	}
	int known = holds(&b, sp); // where the stack ends
	u32 limit = known && most ? MAX_STACK : most;
	took(r, STACK, sp, 0);
	take_stack(r, STACK, known ? b.hi : 0, g == own ? BEYOND : 0, limit);
	if (!h->pieces[STACK].bytes)
		count(UNREADABLE);
	if (holds(&o, from)) {
		took(r, OTHER_STACK, from, 0);
		take_stack(r, OTHER_STACK, o.hi, other == own ? BEYOND : 0, MAX_STACK);
		take_outer(r, OTHER_STACK, o.hi);
	}
	u32 got = h->pieces[STACK].bytes;
	if (most && (known ? take_outer(r, STACK, b.hi) : !got || got == limit)) {
		h->flags |= CUT;
		if (!got || (!known && limit < MAX_STACK))
			h->flags |= AWAITED; // what is missing is read from the process, before it goes on
	}
	if (h->flags & CHOSEN || watches(t, g) || watches(t, other))
		h->flags |= AWAITED;
	if (t->kernel && h->flags & IN_KERNEL)
		take_kernel(ctx, r);
	hand_over(r, bounded(end(r), OBJECTS + 2 * MAX_STACK + OUTERMOST + KERNEL_STACK), t);
	return 0;
}
