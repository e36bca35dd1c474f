package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"

	"github.com/tetratelabs/wazero"

	"github.com/ccmapd/ccmapd/sampler/wasm"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// mutation changes a module somewhere, at random. One mutant in wild is taken as it comes; the others are made
// anew until wazero takes them.
type mutation struct {
	name   string
	rounds int
	wild   int
	change func(*mutator, []section) []byte
}

const mostTries = 100 // to make a mutant that wazero takes

func mutations() []mutation {
	return []mutation{
		{"bytes changed", 700, 2, (*mutator).bytes},
		{"sections cut or exchanged", 600, 1, (*mutator).sections},
		{"lengths and counts changed", 500, 1, (*mutator).lengths},
		{"LEB128 numbers changed", 900, 2, (*mutator).numbers},
		{"operations changed for others of their type", 1400, 8, (*mutator).operations},
		{"names and DWARF changed", 900, 4, (*mutator).customs},
	}
}

// mutator makes a mutant. The same seed, mutation and number make the same one.
type mutator struct {
	*rand.Rand
	bases []base
}

// base is a module that is mutated.
type base struct {
	name   string
	binary []byte
}

// section is a section of a module. A custom one (id 0) begins with its name.
type section struct {
	id      byte
	content []byte
}

// loadBases returns the hand-written guests, then one with foreign DWARF, then the C program in
// file, which has DWARF of its own.
func loadBases(file string) ([]base, error) {
	program, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var bases []base
	for _, name := range guests.SmallNames() {
		bases = append(bases, base{name, guests.Small(name)})
	}
	described := slices.DeleteFunc(split(guests.Small("traps")), func(s section) bool { return s.id == 0 }) // wazero refuses bad names
	for _, s := range split(program) {
		if s.id == 0 && bytes.Contains(s.content[:min(len(s.content), 8)], []byte(".debug_")) {
			described = append(described, s)
		}
	}
	return append(bases, base{"traps with DWARF", join(described)}, base{"C program", join(split(program))}), nil
}

// mutant makes the mutant of a number, which differs from its base.
func (k mutation) mutant(bases []base, seed uint64, number int) (of string, mutant []byte) {
	kind := fnv.New64a()
	fmt.Fprint(kind, k.name, number)
	m := &mutator{rand.New(rand.NewPCG(seed, kind.Sum64())), bases}
	from := m.base(k)
	for try := 0; ; {
		mutant = k.change(m, split(from.binary))
		if bytes.Equal(mutant, from.binary) {
			continue
		}
		if try++; number%k.wild == 0 || try == mostTries || taken(mutant) {
			return from.name, mutant
		}
	}
}

// taken reports whether wazero takes a module. It is not asked about counts that the module has no room for:
// wazero v1.12.0 believes some of them and makes room, which ends this process.
func taken(module []byte) (ok bool) {
	if _, err := wasm.Functions(module); err != nil && believed.MatchString(err.Error()) {
		return false
	}
	defer func() { ok = recover() == nil && ok }() // of wazero, which runs such a mutant in a worker
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, mutantConfig(wazero.NewRuntimeConfigInterpreter())) // compiles faster
	defer r.Close(ctx)
	_, err := r.CompileModule(ctx, module)
	return err == nil
}

// believed are the rewriter's refusals of counts.
var believed = regexp.MustCompile(`elements exceeds its section|, more than \d+`)

// base chooses a module. Large ones are chosen seldom, but the one with DWARF where that is to change.
func (m *mutator) base(k mutation) base {
	small, last := len(m.bases)-2, len(m.bases)-1
	chance := m.IntN(20)
	switch {
	case chance == 0:
		return m.bases[last]
	case k.name == "names and DWARF changed" && chance < 12:
		return m.bases[small]
	}
	return m.bases[m.IntN(small)]
}

// bytes changes some bytes anywhere after the header.
func (m *mutator) bytes(s []section) []byte {
	b := join(s)
	for range 1 + m.IntN(3) {
		m.flip(b[moduleHeader:])
	}
	return b
}

// flip changes a bit, or a whole byte.
func (m *mutator) flip(b []byte) {
	if len(b) == 0 {
		return
	}
	i := m.IntN(len(b))
	if m.IntN(2) == 0 {
		b[i] ^= 1 << m.IntN(8)
	} else {
		b[i] = byte(m.Uint32())
	}
}

// sections changes which sections there are.
func (m *mutator) sections(s []section) []byte {
	i, j := m.IntN(len(s)), m.IntN(len(s))
	switch m.IntN(6) {
	case 0:
		s = slices.Delete(s, i, i+1)
	case 1:
		s = slices.Insert(s, j, s[i])
	case 2:
		s[i], s[j] = s[j], s[i]
	case 3:
		b := join(s)
		return b[:m.IntN(len(b))]
	case 4:
		s[i].content = s[i].content[:m.IntN(len(s[i].content)+1)]
	default:
		other := split(m.bases[m.IntN(len(m.bases)-2)].binary)
		if k := slices.IndexFunc(other, func(o section) bool { return o.id == s[i].id }); k >= 0 {
			s[i] = other[k]
		}
	}
	return join(s)
}

// lengths changes the length of a section, of a function's code or the count at a section's
// beginning, without what is counted.
func (m *mutator) lengths(s []section) []byte {
	i := m.IntN(len(s))
	if m.IntN(3) > 0 {
		at := 0
		if code, ok := bodies(s[i]); ok && m.IntN(2) == 0 {
			at = len(s[i].content) - len(joinBodies(code[m.IntN(len(code)):])) + 1 // of a body, often
		}
		s[i].content = m.renumber(s[i].content, min(at, len(s[i].content)))
		return join(s)
	}
	before := join(s[:i+1])
	before = before[:len(before)-len(s[i].content)]
	header := join(s[:i])
	length := m.renumber(before[len(header)+1:], 0)
	return slices.Concat(before[:len(header)+1], length, s[i].content, join(s[i+1:])[moduleHeader:])
}

// numbers changes a number in a section, or in a function's code. The lengths around it fit.
func (m *mutator) numbers(s []section) []byte {
	i := m.IntN(len(s))
	if code, ok := bodies(s[i]); ok {
		k := m.IntN(len(code))
		code[k] = m.renumber(code[k], m.IntN(len(code[k])+1))
		s[i].content = joinBodies(code)
		return join(s)
	}
	s[i].content = m.renumber(s[i].content, m.IntN(len(s[i].content)+1))
	return join(s)
}

// renumber puts another number where one may begin.
func (m *mutator) renumber(b []byte, at int) []byte {
	v, n := binary.Uvarint(b[at:])
	n = max(n, 0) // it is cut
	switch m.IntN(6) {
	case 0:
		v++
	case 1:
		v--
	case 2:
		v = m.Uint64N(200)
	case 3:
		v = 1<<m.IntN(64) - uint64(m.IntN(2))
	case 4:
		v = uint64(uint32(v - uint64(m.IntN(10))))
	}
	encoded := binary.AppendUvarint(nil, v)
	if m.IntN(3) == 0 { // longer than it must be
		encoded[len(encoded)-1] |= 0x80
		encoded = append(append(encoded, bytes.Repeat([]byte{0x80}, m.IntN(4))...), 0)
	}
	return slices.Concat(b[:at], encoded, b[at+n:])
}

// alike are groups of operations of one type. One may replace another.
var alike = [][]byte{
	span(0x46, 0x4f), span(0x51, 0x5a), span(0x6a, 0x78), span(0x7c, 0x8a), span(0x92, 0x98), span(0xa0, 0xa6), // of two numbers
	{0x45, 0x67, 0x68, 0x69, 0xc0, 0xc1},               // of one
	{0x28, 0x2c, 0x2d, 0x2e, 0x2f}, {0x36, 0x3a, 0x3b}, // loads, stores
	{0x02, 0x03}, {0x00, 0x01}, // block and loop; unreachable and nop
}

// immediate are operations that are followed by a number: calls, branches, locals, constants.
var immediate = []byte{0x0c, 0x0d, 0x10, 0x20, 0x21, 0x22, 0x41, 0x42}

func span(from, to byte) (all []byte) {
	for b := from; b <= to; b++ {
		all = append(all, b)
	}
	return all
}

// operations changes some operations of the code such that many mutants are valid.
func (m *mutator) operations(s []section) []byte {
	i := slices.IndexFunc(s, func(s section) bool { return s.id == codeSection })
	code, ok := bodies(s[i])
	if !ok {
		return m.bytes(s)
	}
	for range 1 + m.IntN(2) {
		m.operate(code[m.IntN(len(code))])
	}
	s[i].content = joinBodies(code)
	return join(s)
}

// operate changes an operation of a function.
func (m *mutator) operate(body []byte) {
	for range 100 {
		i := m.IntN(len(body))
		if slices.Contains(immediate, body[i]) && i+1 < len(body) && body[i+1] < 0x80 {
			body[i+1] = byte(m.IntN(12))
			return
		}
		for _, group := range alike {
			if slices.Contains(group, body[i]) {
				body[i] = group[m.IntN(len(group))]
				return
			}
		}
	}
}

// customs changes the content of custom sections.
func (m *mutator) customs(s []section) []byte {
	var at []int
	for i := range s {
		if s[i].id == 0 {
			at = append(at, i)
		}
	}
	for range 1 + m.IntN(6) {
		s[at[m.IntN(len(at))]].custom(m)
	}
	return join(s)
}

// custom changes a section after its name.
func (s *section) custom(m *mutator) {
	head := min(1+int(s.content[0]), len(s.content))
	name, b := s.content[:head:head], s.content[head:]
	i := m.IntN(len(b) + 1)
	run := m.IntN(min(len(b)-i, 64) + 1)
	switch m.IntN(6) {
	case 0:
		b = b[:i]
	case 1:
		clear(b[i : i+run])
	case 2:
		b = slices.Insert(b, i, bytes.Clone(b[i:i+run])...)
	case 3:
		b = m.renumber(b, i)
	default:
		for range 1 + m.IntN(8) {
			m.flip(b)
		}
	}
	s.content = append(name, b...)
}

const (
	moduleHeader = 8
	codeSection  = 10
)

// split returns the sections of a module that is well formed, as a copy.
func split(module []byte) (all []section) {
	for b := bytes.Clone(module[moduleHeader:]); len(b) > 0; {
		length, n := binary.Uvarint(b[1:])
		end := 1 + n + int(length)
		all = append(all, section{b[0], b[1+n : end : end]})
		b = b[end:]
	}
	return all
}

// join makes a module of sections.
func join(s []section) []byte {
	b := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range s {
		b = binary.AppendUvarint(append(b, s.id), uint64(len(s.content)))
		b = append(b, s.content...)
	}
	return b
}

// bodies returns the functions of the code section.
func bodies(s section) (all [][]byte, ok bool) {
	if s.id != codeSection {
		return nil, false
	}
	_, n := binary.Uvarint(s.content)
	for b := s.content[n:]; len(b) > 0; {
		length, n := binary.Uvarint(b)
		end := n + int(length)
		all = append(all, b[n:end:end])
		b = b[end:]
	}
	return all, len(all) > 0
}

// joinBodies makes the content of a code section.
func joinBodies(all [][]byte) []byte {
	b := binary.AppendUvarint(nil, uint64(len(all)))
	for _, body := range all {
		b = binary.AppendUvarint(b, uint64(len(body)))
		b = append(b, body...)
	}
	return b
}
