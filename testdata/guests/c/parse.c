// A recursive-descent parser that evaluates a formula: mutual recursion through
// four functions, and small ones that the compiler inlines (see them in DWARF).
#include <stdio.h>
#include <stdlib.h>

static const char *at;
static long factors;

static long sum(void);

static inline __attribute__((always_inline)) void skip_spaces(void)
{
	while (*at == ' ')
		at++;
}

static inline __attribute__((always_inline)) int accept(char wanted)
{
	skip_spaces();
	if (*at != wanted)
		return 0;
	at++;
	return 1;
}

__attribute__((noinline)) static long number(void)
{
	long value = 0;
	skip_spaces();
	while (*at >= '0' && *at <= '9')
		value = value * 10 + *at++ - '0';
	return value;
}

__attribute__((noinline)) static long factor(void)
{
	factors++;
	if (accept('-'))
		return -factor();
	if (!accept('('))
		return number();
	long value = sum();
	if (!accept(')'))
		abort();
	return value;
}

__attribute__((noinline)) static long product(void)
{
	long value = factor();
	while (accept('*'))
		value *= factor();
	return value;
}

__attribute__((noinline)) static long sum(void)
{
	long value = product();
	for (;;) {
		if (accept('+'))
			value += product();
		else if (accept('-'))
			value -= product();
		else
			return value;
	}
}

int main(int argc, char **argv)
{
	int rounds = argc == 2 ? atoi(argv[1]) : 1;
	long long total = 0;
	for (int i = 0; i < rounds; i++)
		for (int j = 0; j < 30000; j++) {
			at = "1 + 2 * (3 + 4 * (5 - (6 - 7) * -8)) - ((9)) * (10 + 11)";
			total += sum();
		}
	printf("rounds %d\ntotal %lld\nfactor %ld\n", rounds, total, factors);
	return 0;
}
