// Programs for tests of the BPF program. The argument says which: "lies" has registers,
// descriptors and thread-local storage that lie, and "races" a thread beside that writes
// the descriptors all the time; "secret" fills its records with a pattern; "threads"
// starts threads that end at once; "calls" makes system calls by numbers of other tables, and
// by numbers that no table has. They end after ten minutes, if nobody has killed them by then.
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// ELSEWHERE is memory that the program "secret" has, and no other.
#define ELSEWHERE 0x7e0000000000
// Its code must not have the secret as a number: programs that lie may show their own code.
#define SECRET    (~hidden)

static volatile uint64_t hidden = ~0x5ec2e7ab1e5ec2e7ull;

// Offsets in words, as the test tells them to the BPF program.
enum { LO, HI, G_M = 6, G_SCHED_SP, M_G0 = 0, M_CURG = 23, WORDS = 64 };

static volatile uint64_t g[WORDS], m[WORDS], storage[2];

static const uint64_t bad[] = {
	0, 8, ELSEWHERE, ELSEWHERE + 8192,         // mapped in another process
	0x00007fffffffeff8, 0x0000800000000000,    // the last of user space, and after it
	0xdead000000000000, 0xffffffff81000000, ~0ull, // not canonical, and the kernel's
};
enum { BAD = sizeof bad / sizeof *bad };

static uint64_t stacks[BAD]; // those of bad that a program may have in rsp, else 0

// spin computes with values in the registers that the BPF program looks at; an sp of 0
// stands for the stack.
static void spin(uint64_t r14, uint64_t sp)
{
	__asm__ volatile(
		"mov %%rsp, %%r12\n\t"
		"mov %0, %%r14\n\t"
		"test %1, %1\n\t"
		"cmovnz %1, %%rsp\n\t"
		"mov $1000000, %%ecx\n"
		"1:\n\t"
		"dec %%ecx\n\t"
		"jnz 1b\n\t"
		"mov %%r12, %%rsp"
		: : "r"(r14), "r"(sp) : "rcx", "r12", "r14", "memory", "cc");
}

// try_stacks tries each stack pointer in a child: some hypervisors kill a program that is interrupted with one that is
// not canonical (PVM, Linux 6.18).
static void try_stacks(void)
{
	for (int i = 0; i < BAD; i++) {
		int status;
		pid_t child = fork();

		for (int n = 0; child == 0 && n < 100; n++)
			spin(0, bad[i]);
		if (child == 0)
			_exit(0);
		if (waitpid(child, &status, 0) == child && !WIFSIGNALED(status))
			stacks[i] = bad[i];
	}
}

static void fill(volatile uint64_t *object, uint64_t value)
{
	for (int i = 0; i < WORDS; i++)
		object[i] = value;
}

// lie goes through the lies for ever. It calls nothing of the C library, which needs
// thread-local storage.
static void lie(void)
{
	for (int i = 0;; i = (i + 1) % BAD) {
		fill(g, bad[i]);
		fill(m, bad[(i + 3) % BAD]);
		g[LO] = 0, g[HI] = ~0ull; // bounds that hold everything
		spin((uint64_t)g, 0);
		g[G_M] = (uint64_t)m;
		spin((uint64_t)g, 0);
		spin((uint64_t)g, stacks[i]);
		g[LO] = ~0ull, g[HI] = 0; // the wrong way round
		spin((uint64_t)g, 0);
		m[M_G0] = m[M_CURG] = (uint64_t)g; // in a circle
		storage[0] = (uint64_t)g;
		spin(bad[i], 0);
		g[G_M] = (uint64_t)g;
		g[G_SCHED_SP] = bad[i];
		spin((uint64_t)g, 0);
		storage[0] = bad[i]; // thread-local storage that leads nowhere
		spin(bad[i], 0);
	}
}

static void *rewrite(void *unused)
{
	for (uint64_t n = 0;; n++) {
		volatile uint64_t *object = n % 2 ? g : m;
		object[n * 2654435761u % WORDS] = n % 3 ? bad[n % BAD] : (uint64_t)g;
	}
	return unused;
}

// keep has nothing but the secret in its descriptors, and on both stacks.
static void keep(void)
{
	volatile uint64_t stack[7 << 10];
	uint64_t *own = mmap((void *)ELSEWHERE, 256 << 10, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	uint64_t *thread = own + 256, *other = own + 512, *sp = own + 1024;

	for (int i = 0; i < (256 << 10) / 8; i++)
		own[i] = SECRET;
	for (unsigned i = 0; i < sizeof stack / 8; i++)
		stack[i] = SECRET;
	own[LO] = other[LO] = 0, own[HI] = other[HI] = ~0ull;
	own[G_M] = (uint64_t)thread;
	thread[M_G0] = (uint64_t)other, thread[M_CURG] = (uint64_t)own;
	other[G_SCHED_SP] = (uint64_t)sp;
	for (;;)
		spin((uint64_t)own, 0);
}

// NOWHERE is a number that no table has, X32 the bit of x32's calls.
enum { GETPID = 39, GETPID_32 = 20, X32 = 1 << 30, NOWHERE = 5000 };

static sigjmp_buf refused;

static void refuse(int signal) { siglongjmp(refused, signal); }

// call makes calls for ever. Some kernels refuse 32-bit ones.
static void call(void)
{
	volatile int by32 = 1;

	signal(SIGSEGV, refuse);
	if (sigsetjmp(refused, 1))
		by32 = 0;
	for (long pid;;) {
		for (int i = 0; by32 && i < 100; i++)
			__asm__ volatile("int $0x80" : "=a"(pid) : "0"(GETPID_32) : "memory");
		for (int i = 0; i < 1000; i++) {
			syscall(X32 | GETPID);
			syscall(NOWHERE);
			syscall(-1);
		}
	}
}

static void *end(void *unused) { return unused; }

int main(int argc, char **argv)
{
	pthread_t thread;
	char c;

	alarm(600);
	if (argc < 2 || write(1, "ready\n", 6) != 6 || read(0, &c, 1) != 1)
		return 1;
	if (!strcmp(argv[1], "secret"))
		keep();
	while (!strcmp(argv[1], "threads"))
		if (pthread_create(&thread, NULL, end, NULL) || pthread_join(thread, NULL))
			return 1;
	if (!strcmp(argv[1], "calls"))
		call();
	try_stacks();
	if (!strcmp(argv[1], "races") && pthread_create(&thread, NULL, rewrite, NULL))
		return 1;
	if (syscall(SYS_arch_prctl, ARCH_SET_FS, &storage[1]))
		return 1;
	lie();
}
