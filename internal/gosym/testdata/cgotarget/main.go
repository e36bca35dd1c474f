// Cgotarget is a program for the tests of package gosym: it prints, as one line
// of JSON, addresses of C code. For every line of input it loads a library and
// prints the address of a function in it.
package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

__attribute__((noinline)) int own_function(int n) { return n * 3; }
static void *own_address(void)  { return (void *)own_function; }
static void *libc_address(void) { return (void *)qsort; }

static void *load(const char *library, const char *name) {
	void *handle = dlopen(library, RTLD_NOW);
	return handle ? dlsym(handle, name) : NULL;
}
*/
import "C"

import (
	"bufio"
	"encoding/json"
	"os"
	"reflect"
	"strings"
)

type report struct{ Go, Own, Libc, Loaded uintptr }

func main() {
	r := report{
		Go:   reflect.ValueOf(main).Pointer(),
		Own:  uintptr(C.own_address()),
		Libc: uintptr(C.libc_address()),
	}
	out := json.NewEncoder(os.Stdout)
	out.Encode(r)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		library, name, _ := strings.Cut(in.Text(), " ")
		r.Loaded = uintptr(C.load(C.CString(library), C.CString(name)))
		out.Encode(r)
	}
}
