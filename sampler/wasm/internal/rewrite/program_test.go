package rewrite_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// A program writes a module at random whose functions have parameters, results and locals
// of all types, and call each other in all ways. Much of the code is dead, with or
// without operands on the stack. Computed values become part of a hash.
type program struct {
	random    *rand.Rand
	types     []funcType
	functions []int // types of the defined ones
	modern    bool  // several results, blocks with parameters
	tail      bool  // tail calls

	code   []byte
	self   funcType
	locals []byte   // types, parameters first
	labels [][]byte // operands of branches to them
	leaf   bool     // it calls nothing, and takes no fuel
	left   int      // instructions left, roughly

	counts bool // the program counts its points itself, in memory
	points int  // so far
}

type funcType struct{ params, results []byte }

const (
	programImports = 1

	i64       = 0x7e
	f32       = 0x7d
	v128      = 0x7b
	funcref   = 0x70
	externref = 0x6f
)

// The program's globals.
const (
	programHash  = iota
	programLeft  // fuel
	programDepth // of calls, whose ids stand in the memory
	programCalls // the id of the last one
	programGlobals
)

func newProgram(random *rand.Rand, modern, tail bool) *program {
	p := &program{random: random, modern: modern, tail: tail}
	p.types = []funcType{{}, {[]byte{i32}, []byte{i32}}}
	for range 5 {
		p.types = append(p.types, p.funcType())
	}
	p.functions = []int{1}
	for range 6 {
		p.functions = append(p.functions, p.random.IntN(len(p.types)))
	}
	return p
}

func (p *program) funcType() funcType {
	results := p.random.IntN(2)
	if p.modern && p.random.IntN(3) == 0 {
		results = p.random.IntN(12)
	}
	return funcType{p.someTypes(p.random.IntN(13)), p.someTypes(results)}
}

// someTypes are mostly of one kind, to fill registers.
func (p *program) someTypes(n int) (types []byte) {
	all := []byte{i32, i64, f32, f64}
	if p.modern {
		all = append(all, v128, funcref, externref)
	}
	first := all[p.random.IntN(len(all))]
	for range n {
		if p.random.IntN(2) == 0 {
			types = append(types, first)
		} else {
			types = append(types, all[p.random.IntN(len(all))])
		}
	}
	return types
}

// The counters of a program that counts its points.
const (
	counterBase = 32 << 10
	pointBytes  = 16 // four counters
)

// count counts the choice that follows, by its operand on the stack, of which values from last
// on are the same. Without an operand last is 0.
func (p *program) count(last int) {
	if !p.counts {
		return
	}
	base := counterBase + pointBytes*p.points
	p.points++
	value, at := len(p.locals), len(p.locals)+1 // see function
	if last == 0 {
		p.number(base)
	} else {
		p.local(0x22, value)
		p.local(0x20, value)
		p.number(last)
		p.local(0x20, value)
		p.number(last)
		p.emit(0x49, 0x1b, 0x41, 2, 0x74) // the lesser, as an offset
		p.number(base)
		p.emit(0x6a)
	}
	p.local(0x22, at)
	p.local(0x20, at)
	p.emit(0x28, 2, 0, 0x41, 1, 0x6a, 0x36, 2, 0)
}

func (p *program) emit(code ...byte) { p.code = append(p.code, code...) }

func (p *program) unsigned(v int) { p.code = binary.AppendUvarint(p.code, uint64(v)) }

func (p *program) number(v int) {
	p.emit(0x41)
	for ; v < -0x40 || v >= 0x40; v >>= 7 {
		p.emit(byte(v) | 0x80)
	}
	p.emit(byte(v) & 0x7f)
}

// local writes an instruction of locals, with an index that may be longer than necessary.
func (p *program) local(op byte, index int) {
	p.emit(op)
	if p.random.IntN(8) == 0 && index < 128 {
		p.emit(byte(index)|0x80, 0)
		return
	}
	p.unsigned(index)
}

// push pushes a value of a type.
func (p *program) push(t byte) {
	p.left--
	if i := p.localOf(t); i >= 0 && p.random.IntN(2) == 0 {
		p.local(0x20, i)
		return
	}
	switch t {
	case i32:
		p.pushI32()
	case i64:
		p.push(i32)
		p.emit(0xac)
	case f32:
		p.push(i32)
		p.emit(0xb2)
	case f64:
		p.push(i32)
		p.emit(0xb7)
	case v128:
		p.push(i32)
		p.emit(0xfd, 0x11)
	case funcref:
		if p.random.IntN(2) == 0 {
			p.emit(0xd2, byte(programImports+p.random.IntN(len(p.functions))))
			return
		}
		p.emit(0xd0, funcref)
	case externref:
		p.emit(0xd0, externref)
	}
}

func (p *program) pushI32() {
	switch n := p.random.IntN(8); {
	case n < 3 || p.left < 0:
		p.number(p.random.IntN(300) - 100)
	case n < 5:
		p.emit(0x23, programHash)
	case n < 6:
		p.push(i32)
		p.push(i32)
		p.emit(0x73)
	case n < 7:
		p.block(0x02, funcType{nil, []byte{i32}})
	default:
		p.push(i32)
		p.block(0x04, funcType{nil, []byte{i32}})
	}
}

func (p *program) pushAll(types []byte) {
	for _, t := range types {
		p.push(t)
	}
}

// take makes the value on the stack part of the hash, or a local.
func (p *program) take(t byte) {
	if i := p.localOf(t); i >= 0 && p.random.IntN(3) == 0 {
		p.local(0x21, i)
		return
	}
	switch t {
	case i64:
		p.emit(0xa7)
	case f32:
		p.emit(0xfc, 0x00)
	case f64:
		p.emit(0xfc, 0x02)
	case v128:
		p.emit(0xfd, 0x1b, 0)
	case funcref, externref:
		p.emit(0xd1)
	}
	p.emit(0x23, programHash)
	p.number(31)
	p.emit(0x6c, 0x6a, 0x24, programHash)
}

func (p *program) takeAll(types []byte) {
	for _, t := range slices.Backward(types) {
		p.take(t)
	}
}

// localOf is a local of a type, or -1.
func (p *program) localOf(t byte) int {
	var all []int
	for i, l := range p.locals {
		if l == t {
			all = append(all, i)
		}
	}
	if len(all) == 0 {
		return -1
	}
	return all[p.random.IntN(len(all))]
}

// use takes fuel, and returns without any left.
func (p *program) use() {
	p.emit(0x23, programLeft, 0x41, 1, 0x6b, 0x24, programLeft, 0x23, programLeft, 0x41, 0, 0x4c)
	p.count(1)
	p.emit(0x04, 0x40)
	for _, t := range p.self.results {
		p.zero(t)
	}
	p.emit(0x0f, 0x0b)
}

func (p *program) zero(t byte) {
	switch t {
	case i32, i64:
		p.emit(0x41+(i32-t), 0)
	case f32:
		p.emit(0x43, 0, 0, 0, 0)
	case f64:
		p.emit(0x44, 0, 0, 0, 0, 0, 0, 0, 0)
	case v128:
		p.emit(append([]byte{0xfd, 0x0c}, make([]byte, 16)...)...)
	default:
		p.emit(0xd0, t)
	}
}

// block writes a block, loop or if of a type; the parameters are on the stack.
func (p *program) block(op byte, t funcType) {
	if op == 0x04 {
		p.count(1)
	}
	p.emit(op)
	switch {
	case len(t.params) == 0 && len(t.results) == 0:
		p.emit(0x40)
	case len(t.params) == 0 && len(t.results) == 1:
		p.emit(t.results[0])
	default:
		p.unsigned(p.typeIndex(t))
	}
	takes := t.results
	if op == 0x03 {
		takes = t.params
	}
	p.labels = append(p.labels, takes)
	p.inside(op, t)
	if op == 0x04 && (len(t.results) > 0 || p.random.IntN(2) == 0) {
		p.emit(0x05)
		p.inside(op, t)
	}
	p.labels = p.labels[:len(p.labels)-1]
	p.emit(0x0b)
}

func (p *program) inside(op byte, t funcType) {
	if op == 0x03 {
		p.count(0)
	}
	p.takeAll(t.params)
	if op == 0x03 {
		p.use()
	}
	p.statements()
	p.pushAll(t.results)
}

func (p *program) typeIndex(t funcType) int {
	for i, known := range p.types {
		if slices.Equal(known.params, t.params) && slices.Equal(known.results, t.results) {
			return i
		}
	}
	p.types = append(p.types, t)
	return len(p.types) - 1
}

func (p *program) statements() {
	for n := p.random.IntN(5); n >= 0 && p.left > 0; n-- {
		p.statement()
	}
}

func (p *program) statement() {
	p.left -= 2
	operands := true
	if p.random.IntN(12) == 0 {
		p.die()
		operands = p.random.IntN(2) == 0
	}
	switch p.random.IntN(12) {
	case 0, 1, 2:
		p.call(operands)
	case 3:
		p.tailCall(operands)
	case 4, 5:
		p.nested(operands)
	case 6, 7, 8:
		p.branch(operands)
	case 9:
		p.table(operands)
	default:
		t := p.someTypes(1)[0]
		p.operands(operands, t)
		p.take(t)
	}
}

// die leaves the function, which makes the rest of the block dead.
func (p *program) die() {
	p.pushAll(p.self.results)
	if p.random.IntN(2) == 0 {
		p.emit(0x0f)
		return
	}
	p.emit(0x0c)
	p.unsigned(len(p.labels) - 1)
}

// operands pushes operands, or leaves that to the stack of dead code.
func (p *program) operands(push bool, types ...byte) {
	if push {
		p.pushAll(types)
	}
}

func (p *program) call(operands bool) {
	if p.leaf {
		return
	}
	if p.random.IntN(8) == 0 {
		p.emit(0x10, 0)
		return
	}
	f := p.random.IntN(len(p.functions))
	t := p.types[p.functions[f]]
	p.operands(operands, t.params...)
	if p.random.IntN(2) == 0 {
		p.enter()
		p.emit(0x10, byte(programImports+f))
	} else {
		if operands {
			p.number(f)
		}
		p.enter()
		p.emit(0x11)
		p.unsigned(p.functions[f])
		p.emit(0)
	}
	p.emit(0x23, programDepth, 0x41, 1, 0x6b, 0x24, programDepth)
	p.takeAll(t.results)
}

// enter gives the following call an id, for the host.
func (p *program) enter() {
	p.emit(0x23, programDepth, 0x41, 1, 0x6a, 0x24, programDepth)
	p.emit(0x23, programCalls, 0x41, 1, 0x6a, 0x24, programCalls)
	p.emit(0x23, programDepth, 0x41, 2, 0x74, 0x23, programCalls, 0x36, 2, 0)
}

// tailCall calls a function with the same results, on a condition.
func (p *program) tailCall(operands bool) {
	if !p.tail || p.leaf {
		return
	}
	f := p.random.IntN(len(p.functions))
	t := p.types[p.functions[f]]
	if !slices.Equal(t.results, p.self.results) {
		return
	}
	p.operands(operands, i32)
	p.count(1)
	p.emit(0x04, 0x40)
	if !operands {
		p.emit(0x00)
	}
	p.operands(operands, t.params...)
	if p.random.IntN(2) == 0 {
		p.emit(0x12, byte(programImports+f))
	} else {
		if operands {
			p.number(f)
		}
		p.emit(0x13)
		p.unsigned(p.functions[f])
		p.emit(0)
	}
	p.emit(0x0b)
}

func (p *program) nested(operands bool) {
	t := funcType{}
	if p.modern && p.random.IntN(3) == 0 {
		t = funcType{p.someTypes(p.random.IntN(3)), p.someTypes(p.random.IntN(3))}
	}
	op := byte(0x02 + p.random.IntN(3))
	p.operands(operands, t.params...)
	if op == 0x04 {
		p.operands(operands, i32)
	}
	p.block(op, t)
	p.takeAll(t.results)
}

func (p *program) branch(operands bool) {
	l := p.random.IntN(len(p.labels))
	types := p.labels[len(p.labels)-1-l]
	p.operands(operands, types...)
	if p.random.IntN(6) == 0 {
		p.emit(0x0c)
		p.unsigned(l)
		return
	}
	p.operands(operands, i32)
	p.count(1)
	p.emit(0x0d)
	p.unsigned(l)
	p.takeAll(types)
}

// table writes a br_table to labels with the same operands.
func (p *program) table(operands bool) {
	first := p.labels[p.random.IntN(len(p.labels))]
	var same []byte
	for i := range p.labels {
		if slices.Equal(p.labels[len(p.labels)-1-i], first) {
			same = append(same, byte(i))
		}
	}
	p.operands(operands, first...)
	p.operands(operands, i32)
	p.count(3)
	p.emit(0x0e, 3)
	for range 4 {
		p.emit(same[p.random.IntN(len(same))])
	}
}

// function writes the body of function i, with its size.
func (p *program) function(i int) []byte {
	p.self = p.types[p.functions[i]]
	p.locals = slices.Clone(p.self.params)
	var groups []byte
	n := byte(0)
	for range p.random.IntN(4) {
		t, count := p.someTypes(1)[0], []int{1, 2, 60, 70, 130}[p.random.IntN(5)]
		groups = append(binary.AppendUvarint(groups, uint64(count)), t)
		p.locals = append(p.locals, slices.Repeat([]byte{t}, count)...)
		n++
	}
	if p.counts {
		groups = append(groups, 2, i32)
		n++
	}
	p.code, p.left = nil, 40
	p.labels = append(p.labels[:0], p.self.results)
	p.count(0)
	if p.leaf = i > 0 && p.random.IntN(4) == 0; !p.leaf {
		p.use()
	}
	p.statements()
	p.pushAll(p.self.results)
	body := append(append([]byte{n}, groups...), p.code...)
	body = append(body, 0x0b)
	return append(binary.AppendUvarint(nil, uint64(len(body))), body...)
}

// module is the whole program, whose function "f" takes and returns an i32.
func (p *program) module() []byte {
	n := len(p.functions)
	code := []byte{byte(n)}
	for i := range p.functions {
		code = append(code, p.function(i)...)
	}
	types := binary.AppendUvarint(nil, uint64(len(p.types)))
	for _, t := range p.types {
		types = append(append(types, 0x60, byte(len(t.params))), t.params...)
		types = append(append(types, byte(len(t.results))), t.results...)
	}
	functions, elements := []byte{byte(n)}, []byte{1, 0, 0x41, 0, 0x0b, byte(n)}
	for i, t := range p.functions {
		functions = append(functions, byte(t))
		elements = append(elements, byte(programImports+i))
	}
	const none = "\x7f\x01\x41\x00\x0b"
	return build(
		section(1, types...),
		section(2, append([]byte{1}, "\x03env\x04host\x00\x00"...)...),
		section(3, functions...),
		section(4, 1, 0x70, 0, byte(n)),
		section(5, 1, 0, 1),
		section(6, append([]byte{programGlobals}, "\x7f\x01\x41\x07\x0b\x7f\x01\x41\xb8\x17\x0b"+none+none...)...),
		section(7, 1, 1, 'f', 0, programImports),
		section(9, elements...),
		section(10, code...),
	)
}

// programCount is the number of programs.
const programCount = 80

// TestPrograms: with any additions, a program computes the same as before. Every sample
// shows the true activations, and those that a sample has seen.
func TestPrograms(t *testing.T) {
	t.Parallel()
	for seed := range uint64(programCount) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			p := newProgram(random, random.IntN(4) > 0, random.IntN(2) == 0)
			module := p.module()
			plain := programHost{t: t, random: random}
			want, err := plain.run(module, tailCalls)
			if err != nil {
				t.Skip(err) // wazero (v1.12.0) does not recognize all code as dead
			}
			for range 4 {
				o, features := p.options()
				h := programHost{t: t, random: random, tail: p.tail, module: rewritten(t, module, o)}
				got, err := h.run(h.module.Binary, features)
				if err != nil || got != want {
					t.Errorf("%+v: %q, %v, want %q", o, got, err, want)
				}
			}
		})
	}
}

const tailCalls = api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall

// options returns random options that suit the program's features.
func (p *program) options() (rewrite.Options, api.CoreFeatures) {
	o, features := optionsOf(byte(p.random.IntN(32))), tailCalls
	o.MultiValue = o.MultiValue || p.modern
	if !o.MultiValue {
		features &^= api.CoreFeatureMultiValue
	}
	if !o.TailCalls && !p.tail {
		features &^= experimental.CoreFeaturesTailCall
	}
	return o, features
}
