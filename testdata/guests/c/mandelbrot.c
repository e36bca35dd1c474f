// The Mandelbrot set in a field of characters: loops of floating point, hardly a
// call. Prints how many iterations were done in all.
#include <stdio.h>
#include <stdlib.h>

static volatile double scale = 3; // else the compiler draws once for all rounds

enum { width = 320, height = 160, limit = 400 };

__attribute__((noinline)) static int escape(double re, double im)
{
	double x = 0, y = 0;
	int n = 0;
	while (n < limit && x * x + y * y <= 4) {
		double next = x * x - y * y + re;
		y = 2 * x * y + im;
		x = next;
		n++;
	}
	return n;
}

__attribute__((noinline)) static long long draw(void)
{
	double unit = scale / width;
	long long sum = 0;
	for (int row = 0; row < height; row++)
		for (int column = 0; column < width; column++)
			sum += escape(unit * column - 2.25, unit * row * 5 / 3 - 1.25);
	return sum;
}

int main(int argc, char **argv)
{
	int rounds = argc == 2 ? atoi(argv[1]) : 1;
	long long sum = 0;
	for (int i = 0; i < rounds; i++)
		sum += draw();
	printf("rounds %d\niterations %lld\n", rounds, sum);
	return 0;
}
