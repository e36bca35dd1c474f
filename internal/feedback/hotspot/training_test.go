package hotspot

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

// counted returns a snapshot with samples of W.run, and counts of the VM.
func counted(t *testing.T, points ...string) *ccmap.Snapshot {
	t.Helper()
	m := sampled(t, "W.main+1;W.run+7", "W.main+1;W.run+7", "W.main+1;W.run+7", "W.main+1")
	for _, p := range points {
		vmPoint(t, m, p)
	}
	return m.Snapshot()
}

// branch adds a branch of W.run.
func branch(s *ccmap.Snapshot, taken, untaken int64) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	m.Merge(s)
	p := ccmap.Point{Origin: ccmap.OriginVM, Kind: ccmap.PointBranch, Method: methodID(m, "W.run"), Offset: 3, Nulls: ccmap.NullsUnknown}
	for value, n := range map[uint64]int64{ccmap.BranchTaken: taken, ccmap.BranchUntaken: untaken} {
		if n > 0 {
			p.Values = append(p.Values, ccmap.PointValue{Value: value, Count: n})
		}
	}
	m.AddPoint(p)
	return m.Snapshot()
}

// checked adds a check of a type in W.run.
func checked(s *ccmap.Snapshot, nulls int64, counts ...int64) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	m.Merge(s)
	p := ccmap.Point{Origin: ccmap.OriginVM, Kind: ccmap.PointType, Method: methodID(m, "W.run"), Offset: 5, Nulls: nulls}
	for i, n := range counts {
		name := string(rune('A' + i))
		p.Values = append(p.Values, ccmap.PointValue{Value: uint64(m.Names().Intern(ccmap.Method{Name: name, Receiver: name})), Count: n})
	}
	m.AddPoint(p)
	return m.Snapshot()
}

func TestTrain(t *testing.T) {
	t.Parallel()
	run, main := "W.run 5000", "W.main 500"
	one, major, two, many := "W.run+7 A.of 1000", "W.run+7 A.of 1000 B.of 50", "W.run+7 A.of 600 B.of 400", "W.run+7 A.of 500 B.of 300 other 300"
	for name, test := range map[string]struct {
		training, production *ccmap.Snapshot
		serves               float64
		why                  string
	}{
		"the same":                 {counted(t, run, main, two), counted(t, run, main, two), 100, ""},
		"fewer types":              {counted(t, run, main, two), counted(t, run, main, one), 100, ""},
		"more types":               {counted(t, run, main, one), counted(t, run, main, two), 25, "at 7 A.of in training, A.of and B.of in production"},
		"a few others":             {counted(t, run, main, one), counted(t, run, main, major), 25, "at 7 A.of in training, A.of and a few others in production"},
		"too many for C2":          {counted(t, run, main, many), counted(t, run, main, one), 25, "at 7 any receiver in training, A.of in production"},
		"few counts in training":   {counted(t, run, main, "W.run+7 A.of 10"), counted(t, run, main, two), 100, ""},
		"few counts in production": {counted(t, run, main, one), counted(t, run, main, "W.run+7 B.of 10"), 100, ""},
		"a call never reached":     {counted(t, run, main), counted(t, run, main, one), 25, "at 7 never in training, A.of in production"},
		"a method never warm":      {counted(t, main), counted(t, run, main, one), 25, "not counted in training"},
		"a side never taken":       {branch(counted(t, run, main), 0, 500), branch(counted(t, run, main), 20, 500), 25, "at 3 not taken in training, not taken and taken in production"},
		"nulls in production":      {checked(counted(t, run, main), 0, 500), checked(counted(t, run, main), ccmap.NullsSeen, 500), 25, "at 5 A in training, A and null in production"},
		"nulls in training alone":  {checked(counted(t, run, main), ccmap.NullsSeen, 500), checked(counted(t, run, main), 0, 500), 100, ""},
		"more types at a check":    {checked(counted(t, run, main), 0, 500), checked(counted(t, run, main), 0, 500, 100), 25, "at 5 A in training, any type in production"},
		"fewer types at a check":   {checked(counted(t, run, main), 0, 500, 100), checked(counted(t, run, main), 0, 500), 25, "at 5 any type in training, A in production"},
		"few checks in training":   {checked(counted(t, run, main), 0, 10), checked(counted(t, run, main), 0, 500, 100), 100, ""},
		"a side taken once":        {branch(counted(t, run, main), 0, 500), branch(counted(t, run, main), 1, 500), 100, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Train(test.training, test.production)
			why := ""
			if len(got.Unserved) > 0 {
				why = got.Unserved[0].Reason
			}
			if got.Serves != test.serves || why != test.why || math.Abs(got.Serves+got.Differs+got.Unknown-100) > 1e-9 {
				t.Errorf("%+v, want %v, %q", got, test.serves, test.why)
			}
		})
	}
	if got := Train(counted(t), ccmap.New(ccmap.Options{}).Snapshot()); got.Serves+got.Differs+got.Unknown != 0 || got.Positions != 0 {
		t.Errorf("an empty profile: %+v", got)
	}
}

// Methods that C2 had compiled are compiled early, the hottest first, and not too many.
func TestEarly(t *testing.T) {
	t.Parallel()
	stacks, points := []string{"W.hot", "W.hot", "W$$Lambda.run", "W.cold"}, []string{"W.hot 9", "W$$Lambda.run 9", "W.never 9"}
	for i := range 2 * MostEarly {
		stacks = append(stacks, fmt.Sprintf("M%d.f", i))
		points = append(points, fmt.Sprintf("M%d.f 9", i))
	}
	m := sampled(t, stacks...)
	for _, p := range points {
		vmPoint(t, m, p)
	}
	m.AddPoint(ccmap.Point{Origin: ccmap.OriginVM, Kind: ccmap.PointThrown, Method: methodID(m, "M0.f"), Count: MostDecompiles, Nulls: ccmap.NullsUnknown})
	early := Early(m.Snapshot(), MostEarly)
	if len(early) != MostEarly || early[0].Short() != "W.hot" || early[1].Short() == "M0.f" {
		t.Fatalf("%v", early)
	}
	var out bytes.Buffer
	called := []fanin.Called{{Method: "W.hot", Signature: "()V", Places: 7, Source: "t\nfi"}, {Method: "W.hot", Signature: "(I)V", Places: 9, Source: "t"}}
	const want = "\n# called from 7 places in t fi\nCompileThresholdScaling W::hot()V 0.1\n"
	if err := WriteThresholds(&out, early[:1], called, EarlyScale); err != nil || !strings.HasSuffix(out.String(), want) {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// A JVM takes the file, of methods whose names have points, too.
func TestThresholdsOfJVM(t *testing.T) {
	t.Parallel()
	methods := []Method{{Class: "W", Name: "hot", Descriptor: "()V"}, {Class: "a.b.C$D", Name: "<init>", Descriptor: "(La/b/C;[I)V"}}
	for _, jdk := range jvmtest.JDKs(t) {
		file := filepath.Join(t.TempDir(), "early.txt")
		var text bytes.Buffer
		if err := errors.Join(WriteThresholds(&text, methods, nil, EarlyScale), os.WriteFile(file, text.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(filepath.Join(jdk.Home, "bin/java"), "-XX:CompileCommandFile="+file, "-version").CombinedOutput()
		if err != nil || strings.Count(string(out), "double CompileThresholdScaling = 0.1") != len(methods) {
			t.Errorf("JDK %s: %v\n%s", jdk.Name, err, out)
		}
	}
}

// A method with the name of a command keeps a JVM from starting: no file names one.
func TestCommandNames(t *testing.T) {
	t.Parallel()
	m := sampled(t, "W.Log", "W.hot")
	vmPoint(t, m, "W.Log 9")
	vmPoint(t, m, "W.hot 9")
	if early := Early(m.Snapshot(), MostEarly); len(early) != 1 || early[0].Short() != "W.hot" {
		t.Errorf("early: %v", early)
	}
	method := Method{Class: "W", Name: "log", Descriptor: "()V"}
	var text bytes.Buffer
	if err := WriteCommands(&text, []Hint{{Action: Inline, Root: method, Caller: method, Callee: method}}); err != nil || strings.Contains(text.String(), "\ninline") {
		t.Errorf("%v\n%s", err, text.String())
	}
	for _, jdk := range jvmtest.JDKs(t) {
		help, err := exec.Command(filepath.Join(jdk.Home, "bin/java"), "-XX:CompileCommand=help", "-version").CombinedOutput()
		_, list, _ := strings.Cut(string(help), "All available options:\n")
		list, _, _ = strings.Cut(list, "\n\n")
		if err != nil || list == "" {
			t.Fatalf("JDK %s: %v\n%s", jdk.Name, err, help)
		}
		for line := range strings.Lines(list) {
			if name := strings.Fields(line)[0]; mayCommand(Method{Name: name}) {
				t.Errorf("JDK %s has a command %s", jdk.Name, name)
			}
		}
	}
}
