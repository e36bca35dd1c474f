package rewrite_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// old and quiet have safe points alone, and old has only the first. The others have all
// options, and a host that sets the globals at random.
var (
	announced = func(string, string) bool { return true }

	old       = rewrite.Options{}
	markedOld = rewrite.Options{Marks: true, Announce: announced}
	quiet     = rewrite.Options{MultiValue: true}
	marked    = rewrite.Options{MultiValue: true, Marks: true, Calls: true, Announce: announced}
	stubbed   = rewrite.Options{MultiValue: true, TailCalls: true, Marks: true, Calls: true, Announce: announced}
	exact     = rewrite.Options{MultiValue: true, Marks: true, Calls: true, Announce: announced, Exact: true, Points: true}
)

// suites are the directories of the test suite with features that the rewriter knows, and the
// options to rewrite them with.
var suites = []struct {
	name     string
	features api.CoreFeatures
	variants []variant
}{
	{"v1", api.CoreFeaturesV1, []variant{{"old", &old}, {"marked", &markedOld}}},
	{"v2", api.CoreFeaturesV2, []variant{{"quiet", &quiet}, {"marked", &marked}, {"exact", &exact}}},
	{"v2", api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall, []variant{{"stubbed", &stubbed}}},
	{"tail-call", api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall, []variant{{"marked", &marked}, {"stubbed", &stubbed}, {"exact", &exact}}},
	{"threads", api.CoreFeaturesV2 | experimental.CoreFeaturesThreads, []variant{{"marked", &marked}}},
	{"extended-const", api.CoreFeaturesV2 | experimental.CoreFeaturesExtendedConst, []variant{{"marked", &marked}}},
}

type variant struct {
	name    string
	options *rewrite.Options
}

// large returns whether a variant is one of those that add most code. They alone run the many
// scripts of vectors, whose instructions are copied whatever the options, and overflow stacks,
// which takes seconds.
func (v variant) large() bool { return v.options == &stubbed || v.options == &exact }

// runs returns whether a variant runs a script.
func (v variant) runs(script string) bool {
	if testing.Short() && v.options != &stubbed {
		return false // stacks that overflow take memory by the gigabyte under the race detector
	}
	return v.large() || !strings.HasPrefix(script, "simd_")
}

// TestCoreSuite runs every command of the core test suite twice: with original and with
// rewritten modules. All outcomes must be the same. The original modules are compiled once
// for all options.
//
// A newcomer's run leaves out the large scripts, and of the options of a suite all but the last.
func TestCoreSuite(t *testing.T) {
	large := []string{"br_table", "call", "call_indirect", "const", "float_exprs", "memory_copy", "return_call_indirect", "skip-stack-guard-page", "table_copy"}
	for _, s := range suites {
		for _, file := range scriptFiles(t, suiteDir(t, s.name)) {
			script := strings.TrimSuffix(filepath.Base(file), ".json")
			t.Run(s.name+"/"+script, func(t *testing.T) {
				t.Parallel()
				if slices.Contains(large, script) {
					testrun.Full(t, testrun.Minutes)
				}
				compiled := wazero.NewCompilationCache()
				t.Cleanup(func() { compiled.Close(context.Background()) })
				for i, v := range s.variants {
					if i < len(s.variants)-1 && !testrun.IsFull() {
						continue
					}
					if v.runs(script) {
						t.Run(v.name, func(t *testing.T) { v.run(t, file, s.features, compiled) })
					}
				}
			})
		}
	}
}

func (v variant) run(t *testing.T, file string, features api.CoreFeatures, compiled wazero.CompilationCache) {
	t.Helper()
	config := wazero.NewRuntimeConfigCompiler().WithCoreFeatures(features)
	p := pair{tb: t, script: readScript(t, file), overflows: v.large(), plain: newWorld(t, config.WithCompilationCache(compiled), nil, nil)}
	var random *rand.Rand
	if v.options.Marks {
		random = rand.New(rand.NewPCG(1, 2))
	}
	p.rewritten = newWorld(t, config, v.options, random)
	p.run()
}

// pair runs a script in two worlds and compares.
type pair struct {
	tb               testing.TB
	script           script
	plain, rewritten *world
	overflows        bool // it runs commands that must overflow the stack
}

func (p *pair) run() {
	spectest := script{dir: p.script.dir}
	if !strings.Contains(p.script.dir, filepath.Join("v1", "testdata")) {
		spectest.dir = suiteDir(p.tb, "v1")
	}
	p.instantiate(spectest.module(p.tb, command{Filename: "../../testdata/spectest.wasm"}), "spectest", command{})
	commands := p.script.Commands
	for i, c := range commands {
		as := ""
		if c.Type == "module" && i+1 < len(commands) && commands[i+1].Type == "register" {
			as = commands[i+1].As
		}
		p.command(c, as)
		if p.tb.Failed() {
			p.tb.Fatalf("line %d: %s %s", c.Line, c.Type, c.Filename)
		}
	}
	p.compareInstances()
}

func (p *pair) command(c command, as string) {
	switch c.Type {
	case "module", "assert_unlinkable", "assert_uninstantiable", "assert_malformed", "assert_invalid":
		if c.ModuleType != "text" {
			p.instantiate(p.script.module(p.tb, c), as, c)
		}
	case "assert_exhaustion":
		if p.overflows {
			p.compare(p.plain.invoke(c.Action), p.rewritten.invoke(c.Action))
		}
	case "assert_return", "action", "assert_trap":
		p.compare(p.plain.invoke(c.Action), p.rewritten.invoke(c.Action))
	}
}

// instantiate compares errors only if the module is valid: the original has the better
// message for an invalid module.
func (p *pair) instantiate(binary []byte, as string, c command) {
	plain, rewritten := p.plain.instantiate(binary, as), p.rewritten.instantiate(binary, as)
	p.plain.named[c.Name], p.rewritten.named[c.Name] = p.plain.last, p.rewritten.last
	if (plain.err == nil) != (rewritten.err == nil) {
		p.tb.Errorf("plain: %v\nrewritten: %v", plain.err, rewritten.err)
	} else if c.Type != "assert_invalid" && c.Type != "assert_malformed" {
		p.compare(plain, rewritten)
	}
}

func (p *pair) compare(plain, rewritten outcome) {
	if want, got := trace(plain.err), trace(rewritten.err); !slices.Equal(want, got) {
		p.tb.Errorf("errors, plain to rewritten:\n%s", cmp.Diff(want, got))
	}
	if !slices.Equal(plain.results, rewritten.results) {
		p.tb.Errorf("results, plain to rewritten:\n%s", cmp.Diff(plain.results, rewritten.results))
	}
}

// trace is an error's text by lines. It drops the second of two equal lines that a thunk
// and its function make, parameters, which some functions have one more of, and the start
// function's index. A stack overflow is its first line alone, because full stacks differ.
var startIndex = regexp.MustCompile(`^start function\[\d+\]`)

func trace(err error) []string {
	if err == nil {
		return nil
	}
	lines := strings.Split(startIndex.ReplaceAllString(err.Error(), "start function"), "\n")
	if strings.Contains(lines[0], "stack overflow") {
		return lines[:1]
	}
	for i := range lines {
		lines[i] = withoutParameters(lines[i])
	}
	return slices.Compact(lines)
}

// compareInstances compares the final states of the instances.
func (p *pair) compareInstances() {
	for i, plain := range p.plain.instances {
		p.compareInstance(plain, p.rewritten.instances[i])
	}
}

func (p *pair) compareInstance(plain, rewritten api.Module) {
	if !bytes.Equal(memory(plain), memory(rewritten)) {
		p.tb.Errorf("memories differ")
	}
	n := plain.(experimental.InternalModule).NumGlobal()
	if d := cmp.Diff(globals(plain, n), globals(rewritten, n)); d != "" {
		p.tb.Errorf("globals, plain to rewritten:\n%s", d)
	}
	if d := cmp.Diff(exported(plain), exported(rewritten)); d != "" {
		p.tb.Errorf("exported functions, plain to rewritten:\n%s", d)
	}
}

// exported gives an instance's exported functions and their types.
func exported(m api.Module) map[string][2]string {
	types := map[string][2]string{}
	for name, f := range m.ExportedFunctionDefinitions() {
		types[name] = [2]string{string(f.ParamTypes()), string(f.ResultTypes())}
	}
	return types
}
