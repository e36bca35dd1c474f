// Command eval interprets a small program by walking its tree: every step is a call
// through an interface, so a call_indirect with known callees.
package main

import (
	"fmt"

	"github.com/ccmapd/ccmapd/testdata/guests/go/rounds"
)

// node is an expression or a statement. Its value is the expression's.
type node interface {
	eval(m *machine) int
}

type machine struct {
	variables [2]int
	calls     struct{ number, variable, binary, assign, while int }
}

type (
	number   int
	variable int
	binary   struct {
		operator    byte
		left, right node
	}
	assign struct {
		to    variable
		value node
	}
	while struct {
		condition node
		body      []node
	}
)

func (n number) eval(m *machine) int {
	m.calls.number++
	return int(n)
}

func (v variable) eval(m *machine) int {
	m.calls.variable++
	return m.variables[v]
}

func (b *binary) eval(m *machine) int {
	m.calls.binary++
	left, right := b.left.eval(m), b.right.eval(m)
	switch b.operator {
	case '+':
		return left + right
	case '-':
		return left - right
	default:
		return left * right % 1_000_003
	}
}

func (a *assign) eval(m *machine) int {
	m.calls.assign++
	m.variables[a.to] = a.value.eval(m)
	return m.variables[a.to]
}

func (w *while) eval(m *machine) int {
	m.calls.while++
	value := 0
	for w.condition.eval(m) != 0 {
		for _, statement := range w.body {
			value = statement.eval(m)
		}
	}
	return value
}

// program is: x = n; y = 1; while x { y = y * (x + 3) % 1_000_003; x = x - 1 }
func program(n int) []node {
	const x, y = variable(0), variable(1)
	return []node{
		&assign{x, number(n)},
		&assign{y, number(1)},
		&while{x, []node{
			&assign{y, &binary{'*', y, &binary{'+', x, number(3)}}},
			&assign{x, &binary{'-', x, number(1)}},
		}},
	}
}

func main() {
	var m machine
	tree := program(30_000)
	rounds.Repeat(func() {
		for _, statement := range tree {
			statement.eval(&m)
		}
	})
	fmt.Println("y", m.variables[1])
	fmt.Println("main.number.eval", m.calls.number)
	fmt.Println("main.variable.eval", m.calls.variable)
	fmt.Println("main.(*binary).eval", m.calls.binary)
	fmt.Println("main.(*assign).eval", m.calls.assign)
	fmt.Println("main.(*while).eval", m.calls.while)
}
