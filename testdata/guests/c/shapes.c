// Areas through function pointers: of every 7 shapes 4 are squares, 2 circles and 1
// a triangle, so the callees of the one call_indirect are known, and printed.
#include <stdio.h>
#include <stdlib.h>

struct shape {
	double (*area)(const struct shape *);
	double side;
};

static long squares, circles, triangles;

// settle is the work of an area: Heron's rule for the square root of x*x.
__attribute__((noinline)) static double settle(double x)
{
	double root = x;
	for (int i = 0; i < 20; i++)
		root = (root + x * x / root) / 2;
	return root;
}

static double square(const struct shape *s)
{
	squares++;
	return settle(s->side * s->side);
}

static double circle(const struct shape *s)
{
	circles++;
	return settle(3 * s->side * s->side);
}

static double triangle(const struct shape *s)
{
	triangles++;
	return settle(s->side * s->side / 2);
}

__attribute__((noinline)) static double total(const struct shape *shapes, int n)
{
	double sum = 0;
	for (int i = 0; i < n; i++)
		sum += shapes[i].area(&shapes[i]);
	return sum;
}

int main(int argc, char **argv)
{
	static double (*const areas[7])(const struct shape *) = {
		square, circle, square, triangle, square, circle, square,
	};
	enum { n = 70000 };
	static struct shape shapes[n];
	int rounds = argc == 2 ? atoi(argv[1]) : 1;
	double sum = 0;

	for (int i = 0; i < n; i++)
		shapes[i] = (struct shape){areas[i % 7], 1 + i % 7};
	for (int i = 0; i < rounds; i++)
		sum += total(shapes, n);
	printf("rounds %d\narea %.0f\nsquare %ld\ncircle %ld\ntriangle %ld\n",
		rounds, sum, squares, circles, triangles);
	return 0;
}
