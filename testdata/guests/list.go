package guests

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Queens is a Go program: recursion, 10*2057 calls of place a round.
func Queens(rounds int) Guest {
	return GoProgram("queens", rounds, "solutions %d\nmain.(*board).place %d\n", 10*92*rounds, 10*2057*rounds)
}

// Eval is a Go program: an interpreter whose steps are calls of interface methods.
func Eval(rounds int) Guest {
	const loops = 30_000
	return GoProgram("eval", rounds, "y 34232\nmain.number.eval %d\nmain.variable.eval %d\n"+
		"main.(*binary).eval %d\nmain.(*assign).eval %d\nmain.(*while).eval %d\n",
		(2*loops+2)*rounds, (4*loops+1)*rounds, 3*loops*rounds, (2*loops+2)*rounds, rounds)
}

// JSON is a Go program: encoding/json there and back.
func JSON(rounds int) Guest { return GoProgram("json", rounds, "bytes %d\n", 9390*rounds) }

// GoProgram is a program in folder go, which prints its rounds and then figures, as want
// formats them.
func GoProgram(name string, rounds int, want string, figures ...any) Guest {
	return Guest{
		Name:   "go-" + name,
		Args:   []string{strconv.Itoa(rounds)},
		Want:   fmt.Sprintf("rounds %d\n", rounds) + fmt.Sprintf(want, figures...),
		obtain: func(ctx context.Context) (string, error) { return Go(ctx, name) },
	}
}

// Parse is a C program: mutual recursion, 30,000 formulas of 18 factors a round.
func Parse(rounds int) Guest {
	return CProgram("parse", rounds, "total %d\nfactor %d\n", -206*30000*rounds, 18*30000*rounds)
}

// CProgram is a program in folder c, built with DWARF ([C] builds without), which prints as
// [GoProgram] does.
func CProgram(name string, rounds int, want string, figures ...any) Guest {
	return Guest{
		Name:   "c-" + name,
		Args:   []string{strconv.Itoa(rounds)},
		Want:   fmt.Sprintf("rounds %d\n", rounds) + fmt.Sprintf(want, figures...),
		From:   FromClang,
		obtain: func(ctx context.Context) (string, error) { return C(ctx, name, true) },
	}
}

// esbuildModule is esbuild, a Go program without names.
var esbuildModule = Package{
	Registry: "npm", Name: "@esbuild/wasi-preview1", Version: "0.27.2", File: "esbuild.wasm",
	SHA256: "ed4ef442d8db48e201bf5f55b8cd6a8fb65d21bcfa2705cc5a7381ceed33f008",
}

const (
	esbuildInput = `(function() {
	const add = (a, b) => a + b;
	class Shape {
		constructor(side) { this.side = side }
		area() { return this.side ** 2 }
	};
	console.log(add(1, 2), new Shape(3).area());
})();
`
	esbuildOutput = "(function(){const a=(e,s)=>e+s;class n{constructor(s){this.side=s}area(){return this.side**2}}" +
		"console.log(a(1,2),new n(3).area())})()"
	esbuildRepeat = 20 // times that a round repeats the input
)

// Esbuild is a compiler: it minifies a script of JavaScript. It runs many goroutines, so
// stacks are often cut short: see package rounds.
func Esbuild(rounds int) Guest {
	return Guest{
		Name:   "esbuild",
		Args:   []string{"--minify"},
		Stdin:  strings.Repeat(esbuildInput, esbuildRepeat*rounds),
		Want:   strings.Repeat(esbuildOutput+",", esbuildRepeat*rounds-1) + esbuildOutput + ";\n",
		From:   FromNPM,
		obtain: func(ctx context.Context) (string, error) { return Fetch(ctx, "esbuild", esbuildModule) },
	}
}

// Real returns all real guests, for rounds rounds each: a round is some ten milliseconds
// of work.
func Real(rounds int) []Guest {
	return []Guest{
		Queens(rounds), Eval(rounds), JSON(rounds), Words(rounds), Sorts(rounds),
		Shapes(rounds), Mandelbrot(rounds), Parse(rounds),
		SQLite(rounds), QuickJS(rounds), Esbuild(rounds),
	}
}

// Words is a Go program: counts 20,000 words of 121 kinds in a map.
func Words(rounds int) Guest { return GoProgram("words", rounds, "words 121 MUNA 206\n") }

// Sorts is a Go program: sorts 5,000 numbers twice.
func Sorts(rounds int) Guest {
	return GoProgram("sorts", rounds, "main.(*counted).Less %d\nmain.main.func1.1 %[1]d\n", 63029*rounds)
}

// Shapes is a C program: 70,000 calls through function pointers a round. Of every 7 calls
// 4 reach squares, 2 circles, 1 a triangle.
func Shapes(rounds int) Guest {
	return CProgram("shapes", rounds, "area %d\nsquare %d\ncircle %d\ntriangle %d\n",
		2120000*rounds, 40000*rounds, 20000*rounds, 10000*rounds)
}

// Mandelbrot is a C program: loops of floating point with hardly a call.
func Mandelbrot(rounds int) Guest {
	return CProgram("mandelbrot", rounds, "iterations %d\n", 4401710*rounds)
}

//go:generate sh -c "for f in small/*.wat; do wat2wasm --debug-names --enable-tail-call ${DOLLAR}f -o ${DOLLAR}{f%.wat}.wasm; done"

//go:embed small/*.wasm
var small embed.FS

// Small returns the binary of the hand-written guest testdata/guests/small/NAME.wat,
// whose first line describes it and its exports. It panics for an unknown name: the names
// are constants of the tests.
func Small(name string) []byte {
	binary, err := small.ReadFile("small/" + name + ".wasm")
	if err != nil {
		panic(fmt.Sprintf("guests: no small guest %q, of %q", name, SmallNames()))
	}
	return binary
}

// SmallNames returns the names of all hand-written guests, sorted.
func SmallNames() []string {
	files, err := fs.Glob(small, "small/*.wasm")
	if err != nil {
		panic(err) // the pattern is well formed
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(path.Base(file), ".wasm")
	}
	return files
}
