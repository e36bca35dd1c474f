package demo

import (
	"fmt"
	"strconv"
)

// formula is a node of an expression tree. Calls of eval go to four types.
type formula interface {
	eval(x float64, t *tally) float64
}

type (
	number   float64
	variable struct{}
	negate   struct{ of formula }
	binary   struct {
		op          byte
		left, right formula
	}
)

func (n number) eval(_ float64, t *tally) float64 {
	t[callNumber]++
	return float64(n)
}

func (variable) eval(x float64, t *tally) float64 {
	t[callVariable]++
	return x
}

func (n negate) eval(x float64, t *tally) float64 {
	t[callNegate]++
	return -n.of.eval(x, t)
}

func (b binary) eval(x float64, t *tally) float64 {
	t[callBinary]++
	left, right := b.left.eval(x, t), b.right.eval(x, t)
	switch b.op {
	case '+':
		return left + right
	case '-':
		return left - right
	case '*':
		return left * right
	}
	return left / right
}

// parser is a recursive-descent parser of
//
//	sum     = product { ("+" | "-") product }
//	product = factor { ("*" | "/") factor }
//	factor  = number | "x" | "-" factor | "(" sum ")"
type parser struct {
	text string
	at   int
}

// parse returns the tree of a formula in x.
func parse(text string, t *tally) (formula, error) {
	t[callParse]++
	p := parser{text: text}
	f, err := p.sum()
	if err == nil && p.at < len(p.text) {
		err = p.unexpected()
	}
	return f, err
}

func (p *parser) sum() (formula, error) {
	return p.chain('+', '-', p.product)
}

func (p *parser) product() (formula, error) {
	return p.chain('*', '/', p.factor)
}

// chain parses operands joined by either operator, from the left.
func (p *parser) chain(op1, op2 byte, operand func() (formula, error)) (formula, error) {
	left, err := operand()
	for err == nil && (p.peek() == op1 || p.peek() == op2) {
		op := p.next()
		var right formula
		right, err = operand()
		left = binary{op, left, right}
	}
	return left, err
}

func (p *parser) factor() (formula, error) {
	switch c := p.peek(); {
	case c == 'x':
		p.next()
		return variable{}, nil
	case c == '-':
		p.next()
		f, err := p.factor()
		return negate{f}, err
	case c == '(':
		return p.group()
	case isDigit(c):
		return p.number()
	}
	return nil, p.unexpected()
}

func (p *parser) group() (formula, error) {
	p.next()
	f, err := p.sum()
	if err != nil {
		return nil, err
	}
	if p.peek() != ')' {
		return nil, p.unexpected()
	}
	p.next()
	return f, nil
}

func (p *parser) number() (formula, error) {
	start := p.at
	for p.at < len(p.text) && isDigit(p.text[p.at]) {
		p.at++
	}
	v, err := strconv.ParseFloat(p.text[start:p.at], 64)
	return number(v), err
}

// peek returns the next byte other than a space, or 0 at the end.
func (p *parser) peek() byte {
	for p.at < len(p.text) && p.text[p.at] == ' ' {
		p.at++
	}
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

func (p *parser) next() byte {
	c := p.peek()
	p.at++
	return c
}

func (p *parser) unexpected() error {
	return fmt.Errorf("parse %q: unexpected input at byte %d", p.text, p.at)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
