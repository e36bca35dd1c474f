package session

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/internal/recording"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// TestReportBeginsWithCaution: the report says it first, once.
func TestReportBeginsWithCaution(t *testing.T) {
	t.Parallel()
	snapshot := profiletest.Blind("", 200, ccmap.Method{Name: ccmap.UnknownName}).Snapshot()
	s := &Session{config: Config{Until: manager.Goal{Of: manager.Edges, Percent: 95}}, Recording: &recording.Recording{Choice: engine.Choice{Source: &fakeSource{}}}}
	var report strings.Builder
	if err := s.Report(&report, manager.Report{Snapshot: snapshot, Written: []string{"a.json"}}); err != nil {
		t.Fatal(err)
	}
	text := report.String()
	if !strings.HasPrefix(text, "warning: this profile misleads") || strings.Count(text, "misleads") != 1 || strings.Contains(text, "settled: ") {
		t.Errorf("does not begin with one warning, or is settled:\n%s", text)
	}
	if !strings.Contains(text, "Edges were to settle to 95 %, and could not: ") {
		t.Errorf("lacks why the goal was not reached:\n%s", text)
	}
}

// tree is a family whose child has used more CPU time than the target.
type tree struct {
	Children
	child *ccmap.Snapshot
}

func (tree) Text(w io.Writer)                             { io.WriteString(w, "the programs\n") }
func (c tree) Heaviest() (file string, s *ccmap.Snapshot) { return "child.json", c.child }

// TestReportBeginsWithTheTree: the report lists the programs of a tree, then the methods of the heaviest, and goes on
// with its file.
func TestReportBeginsWithTheTree(t *testing.T) {
	t.Parallel()
	child := profiletest.Blind("", 200, ccmap.Method{Name: "child.compile"}).Snapshot()
	s := &Session{
		config:    Config{Children: tree{child: child}},
		Recording: &recording.Recording{Choice: engine.Choice{Source: &fakeSource{}}},
	}
	own := profiletest.Blind("", 1, ccmap.Method{Name: "own.wait"}).Snapshot()
	var report strings.Builder
	if err := s.Report(&report, manager.Report{Snapshot: own, Written: []string{"own.json", "child.json"}}); err != nil {
		t.Fatal(err)
	}
	text := report.String()
	for _, want := range []string{"the programs", "child.json: ", "child.compile", "Written: child.json, own.json. Next:", "ccmapd top child.json"} {
		at := strings.Index(text, want)
		if at < 0 {
			t.Fatalf("%q is missing, or not in its place:\n%s", want, report.String())
		}
		text = text[at:]
	}
	if strings.Contains(report.String(), "own.wait") {
		t.Errorf("lists methods of the target:\n%s", report.String())
	}
}

func TestReportTroubles(t *testing.T) {
	t.Parallel()
	for want, counts := range map[string]sampler.Counts{
		"":                                 {sampler.Marks: 1234, sampler.Samples: 1230},
		"\n12 marks of 1,234 came late.\n": {sampler.Marks: 1234, sampler.LateMarks: 12},
		"\n1 thread could not be walked, and sampled no more; 2 threads ended without a word.\n": {sampler.Panicked: 1, sampler.Abandoned: 2},
		"\n1 mark of 9 came late; 3 threads reached no safe point for a second or more.\n":       {sampler.Marks: 9, sampler.LateMarks: 1, sampler.Unsafe: 3},
	} {
		var out strings.Builder
		reportTroubles(&out, counts)
		if out.String() != want {
			t.Errorf("report of %v is %q, want %q", counts, &out, want)
		}
	}
}

// A report says what sampling has cost the program, if that is known.
func TestReportOverhead(t *testing.T) {
	t.Parallel()
	known := sampler.Overhead{Samples: 2 * time.Millisecond, Switches: time.Millisecond, Of: time.Second}
	const want = "Overhead 0.3 % of the target: 0.2 samples, 0.1 thread switches.\n"
	for _, o := range []sampler.Overhead{known, {}} {
		s := &Session{Recording: &recording.Recording{Choice: engine.Choice{Source: &fakeSource{}}}}
		r := manager.Report{Snapshot: profiletest.Blind("", 0).Snapshot(), Source: sampler.Stats{Overhead: o}}
		var out bytes.Buffer
		if err := s.Report(&out, r); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), want); got != (o == known) {
			t.Errorf("report of %+v:\n%s", o, &out)
		}
		if j := s.newReportJSON(r).Overhead; (j != nil) != (o == known) || j != nil && (j.Percent != 0.3 || j.Switches != o.Switches) {
			t.Errorf("as JSON: %+v", j)
		}
	}
}

// TestWarnBesideJSON: a report in JSON has the warnings, and standard error, too.
func TestWarnBesideJSON(t *testing.T) {
	t.Parallel()
	const cause = "async-profiler takes the signal"
	m := profiletest.Blind("go1.26.8", 0)
	m.Meta().Loss = ccmap.Loss{Clock: 10 * time.Second, Unaccounted: 9 * time.Second}
	m.Meta().Comments = []string{ccmap.CommentUnaccounted + cause, ccmap.CommentWarning + "one\x1b"}
	r := manager.Report{Snapshot: m.Snapshot()}
	for _, c := range []Config{{JSON: true}, {}, {JSON: true, Quiet: true}} {
		s := &Session{config: c, Recording: &recording.Recording{Choice: engine.Choice{Source: &fakeSource{}}}}
		var out, warned bytes.Buffer
		if err := s.Report(&out, r); err != nil {
			t.Fatal(err)
		}
		s.Warn(&warned, r)
		want := "warning: no sample stands for 90.0% of the CPU time (9s of 10s): " + cause + "\nwarning: one\uFFFD\n"
		if c.Quiet || !c.JSON {
			want = ""
		}
		if warned.String() != want {
			t.Errorf("%+v: warned %q, want %q", c, &warned, want)
		}
		if has := strings.Contains(out.String(), cause); has == c.Quiet {
			t.Errorf("%+v: reports %q", c, &out)
		}
	}
}

// TestReasonOfLines: a reason of several lines is a sentence, and no byte of it moves the cursor.
func TestReasonOfLines(t *testing.T) {
	t.Parallel()
	s := &Session{Recording: &recording.Recording{Choice: engine.Choice{Source: &fakeSource{}}}}
	r := manager.Report{Snapshot: profiletest.Blind("", 0).Snapshot(), Ending: sampler.Ending{Reason: "stopped: one\n\ttwo\r\n\x1b[2J\n"}}
	var out bytes.Buffer
	if err := s.Report(&out, r); err != nil {
		t.Fatal(err)
	}
	if want := "Stopped: one; two; \uFFFD[2J.\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("report %q, want %q…", &out, want)
	}
}

// TestReportOfHost: what the timers cost the machine is for those who ask for more.
func TestReportOfHost(t *testing.T) {
	t.Parallel()
	for _, verbose := range []bool{false, true} {
		s := &Session{config: Config{Verbose: verbose}, Recording: &recording.Recording{Choice: engine.Choice{Source: &fakeSource{}}}}
		r := manager.Report{Snapshot: profiletest.Blind("", 0).Snapshot(), Source: sampler.Stats{
			Overhead: sampler.Overhead{Samples: 2 * time.Millisecond, Interrupts: 400 * time.Millisecond, Host: 0.003, Of: time.Second},
		}}
		var out bytes.Buffer
		if err := s.Report(&out, r); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "Overhead 0.2 % of the target: 0.2 samples.\n") || strings.Contains(out.String(), "Timers take 0.3 % of each CPU.\n") != verbose {
			t.Errorf("report, with -v %v:\n%s", verbose, &out)
		}
		if j := s.newReportJSON(r).Overhead; j.Percent != 0.2 || j.Host != 0.3 || j.Interrupts != 400*time.Millisecond {
			t.Errorf("as JSON: %+v", j)
		}
	}
}

func TestReportRecalled(t *testing.T) {
	t.Parallel()
	for want, counts := range map[string]sampler.Counts{
		"": {sampler.Samples: 1234, sampler.Foreign: 40},
		"\nCallers of 1,012 samples in C are those of the goroutine's last such call.\n": {sampler.Samples: 9000, sampler.Foreign: 2000, sampler.Recalled: 1012},
	} {
		s := &Session{Recording: &recording.Recording{Choice: engine.Choice{Source: &fakeSource{}}}}
		var out bytes.Buffer
		if err := s.Report(&out, manager.Report{Snapshot: profiletest.Blind("", 0).Snapshot(), Source: sampler.Stats{Counts: counts}}); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, want) || want == "" && strings.Contains(got, "Callers of") {
			t.Errorf("report of %v lacks %q:\n%s", counts, want, got)
		}
	}
}

// TestSourceJSON holds the members of a source and their order: each counter has one.
func TestSourceJSON(t *testing.T) {
	t.Parallel()
	var s sourceJSON
	for c := range sampler.NumCounters {
		s.Counts[c] = uint64(c)
	}
	s.NoCalls, s.NoKernelTime = "<none>", "not permitted"
	for want, embedded := range map[string]bool{
		`{"samples":0,"repaired":1,"rooted":2,"truncated":3,"kernel":4,"foreign":5,"recalled":6,"probed":7,"probes":8,` +
			`"kernel_time":false,"hits":9,"bursts":11,"hit_sites":12,"hit_reason":"<none>"}` + "\n": false,
		`{"samples":0,"repaired":1,"rooted":2,"truncated":3,"kernel":4,"foreign":5,"recalled":6,"probed":7,"probes":8,` +
			`"kernel_time":false,"hits":9,"bursts":11,"hit_sites":12,"hit_reason":"<none>",` +
			`"inside":{"marks":13,"late":14,"unsafe":15,"panicked":16,"abandoned":17}}` + "\n": true,
	} {
		s.Embedded = embedded
		var got strings.Builder
		enc := json.NewEncoder(&got)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(s); err != nil || got.String() != want {
			t.Errorf("%v\n%s\nwant:\n%s", err, &got, want)
		}
	}
}

// TestMoreSamples: half of what is missing takes four times the samples.
func TestMoreSamples(t *testing.T) {
	t.Parallel()
	goal := manager.Goal{Of: manager.Edges, Percent: 95}
	for settled, want := range map[ccmap.Settled]string{
		{Edges: 90, Samples: 3000}:   ": that takes some 12,000 samples",
		{Edges: 91, Samples: 3044}:   ": that takes some 9,900 samples",
		{Edges: 94.9, Samples: 7}:    ": that takes some 7 samples",
		{Edges: 95, Samples: 30_000}: "", // not reached because of drift
		{Samples: 30}:                "",
	} {
		if got := moreSamples(goal, settled); got != want {
			t.Errorf("%+v: %q, want %q", settled, got, want)
		}
	}
}

// TestReportPruning: a format that loses totals is not recommended silently.
func TestReportPruning(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	f := m.Names().Intern(ccmap.Method{Name: "f"})
	deep := slices.Repeat([]ccmap.Frame{{Method: f}}, 5000)
	m.Fold(&ccmap.Sample{Frames: deep, Weight: 1e6, Fresh: ccmap.FreshUnknown})
	report := func(file string) string {
		var out bytes.Buffer
		reportPruning(&out, view.New(file, m.Snapshot()), []string{file})
		return out.String()
	}
	if got := report("a.pb.gz"); got != "" {
		t.Errorf("of a profile that was not pruned: %q", got)
	}
	m.Prune(0)
	const pruned, lost = "Contexts were pruned to --max-memory", "Only XML and JSON keep"
	if got := report("a.pb.gz"); !strings.Contains(got, pruned) || !strings.Contains(got, lost) {
		t.Errorf("pprof: %q", got)
	}
	if got := report("a.xml.zst"); !strings.Contains(got, pruned) || strings.Contains(got, lost) {
		t.Errorf("XML: %q", got)
	}
}

// TestPrintNext: pprof is recommended for what it reads.
func TestPrintNext(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		files []string
		want  string
	}{
		{[]string{"a.json"}, ""},
		{[]string{"a.json", "b c.pb.gz"}, "go tool pprof -http=: 'b c.pb.gz' "},
	} {
		var out bytes.Buffer
		printNext(&out, test.files)
		if got := out.String(); !strings.Contains(got, test.want) || strings.Contains(got, "pprof") != (test.want != "") {
			t.Errorf("%v: %q", test.files, got)
		}
	}
}

// TestReportOfDrift: where there is a window, it shows what is different.
func TestReportOfDrift(t *testing.T) {
	t.Parallel()
	for window, want := range map[time.Duration]string{
		0:           "",
		time.Minute: "In the end the program did something else than before: see 'ccmapd top --recent'.\n",
	} {
		var out bytes.Buffer
		s := &Session{Recording: &recording.Recording{Choice: engine.Choice{Source: &fakeSource{}}}}
		s.reportSettling(&out, manager.Report{Drift: true, Snapshot: ccmap.New(ccmap.Options{Window: window}).Snapshot()})
		if out.String() != want {
			t.Errorf("window %v: %q, want %q", window, &out, want)
		}
	}
}

// TestWhyNoCallsWereCaught: the reason is the source's, where it has one.
func TestWhyNoCallsWereCaught(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		hits   float64
		source sampler.Stats
		files  []string
		want   string
	}{
		{0, sampler.Stats{NoCalls: "switched off"}, nil, "no calls caught, as asked for; 2 profile points in 1 kB.\n"},
		{1, sampler.Stats{NoCalls: "debug registers are in use"}, nil, "no calls caught, because debug registers are in use; "},
		{1, sampler.Stats{}, nil, "no calls caught, as none of an interface method or function value was hot; "},
		{1, sampler.Stats{Counts: sampler.Counts{sampler.HotCalls: 3}}, nil, "no calls caught, as none was made while a breakpoint was set; "},
		{1, sampler.Stats{}, []string{"a.folded", "b c.pb.gz"}, "in 1 kB (see 'ccmapd receivers 'b c.pb.gz'').\n"},
		{1, sampler.Stats{}, []string{"a.folded.gz"}, "in 1 kB.\n"},
	} {
		s := &Session{Recording: &recording.Recording{Choice: engine.Choice{Source: &fakeSource{}}}}
		s.config.Hits = test.hits
		var out bytes.Buffer
		s.reportValues(&out, manager.Report{Source: test.source, Written: test.files, Values: manager.ValueStats{Points: 2, Bytes: 500}})
		if !strings.HasPrefix(out.String(), "\nReceivers: ") || !strings.Contains(out.String(), test.want) {
			t.Errorf("%+v: %q", test, &out)
		}
	}
}

// TestReportOfCountedCalls: a VM that counts its calls itself needs none caught.
func TestReportOfCountedCalls(t *testing.T) {
	t.Parallel()
	for hits, source := range map[float64]sampler.Stats{0: {}, 1: {NoCalls: "they are caught in Go programs only"}} {
		s := &Session{Recording: &recording.Recording{Choice: engine.Choice{Source: &fakeSource{}}}}
		s.config.Hits = hits
		var out bytes.Buffer
		s.reportValues(&out, manager.Report{Source: source, Written: []string{"a.json"}, Values: manager.ValueStats{Counted: 1200}})
		if want := "\nReceivers: the VM's own counts of 1,200 call sites (see 'ccmapd receivers a.json').\n"; out.String() != want {
			t.Errorf("%q, want %q", &out, want)
		}
	}
}

// TestReportOfNoCalls: where there was nothing to learn from, nothing is said.
func TestReportOfNoCalls(t *testing.T) {
	t.Parallel()
	s := &Session{Recording: &recording.Recording{Choice: engine.Choice{Source: &fakeSource{}}}}
	var out bytes.Buffer
	s.reportValues(&out, manager.Report{})
	if out.Len() > 0 {
		t.Errorf("%q", &out)
	}
}

// TestReportOfRareCalls: a larger --max-memory is advised where it helps.
func TestReportOfRareCalls(t *testing.T) {
	t.Parallel()
	const made = "1,200 profile points of rare calls made room for others, and 30 calls with them"
	s := &Session{Recording: &recording.Recording{Choice: engine.Choice{Source: &fakeSource{}}}}
	for memory, want := range map[int64]string{
		0:        made + ".\n",
		1 << 30:  made + ".\n",
		64 << 20: made + ": a larger --max-memory keeps more.\n",
	} {
		s.config.MaxMemory = memory
		var out bytes.Buffer
		s.reportValues(&out, manager.Report{Values: manager.ValueStats{Points: 1, Evicted: 1200, Lost: 30}})
		if !strings.HasSuffix(out.String(), want) {
			t.Errorf("--max-memory %v: %q, want %q in the end", memory, &out, want)
		}
	}
}

func TestGoal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]manager.Goal{
		"95%":           {Of: manager.Edges, Percent: 95},
		"95":            {Of: manager.Edges, Percent: 95},
		"edges:99.5 %":  {Of: manager.Edges, Percent: 99.5},
		"contexts:80%":  {Of: manager.Contexts, Percent: 80},
		"methods: 98 %": {Of: manager.Methods, Percent: 98},
	} {
		var got Goal
		if err := got.Set(text); err != nil || got.Goal != want {
			t.Errorf("%q is %v, want %v; %v", text, got.Goal, want, err)
		}
		if again := new(Goal); again.Set(got.String()) != nil || *again != got {
			t.Errorf("%q is printed as %q, which is %v", text, &got, again)
		}
	}
	for _, text := range []string{"", "%", "0%", "100%", "-3", "lines:95%", "edges:", "edges:NaN", "95%%"} {
		if got := new(Goal); got.Set(text) == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}
