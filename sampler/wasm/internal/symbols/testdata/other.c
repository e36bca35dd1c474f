// A static function of the same name and type as one of shapes.cc.
void trace(int n) __attribute__((import_module("host"), import_name("trace")));

static __attribute__((noinline)) int step(int n) {
	trace(-n);
	return n - 1;
}

int other(int n) {
	return step(n);
}
