#!/bin/sh
# Builds the modules of the tests: sh build.sh. Needs clang and lld of LLVM 14 or later.
set -eu
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -r "$tmp"' EXIT
build() { # OUTPUT FLAGS…
	output=$1
	shift
	flags="--target=wasm32 -O1 -ffile-prefix-map=$PWD=/src $*"
	clang++ $flags -c -o "$tmp/shapes.o" "$PWD/shapes.cc"
	clang $flags -c -o "$tmp/other.o" "$PWD/other.c"
	wasm-ld --no-entry --export=run -o "$output" "$tmp/shapes.o" "$tmp/other.o"
}
build dwarf4.wasm -gdwarf-4 -fdebug-compilation-dir=/src
build dwarf5.wasm -gdwarf-5 -fdebug-compilation-dir=/src
build lines.wasm -gdwarf-5 -gline-tables-only -fdebug-compilation-dir=/src
build names.wasm -g0
