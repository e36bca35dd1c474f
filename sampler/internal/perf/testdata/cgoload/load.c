#include <pthread.h>
#include <stdlib.h>

#include "_cgo_export.h"

// spin keeps its state in rbp, so that no frame pointer leads from it to Go.
__attribute__((noinline)) static long spin(long n) {
	long s = n;
	__asm__ volatile("xor %%ebp, %%ebp\n1: add %%rbp, %0\n inc %%rbp\n cmp %1, %%rbp\n jl 1b" : "+r"(s) : "r"(n) : "rbp", "cc");
	return s;
}
__attribute__((noinline)) long outer(long n) { return spin(n) + spin(n + 1); }
__attribute__((noinline)) long deepest(long n) {
	for (volatile long i = 0; i < n; i++) {}
	return n;
}

static int cCompare(const void *a, const void *b) { return *(int *)a < *(int *)b ? -1 : *(int *)a > *(int *)b; }
static void fill(int *v, int n) {
	unsigned s = 12345;
	for (int i = 0; i < n; i++) v[i] = (s = s * 1664525 + 1013904223) >> 8;
}
__attribute__((noinline)) long sortByC(int *v, int n) { fill(v, n); qsort(v, n, sizeof *v, cCompare); return v[0]; }
__attribute__((noinline)) long sortByGo(int *v, int n) {
	fill(v, n);
	qsort(v, n, sizeof *v, (int (*)(const void *, const void *))goCompare);
	return v[0];
}
__attribute__((noinline)) long recurse(long n) { goRecurse(n - 1); return n + 1; }

// bare has no call frame information: its frame is as large as it likes.
long bare(long);
__asm__(".text\n.type bare,@function\nbare:\n sub $72,%rsp\n push %rbp\n xor %ebp,%ebp\n"
        "1: inc %rbp\n cmp %rdi,%rbp\n jl 1b\n pop %rbp\n add $72,%rsp\n ret\n.size bare,.-bare\n");
__attribute__((noinline)) long callBare(long n) { return bare(n) + 1; }

static void *thread(void *arg) {
	for (int i = 0; i < 30; i++) { spin(4000000); goWork(1000000); }
	return arg;
}
void threads(void) {
	pthread_t t[2];
	for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, thread, 0);
	for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
}
