package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/manager"
	threads "github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// suiteVariable makes this program a process of the suite. Its value is the index of the guest in
// guests.Real and the name of the way.
const suiteVariable = "CCMAPD_ACCURACY_SUITE"

// suiteProcess is the process of a guest in one way. It speaks JSON on its standard streams. It says
// an answer once it is ready, one to each number of rounds, and one more when its input ends.
type suiteProcess struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	asks *json.Encoder
	says *json.Decoder
}

// suiteAnswer is what a process says.
type suiteAnswer struct {
	CPU       time.Duration   // ns that the process has used for the answer, in all threads
	Intervals []time.Duration `json:",omitempty"` // settings of the interval, at the end
	Samples   uint64          `json:",omitempty"` // at the end
}

// startSuiteProcess returns when the guest is compiled.
func startSuiteProcess(ctx context.Context, guest int, w suiteWay) (*suiteProcess, suiteAnswer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, suiteAnswer{}, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", suiteVariable, guest, w.name))
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		return nil, suiteAnswer{}, fmt.Errorf("start process of the suite: %w", err)
	}
	p := &suiteProcess{cmd, in, json.NewEncoder(in), json.NewDecoder(out)}
	a, err := p.answer()
	if err != nil {
		p.kill()
	}
	return p, a, err
}

func (p *suiteProcess) answer() (a suiteAnswer, err error) {
	if err := p.says.Decode(&a); err != nil {
		return a, fmt.Errorf("read answer of the suite's process: %w", err)
	}
	return a, nil
}

// ask lets the guest do a number of rounds.
func (p *suiteProcess) ask(rounds int) (suiteAnswer, error) {
	if err := p.asks.Encode(rounds); err != nil {
		return suiteAnswer{}, fmt.Errorf("ask the suite's process: %w", err)
	}
	return p.answer()
}

// end ends the session and the process.
func (p *suiteProcess) end() (suiteAnswer, error) {
	if err := p.in.Close(); err != nil {
		return suiteAnswer{}, err
	}
	a, err := p.answer()
	return a, errors.Join(err, p.cmd.Wait())
}

// kill ends a process that end has not ended.
func (p *suiteProcess) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait() // its error does not matter
}

// serveIfAsked makes this program a process of the suite, if it was started as one.
func serveIfAsked() bool {
	named := os.Getenv(suiteVariable)
	if named == "" {
		return false
	}
	campaign.Main("accuracy", func(ctx context.Context) error { return serveSuite(ctx, named, os.Stdin, os.Stdout) })
	return true
}

// serveSuite is the other side: it is what the process does.
func serveSuite(ctx context.Context, named string, in io.Reader, out io.Writer) error {
	var guest int
	var name string
	if _, err := fmt.Sscan(named, &guest, &name); err != nil {
		return fmt.Errorf("read %s: %w", suiteVariable, err)
	}
	i := slices.IndexFunc(suiteWays, func(w suiteWay) bool { return w.name == name })
	if i < 0 || guest < 0 || guest >= len(guests.Real(1)) {
		return fmt.Errorf("read %s: there is no guest and way %q", suiteVariable, named)
	}
	r, err := openSuiteGuest(ctx, guest, suiteWays[i])
	if err != nil {
		return err
	}
	defer r.runtime.Close(ctx)
	asks, says := json.NewDecoder(in), json.NewEncoder(out)
	from := time.Duration(0) // of the process's clock, and so with the start of the process
	for {
		now := processTime()
		if err := says.Encode(suiteAnswer{CPU: now - from}); err != nil {
			return err
		}
		var rounds int
		if err := asks.Decode(&rounds); errors.Is(err, io.EOF) {
			return r.finish(says)
		} else if err != nil {
			return err
		}
		from = processTime()
		if err := r.run(ctx, rounds); err != nil {
			return err
		}
	}
}

// processTime returns the CPU time that this process has used.
func processTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		panic(err) // Linux has the clock
	}
	return time.Duration(t.Nano())
}

// suiteRun is a guest that is compiled in one way.
type suiteRun struct {
	guest    int
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	session  *manager.Session // nil: it is not sampled
}

func openSuiteGuest(ctx context.Context, guest int, w suiteWay) (r suiteRun, err error) {
	path, err := guests.Real(1)[guest].Path(ctx)
	if err != nil {
		return r, err
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	r.guest = guest
	r.runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().
		WithCoreFeatures(api.CoreFeaturesV2|experimental.CoreFeaturesTailCall)) // as ccmapd run does
	compile := r.runtime.CompileModule
	if w.interval > 0 {
		profiler := wasm.New(r.runtime, wasm.Options{Options: threads.Options{Interval: w.interval}, CollectAtSamples: true})
		compile = profiler.CompileModule
		if r.session, err = startSuiteSession(ctx, profiler, w); err != nil {
			return r, err
		}
	}
	if r.compiled, err = compile(ctx, binary); err != nil {
		return r, fmt.Errorf("compile guest: %w", err)
	}
	return r, guests.Host(ctx, r.runtime, r.compiled)
}

// startSuiteSession starts a session with the defaults of ccmapd run.
func startSuiteSession(ctx context.Context, p *wasm.Profiler, w suiteWay) (*manager.Session, error) {
	m := ccmap.New(ccmap.Options{Names: p.Sink().Names, MaxBytes: 64 << 20, Window: 15 * time.Minute})
	return manager.Start(ctx, manager.Config{Source: p, Map: m, FixedInterval: !w.tuned})
}

// run executes the guest in a new instance, and checks its output.
func (r suiteRun) run(ctx context.Context, rounds int) error {
	g := guests.Real(rounds)[r.guest]
	output, err := g.Run(ctx, r.runtime, r.compiled)
	if err == nil && output != g.Want {
		err = fmt.Errorf("%s wrote %q, want %q", g.Name, output, g.Want)
	}
	return err
}

// finish ends the session, writes the profile to nowhere, and says the last answer.
func (r suiteRun) finish(says *json.Encoder) error {
	from, a := processTime(), suiteAnswer{}
	if r.session != nil {
		done, err := r.session.Stop()
		if err == nil {
			err = export.Write(io.Discard, export.Pprof, done.Snapshot)
		}
		if err != nil {
			return err
		}
		a.Samples = uint64(done.Snapshot.Total().Samples)
		for _, change := range done.Snapshot.Meta().Interval {
			a.Intervals = append(a.Intervals, change.Interval)
		}
	}
	a.CPU = processTime() - from
	return says.Encode(a)
}
