package main

// The functions do the same for each n: one step takes as long as the multiplication that it waits for, wherever
// the linker puts the loop.

var functions = [...]func(n int) int{f1, f2, f3, f4, f5, f6, f7, f8, f9, f10}

//go:noinline
func f1(n int) (x int) {
	for i := range n {
		x = x*x + i
	}
	return x
}

//go:noinline
func f2(n int) (x int) {
	for i := range n {
		x = x*x + i
	}
	return x
}

//go:noinline
func f3(n int) (x int) {
	for i := range n {
		x = x*x + i
	}
	return x
}

//go:noinline
func f4(n int) (x int) {
	for i := range n {
		x = x*x + i
	}
	return x
}

//go:noinline
func f5(n int) (x int) {
	for i := range n {
		x = x*x + i
	}
	return x
}

//go:noinline
func f6(n int) (x int) {
	for i := range n {
		x = x*x + i
	}
	return x
}

//go:noinline
func f7(n int) (x int) {
	for i := range n {
		x = x*x + i
	}
	return x
}

//go:noinline
func f8(n int) (x int) {
	for i := range n {
		x = x*x + i
	}
	return x
}

//go:noinline
func f9(n int) (x int) {
	for i := range n {
		x = x*x + i
	}
	return x
}

//go:noinline
func f10(n int) (x int) {
	for i := range n {
		x = x*x + i
	}
	return x
}
