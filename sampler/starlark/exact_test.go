package starlark

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Calls by functions of the language are counted exactly.
const calls = `
def leaf(n):
    hit()
    return n

def loop(n):
    hit()
    total = 0
    for i in [1, 2, 3]:
        total += leaf(i)
    return total

def fib(n):
    hit()
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def closures():
    hit()
    def add(n):
        hit()
        return lambda m: [hit(), n + m][1]
    return [add(i)(loop(i)) for i in range(3)]

def countdown(n):
    while n > 0:
        leaf(n)
        n -= 1
    hit()

hit()
fib(7)
for i in range(3):
    closures()
    countdown(i)
`

func TestEveryActivationIsCounted(t *testing.T) {
	t.Parallel()
	o := newObserver(nil)
	s := o.run(t, calls)
	if diff := cmp.Diff(o.began, sampled(s)); diff != "" {
		t.Errorf("activations (-true +sampled):\n%s", diff)
	}
	if !s.ActivationsExact() {
		t.Error("the activations are said to be inexact")
	}
	o.checkContexts(t, s)
}

// Callbacks: activations that Go code calls in turn.
func TestCallbacks(t *testing.T) {
	t.Parallel()
	const define = `
def plain(x):
    hit()
    return x

def local(x):
    y = hit()
    return x

def captured(x):
    c = x
    y = hit()
    f = lambda: c
    return x

def fails():
    hit()
    return 1 // 0
`
	for _, test := range []struct {
		name, program, method string
		began, sampled        int64
	}{
		{"local", "sorted([3, 1, 2], key=local)", "p.star:local", 3, 3},
		{"captured", "sorted([3, 1, 2], key=captured)", "p.star:captured", 3, 3},
		{"plain", "sorted([3, 1, 2], key=plain)", "p.star:plain", 3, 1},
		{"lambda", "sorted([3, 1, 2], key=lambda x: [hit(), x][1])", "p.star:lambda@19:23", 3, 1},
		{"again", "[sorted([3, 1, 2], key=plain) for i in range(5)]", "p.star:plain", 15, 5},
		{"alternating", "attempt(fails, lambda: fails(), fails, lambda: fails())", "p.star:fails", 4, 4},
		{"failing", "attempt(fails, fails, fails)", "p.star:fails", 3, 1},
		{"calling", "twice(lambda: plain(1))", "p.star:plain", 2, 2},
		{"receiver", "box(plain, 1)", "list.each", 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := newObserver(nil)
			s := o.run(t, define+test.program)
			o.checkContexts(t, s)
			if got := o.began[test.method]; got != test.began {
				t.Errorf("%d activations of %s began, want %d", got, test.method, test.began)
			}
			if got := sampled(s)[test.method]; got != test.sampled {
				t.Errorf("%d activations of %s were sampled, want %d", got, test.method, test.sampled)
			}
		})
	}
}

func TestActivationsNeverExceedTheTrueOnes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		program := programs().Draw(t, "program")
		o := newObserver(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "marks"), 0)))
		o.options.Exact = rapid.Bool().Draw(t, "exact")
		o.check(t, program)
	})
}

// Without marks samples say that new activations are unknown, and so does the map.
func TestUnknownActivations(t *testing.T) {
	t.Parallel()
	o := newObserver(nil)
	o.options = Options{}
	s := o.run(t, calls)
	o.checkContexts(t, s)
	for _, sample := range o.samples {
		if sample.Fresh != ccmap.FreshUnknown || sample.Top != ccmap.TopUnknown || sample.Depth != 0 || sample.Hit {
			t.Fatalf("a sample knows more than it can: %+v", sample)
		}
	}
	if s.ActivationsExact() {
		t.Error("the activations are said to be exact")
	}
	if len(o.samples) == 0 {
		t.Error("there are no samples")
	}
}

// check runs a program and compares the map with the truth.
func (o *observer) check(t *rapid.T, program string) {
	s := o.run(t, program)
	o.checkContexts(t, s)
	for method, n := range sampled(s) {
		if strings.HasPrefix(method, "p.star:") && n > o.began[method] {
			t.Errorf("%d activations of %s, of which %d began", n, method, o.began[method])
		}
	}
}

// programs returns random programs: functions that call earlier ones, in all ways.
func programs() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		b.WriteString("def f0(*args):\n    hit()\n\ndef fails():\n    hit()\n    f0()\n    return 1 // 0\n\n")
		functions := rapid.IntRange(1, 4).Draw(t, "functions")
		for i := range functions {
			fmt.Fprintf(&b, "def f%d(*args):\n%s\n", i+1, indent(body(t, i+1), 1))
		}
		fmt.Fprintf(&b, "hit()\nf%d()\n", functions)
		return b.String()
	})
}

// body returns the statements of a function that may call the first ones.
func body(t *rapid.T, callees int) string {
	var lines []string
	for range rapid.IntRange(1, 3).Draw(t, "statements") {
		callee := fmt.Sprintf("f%d", rapid.IntRange(0, callees-1).Draw(t, "callee"))
		lines = append(lines, strings.ReplaceAll(rapid.SampledFrom(statements).Draw(t, "statement"), "F", callee))
	}
	at := rapid.IntRange(0, len(lines)).Draw(t, "hit")
	return strings.Join(append(lines[:at:at], append([]string{"hit()"}, lines[at:]...)...), "\n")
}

var statements = []string{
	"F()",
	"for i in [1, 2]:\n    F()",
	"x = [F() for i in [1, 2]]",
	"twice(F)",
	"twice(twice, F)",
	"box(F)",
	"attempt(fails, F)",
	"attempt(fails, fails, lambda: [hit(), F()])",
	"attempt(lambda: [hit(), fails()], lambda: [hit(), F()])",
	"sorted([2, 1], key=lambda x: [hit(), F(), x][2])",
	"sorted([2, 1, 3], key=lambda x: [hit(), x][1])",
	"sorted([1], key=F)",
	"both(twice, box, F)",
	"both(box, twice, lambda: [hit(), F()])",
	"def g():\n    F()\n    hit()\ntwice(g)\ng()",
	"def g():\n    hit()\n    y = 1\n    F()\nsorted([1, 2], key=lambda x: [g(), hit(), x][2])\ntwice(g)",
	"n = [0]\nwhile len(n) < 3:\n    F()\n    n.append(0)",
}

func indent(block string, by int) string {
	margin := strings.Repeat("    ", by)
	return margin + strings.ReplaceAll(block, "\n", "\n"+margin) + "\n"
}
