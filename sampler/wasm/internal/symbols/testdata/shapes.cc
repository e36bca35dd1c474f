// The functions that the golden file names: overloads, constructors, static
// functions of one name, and code that is inlined.
namespace shapes {

static inline __attribute__((always_inline)) int clamp(int n) {
	if (n < 0)
		return -n;
	return n;
}

struct Square {
	int side;
	__attribute__((noinline)) Square(int n) : side(clamp(n)) {}
	__attribute__((noinline)) int area() const;
};

int Square::area() const {
	return side * side;
}

__attribute__((noinline)) int twice(int n) {
	return 2 * n;
}

__attribute__((noinline)) double twice(double n) {
	return 2 * n;
}

} // namespace shapes

extern "C" void trace(int n) __attribute__((import_module("host"), import_name("trace")));
extern "C" int other(int n);

static int step(int n) __asm__("step"); // as C names it

static __attribute__((noinline)) int step(int n) {
	trace(n);
	return n + 1;
}

extern "C" int run(int n) {
	shapes::Square s(n);
	int sum = 0;
	for (int i = 0; i < n; i++) {
		sum += shapes::twice(i);
		sum += step(i);
	}
	return sum + s.area() + int(shapes::twice(double(n))) + other(n);
}
