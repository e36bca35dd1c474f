package hotspot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
)

// Errors that callers tell apart by errors.Is.
var (
	ErrOthers  = errors.New("the JVM has compiler directives of somebody else")
	ErrNoHints = errors.New("no hints")
	errAnswer  = errors.New("unexpected answer of the JVM")
)

// vm takes diagnostic commands, and files for them.
type vm interface {
	Jcmd(ctx context.Context, timeout time.Duration, line string) (string, error)
	WithFile(content []byte, use func(path string) error) error
}

// commandTime is how long a command may take.
const commandTime = 5 * time.Second

// stack is the JVM's stack of directives, as far as it is ours: what we put there lies on top.
// Each directive of ours has a pattern that says whose it is.
type stack struct {
	vm    vm
	mark  string
	added time.Time // when the JVM had added the last of ours
}

// markPrefix begins our mark. The pid of a ccmapd and its namespace of pids follow.
const markPrefix = "ccmapd.hints_"

var marks = regexp.MustCompile(`^` + regexp.QuoteMeta(markPrefix) + `([0-9]{1,10})_([0-9]{1,20})$`)

func newStack(v vm) *stack {
	return &stack{vm: v, mark: fmt.Sprintf("%s%d_%d", markPrefix, os.Getpid(), process.OwnNamespace())}
}

// isLeft reports whether a pattern is the mark of a ccmapd that is gone. Of other namespaces
// that is not known.
func isLeft(pattern string) bool {
	found := marks.FindStringSubmatch(pattern)
	if found == nil || found[2] != strconv.FormatUint(process.OwnNamespace(), 10) {
		return false
	}
	pid, _ := strconv.Atoi(found[1])
	return !process.RunsThisProgram(pid)
}

// list returns the patterns of each directive, the top first, without the JVM's default.
func (s *stack) list(ctx context.Context) ([][]string, error) {
	answer, err := s.vm.Jcmd(ctx, commandTime, "Compiler.directives_print")
	if err != nil {
		return nil, fmt.Errorf("list compiler directives: %w", err)
	}
	entries, err := parseDirectives(answer)
	if err != nil {
		return nil, fmt.Errorf("list compiler directives: %w", err)
	}
	return entries, nil
}

// parseDirectives parses a list of directives. The default ends it.
func parseDirectives(answer string) (entries [][]string, err error) {
	for line := range strings.Lines(answer) {
		line = strings.TrimSpace(line)
		if line == "Directive: (default)" {
			return entries, nil
		}
		if patterns, found := strings.CutPrefix(line, "matching: "); found {
			entries = append(entries, strings.Split(patterns, ", "))
		}
	}
	return nil, fmt.Errorf("%w: the list of directives has no default", errAnswer)
}

func has(patterns []string, is func(string) bool) bool {
	for _, p := range patterns {
		if is(p) {
			return true
		}
	}
	return false
}

func (s *stack) isOurs(pattern string) bool { return pattern == s.mark }

// clear removes what a ccmapd has left that is gone, and makes sure that nobody else has
// directives.
func (s *stack) clear(ctx context.Context) error {
	entries, err := s.list(ctx)
	if err != nil {
		return err
	}
	for _, patterns := range entries {
		if !has(patterns, isLeft) {
			return fmt.Errorf("%w, for %.100q", ErrOthers, patterns)
		}
		if err := s.pop(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pop removes the directive on top. The JVM says the same, whether there was one or not.
func (s *stack) pop(ctx context.Context) error {
	if _, err := s.vm.Jcmd(ctx, commandTime, "Compiler.directives_remove"); err != nil {
		return fmt.Errorf("remove a compiler directive: %w", err)
	}
	return nil
}

// push puts hints on top, a directive for each root.
func (s *stack) push(ctx context.Context, hints []Hint) error {
	text, err := directives(hints, s.mark)
	if err != nil {
		return err
	}
	if err := s.clear(ctx); err != nil {
		return err
	}
	want := len(Roots(hints))
	var answer string
	err = s.vm.WithFile(text, func(path string) (err error) {
		answer, err = s.vm.Jcmd(ctx, commandTime, "Compiler.directives_add "+path)
		return err
	})
	if err != nil {
		return fmt.Errorf("add compiler directives: %w", err)
	}
	s.added = time.Now()
	if !strings.Contains(answer, strconv.Itoa(want)+" compiler directives added") { // and yet the status is 0
		return fmt.Errorf("add compiler directives: %w: %.100q", errAnswer, strings.TrimSpace(answer))
	}
	return s.check(ctx, want)
}

// check checks that so many directives of ours are in force.
func (s *stack) check(ctx context.Context, want int) error {
	entries, err := s.list(ctx)
	if err != nil {
		return err
	}
	for i := range want {
		if i >= len(entries) || !has(entries[i], s.isOurs) {
			return fmt.Errorf("add compiler directives: %w: it lists %d of %d", errAnswer, i, want)
		}
	}
	return nil
}

// withdraw removes ours. Somebody else may have put some on top: then all stay.
func (s *stack) withdraw(ctx context.Context) error {
	for before := -1; ; {
		entries, err := s.list(ctx)
		if err != nil {
			return err
		}
		ours := 0
		for _, patterns := range entries {
			if has(patterns, s.isOurs) {
				ours++
			}
		}
		switch {
		case ours == 0:
			return nil
		case ours == before: // a JVM that says yes and does nothing would keep us for ever
			return fmt.Errorf("remove our compiler directives: %w: there are as many as before", errAnswer)
		case !has(entries[0], s.isOurs):
			return fmt.Errorf("remove our compiler directives: %w on top, for %.100q", ErrOthers, entries[0])
		}
		before = ours
		if err := s.pop(ctx); err != nil {
			return err
		}
	}
}
