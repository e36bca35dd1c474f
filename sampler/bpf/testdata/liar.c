// A program whose registers and memory lie: R14 leads to a goroutine descriptor with
// bounds that hold everything, and to an m, g0 and saved SP that are the kernel's, are not
// mapped, or lead in a circle.
#include <stdint.h>
#include <unistd.h>

static uint64_t g[64], m[64];

int main(int argc, char **argv)
{
	static const uint64_t bad[] = {0, 8, 0x00007fffffffeff8, 0xffffffff81000000, 0xffffffffffffffff};
	char c;

	if (write(1, "ready\n", 6) != 6 || read(0, &c, 1) != 1)
		return 1;
	for (;;)
		for (int i = 0; i < 6; i++) {
			for (int j = 0; j < 64; j++) {
				g[j] = i < 5 ? bad[i] : (uint64_t)m;
				m[j] = i < 5 ? bad[(i + j) % 5] : (uint64_t)g;
			}
			g[0] = 0;
			g[1] = ~0ull;
			if (i % 2)
				g[6] = (uint64_t)m;
			register uint64_t r14 __asm__("r14") = (uint64_t)g;
			for (long n = 0; n < 3000000; n++)
				__asm__ volatile("" : "+r"(r14));
		}
}
