package hotspot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
)

// fakeVM has a stack of directives, the top first.
type fakeVM struct {
	entries []string // patterns
	file    string
	lies    bool // it says yes, and does nothing
	late    func()
}

func (f *fakeVM) WithFile(content []byte, use func(string) error) error {
	f.file = string(content)
	defer func() { f.file = "" }()
	return use("/tmp/file")
}

func (f *fakeVM) Jcmd(_ context.Context, _ time.Duration, line string) (string, error) {
	switch {
	case line == "Compiler.directives_print":
		return f.print(), nil
	case line == "Compiler.directives_remove":
		if len(f.entries) > 0 && !f.lies {
			f.entries = f.entries[1:]
		}
		return "Command executed successfully\n", nil
	case line == "Compiler.directives_add /tmp/file" && f.file != "":
		return f.add(), nil
	}
	return "", fmt.Errorf("unexpected command %q", line)
}

func (f *fakeVM) print() string {
	var out strings.Builder
	for _, patterns := range append(slices.Clone(f.entries), "*.*") {
		mark := ""
		if patterns == "*.*" {
			mark = " (default)"
		}
		fmt.Fprintf(&out, "\nDirective:%s\n matching: %s\n c2 directives:\n  inline: -\n", mark, patterns)
	}
	return out.String()
}

func (f *fakeVM) add() string {
	n := 0
	for line := range strings.Lines(f.file) {
		if _, match, found := strings.Cut(line, `{"match":["`); found {
			patterns, _, _ := strings.Cut(match, `"]`)
			if !f.lies {
				f.entries = append([]string{strings.ReplaceAll(patterns, `","`, ", ")}, f.entries...)
			}
			n++
		}
	}
	if f.late != nil {
		f.late()
	}
	return fmt.Sprintf("%d compiler directives added\n", n)
}

func TestPush(t *testing.T) {
	t.Parallel()
	const nobody = 1 << 30
	left := fmt.Sprintf("a.b, %s%d_%d", markPrefix, nobody, process.OwnNamespace())
	for name, test := range map[string]struct {
		vm      fakeVM
		want    error
		entries int // after it
	}{
		"an empty stack":            {fakeVM{}, nil, 2},
		"left by a ccmapd":          {fakeVM{entries: []string{left, left}}, nil, 2},
		"somebody else's":           {fakeVM{entries: []string{"a.b"}}, ErrOthers, 1},
		"somebody else's, below":    {fakeVM{entries: []string{left, "a.b"}}, ErrOthers, 1},
		"of another ccmapd":         {fakeVM{entries: []string{fmt.Sprintf("a.b, %s%d_%d", markPrefix, os.Getpid(), process.OwnNamespace())}}, ErrOthers, 1},
		"of another namespace":      {fakeVM{entries: []string{markPrefix + "7_1"}}, ErrOthers, 1},
		"says yes and does nothing": {fakeVM{lies: true}, errAnswer, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(&test.vm)
			err := s.push(t.Context(), workHints(t))
			if !errors.Is(err, test.want) || len(test.vm.entries) != test.entries {
				t.Fatalf("%v, want %v: %q", err, test.want, test.vm.entries)
			}
			if err != nil {
				return
			}
			if err := s.withdraw(t.Context()); err != nil || len(test.vm.entries) != 0 {
				t.Errorf("withdraw: %v: %q", err, test.vm.entries)
			}
		})
	}
}

// What somebody else has put on top of ours stays, and ours with it.
func TestWithdrawBelowOthers(t *testing.T) {
	t.Parallel()
	vm := &fakeVM{}
	s := newStack(vm)
	if err := s.push(t.Context(), workHints(t)); err != nil {
		t.Fatal(err)
	}
	vm.entries = append([]string{"a.b"}, vm.entries...)
	if err := s.withdraw(t.Context()); !errors.Is(err, ErrOthers) || len(vm.entries) != 3 {
		t.Errorf("%v: %q", err, vm.entries)
	}
	vm.entries, vm.lies = vm.entries[1:], true
	if err := s.withdraw(t.Context()); !errors.Is(err, errAnswer) {
		t.Errorf("a JVM that does nothing: %v", err)
	}
}

// A list that is cut, or is none, is no list of the JVM.
func TestParseDirectives(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "garbage", "Directive:\n matching: a.b\n", strings.Repeat("matching: x\n", 1000)} {
		if got, err := parseDirectives(bad); !errors.Is(err, errAnswer) {
			t.Errorf("%.20q: %q, %v", bad, got, err)
		}
	}
}

// FuzzDirectives: any answer is a list or an error.
func FuzzDirectives(f *testing.F) {
	f.Add((&fakeVM{entries: []string{"a.b, c.d"}}).print())
	f.Fuzz(func(t *testing.T, answer string) {
		entries, err := parseDirectives(answer)
		if err != nil && entries != nil || len(entries) > strings.Count(answer, "matching: ") {
			t.Errorf("%q, %v", entries, err)
		}
	})
}
