package export

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/jfr"
)

// recordings are real ones, of a program like internal/jvm/jvmtest/testdata/Recorded.java with two seconds of work:
// by JDK 17.0.21.1 and 25.0.3 with a few events switched on, and by async-profiler 4.5
// ('event=ctimer,interval=20ms,alloc=2m,lock=1ms' and 'event=wall,interval=50ms').
var recordings = []string{"jdk17", "jdk25", "async", "asyncwall", "tlab17"}

func recordingPath(name string) string { return filepath.Join("testdata", name+".jfr.gz") }

// Samples and weights are the sums over the events that 'jfr print --json' of JDK 25 prints; of
// samples without a weight, times their period.
func TestReadJFR(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, event string
		samples     int64
		weight      int64
		unit        ccmap.Unit
		engine      string
		method      string // that has samples
	}{
		{"jdk17", "", 37, 37 * 20e6, ccmap.CPUTime, "jfr", "Busy.squares"},
		{"jdk17", "cpu", 37, 37 * 20e6, ccmap.CPUTime, "jfr", "Busy.squares"},
		{"jdk17", "alloc", 108, 217713056, ccmap.NewUnit("alloc", "bytes"), "jfr", "Busy.alloc"},
		{"jdk17", "lock", 8, 4119900613 + 33599898, ccmap.NewUnit("lock", "nanoseconds"), "jfr", "Busy.locked"},
		{"jdk25", "", 23, 460000000, ccmap.CPUTime, "jfr", "Busy.squares"},
		{"jdk25", "alloc", 99, 237781504, ccmap.NewUnit("alloc", "bytes"), "jfr", "Busy.alloc"},
		{"jdk25", "lock", 16, 357651846 + 949577903, ccmap.NewUnit("lock", "nanoseconds"), "jfr", "Busy.locked"},
		{"async", "", 24, 24 * 20e6, ccmap.CPUTime, "async-profiler", "Busy.squares"},
		{"async", "alloc", 95, 199229440, ccmap.NewUnit("alloc", "bytes"), "async-profiler", "Busy.alloc"},
		{"async", "lock", 14, 1402363357 + 1047389478, ccmap.NewUnit("lock", "nanoseconds"), "async-profiler", "Busy.locked"},
		{"asyncwall", "wall", 925, 925 * 50e6, ccmap.NewUnit("wall", "nanoseconds"), "async-profiler", "Busy.squares"},
	} {
		m, format, err := ReadFile(recordingPath(c.file), ReadOptions{SampleType: c.event})
		if err != nil {
			t.Errorf("%s %s: %v", c.file, c.event, err)
			continue
		}
		total, meta := m.Snapshot().Total(), m.Meta()
		if apart := total.Time - c.weight; total.Samples != c.samples || apart < -c.samples || apart > c.samples { // ns are rounded
			t.Errorf("%s %s: %d samples of %d, want %d of %d", c.file, c.event, total.Samples, total.Time, c.samples, c.weight)
		}
		if format != JFR || meta.Unit != c.unit || meta.Engine != c.engine {
			t.Errorf("%s %s: %v, %v by %q, want %v by %q", c.file, c.event, format, meta.Unit, meta.Engine, c.unit, c.engine)
		}
		if !slices.ContainsFunc(methodsOf(m), func(m ccmap.Method) bool { return m.Name == c.method }) {
			t.Errorf("%s %s: no method %s", c.file, c.event, c.method)
		}
	}
}

// Each allocation that was seen stands for the bytes of those that were not. The recordings are of Mixes (in
// internal/jvm/jvmtest) with the arguments "79x65536 21x64" for some 7 s; its counts, taken while it recorded, had
// 78.9 % of the bytes at the first site. What the JVM picked of the same allocations (jdk.ObjectAllocationSample)
// has 88.6 and 33.8 %.
func TestJFRAllocations(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tlab17", "tlab25"} {
		m, _, err := ReadFile(recordingPath(name), ReadOptions{SampleType: "alloc"})
		if err != nil {
			t.Fatal(err)
		}
		s := m.Snapshot()
		bytes := func(method string) float64 {
			id, _ := m.Names().Lookup(method, "()V")
			profile, _ := s.Method(id)
			return float64(profile.Self().Time)
		}
		first, second := bytes("Mixes.first"), bytes("Mixes.second")
		if share := 100 * first / (first + second); share < 75.9 || share > 81.9 {
			t.Errorf("%s: the first site has %.1f %% of the bytes, want 78.9 ± 3", name, share)
		}
	}
}

// Where a recording has no more than what the JVM picked, a warning says that its shares are wrong.
func TestJFRPickedAllocations(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"jdk17": true, "jdk25": true, "tlab17": false, "async": false} {
		m, _, err := ReadFile(recordingPath(name), ReadOptions{SampleType: "alloc"})
		if err != nil {
			t.Fatal(err)
		}
		if warns := strings.Contains(strings.Join(m.Meta().Comments, "\n"), "jdk.ObjectAllocationInNewTLAB"); warns != want {
			t.Errorf("%s: warns %v, want %v", name, warns, want)
		}
	}
}

func methodsOf(m *ccmap.Map) (methods []ccmap.Method) {
	for id := range m.Names().Len() {
		methods = append(methods, m.Names().At(ccmap.MethodID(id)))
	}
	return methods
}

// The description of the process and its methods come from the recording.
func TestJFRDescription(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ runtime, comment string }{
		"jdk17": {"OpenJDK 17.0.21.1+2-1-deb12u1-Debian", "time is estimated: each sample stands for 20ms of Java code"},
		"jdk25": {"OpenJDK 25.", ""},
		"async": {"OpenJDK 17.0.21.1+2-1-deb12u1-Debian", ""},
	} {
		m, _, err := ReadFile(recordingPath(name), ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		meta := m.Meta()
		if !strings.HasPrefix(meta.Target.Runtime, want.runtime) || meta.Target.PID == 0 || !slices.Contains(meta.Target.CommandLine, "Busy") {
			t.Errorf("%s: target %+v", name, meta.Target)
		}
		if comments := strings.Join(meta.Comments, "\n"); !strings.HasPrefix(comments, want.comment) || want.comment == "" && comments != "" {
			t.Errorf("%s: comments %q", name, comments)
		}
		if meta.Start.Year() != 2026 || meta.Duration < 1e9 || meta.Duration > 1e10 {
			t.Errorf("%s: %v from %v", name, meta.Duration, meta.Start)
		}
	}
	m, _, _ := ReadFile(recordingPath("jdk25"), ReadOptions{})
	if got := m.Meta().Loss.Source; got != 2 {
		t.Errorf("%d samples lost, want 2", got)
	}
}

// Methods of Java have bytecode positions with their lines, and names that each run has.
func TestJFRMethods(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"jdk17", "jdk25", "async"} {
		m, _, err := ReadFile(recordingPath(name), ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		names := m.Names()
		id, known := names.Lookup("Busy.squares", "(ILBusy$Shape;)J")
		if !known {
			t.Errorf("%s: no method", name)
			continue
		}
		want := ccmap.Method{Name: "Busy.squares", Signature: "(ILBusy$Shape;)J", File: "Busy.java", Coordinate: ccmap.CoordinateBytecode}
		if got := names.At(id); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if line := names.Line(ccmap.Frame{Method: id, Offset: 15}); line != 7 {
			t.Errorf("%s: bytecode 15 of squares is on line %d, want 7", name, line)
		}
		if _, known := names.Lookup("Busy$$Lambda.run", "()V"); !known {
			t.Errorf("%s: no lambda", name)
		}
	}
}

// A recording without samples of the kind that is asked for says which it has.
func TestJFRWithoutSamples(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, event, want string }{
		{"asyncwall", "", `no sample type "cpu": it has ["wall"]`},
		{"jdk17", "wall", `no sample type "wall": it has ["cpu" "alloc" "lock"]`},
		{"jdk17", "alloc_space", `no sample type "alloc_space": it has ["cpu" "wall" "native" "alloc" "lock" "samples"]`},
	} {
		_, _, err := ReadFile(recordingPath(c.file), ReadOptions{SampleType: c.event})
		if !errors.Is(err, ErrSampleType) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s %q: %v, want %s", c.file, c.event, err, c.want)
		}
	}
}

// Every format keeps what it can of a recording.
func TestConvertJFR(t *testing.T) {
	t.Parallel()
	for _, name := range recordings {
		for m := range jfr.NumMeasures {
			read, _, err := ReadFile(recordingPath(name), ReadOptions{SampleType: m.String()})
			if errors.Is(err, ErrSampleType) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			s := read.Snapshot()
			for _, f := range []Format{XML, JSON} {
				if diff := diffContent(s, decode(t, encode(t, f, s))); diff != "" {
					t.Errorf("%s %v as %v (-want +got):\n%s", name, m, f, diff)
				}
			}
			if got := decode(t, encode(t, Pprof, s)); got.Total() != s.Total() {
				t.Errorf("%s %v as pprof: %v, want %v", name, m, got.Total(), s.Total())
			}
			checkUnitOfFolded(t, s)
		}
	}
}

func checkUnitOfFolded(t *testing.T, s *ccmap.Snapshot) {
	t.Helper()
	if err := Write(io.Discard, Folded, s); (err == nil) != (s.Meta().Unit == ccmap.CPUTime) {
		t.Errorf("%v as folded stacks: %v", s.Meta().Unit, err)
	}
}

// JFR cannot be written.
func TestWriteJFR(t *testing.T) {
	t.Parallel()
	if err := Write(io.Discard, JFR, small().Snapshot()); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

// A recording that was cut, or is too large for the memory, is refused.
func TestJFRBounds(t *testing.T) {
	t.Parallel()
	data := plainRecording(t, "async")
	for n := 5; n < len(data); n += 97 {
		if _, _, err := Read(strings.NewReader(data[:n]), ReadOptions{}); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
	}
	for _, o := range []struct {
		options ReadOptions
		want    error
	}{
		{ReadOptions{MaxMemory: 64 << 10}, ErrMemory},
		{ReadOptions{MaxDepth: 3}, ErrTooDeep},
		{ReadOptions{MaxMethods: 3}, ErrTooLarge},
		{ReadOptions{MaxNodes: 3}, ErrTooLarge},
	} {
		if _, _, err := Read(strings.NewReader(data), o.options); !errors.Is(err, o.want) {
			t.Errorf("%+v: %v, want %v", o.options, err, o.want)
		}
	}
}

// plainRecording returns a recording without its compression.
func plainRecording(t testing.TB, name string) string {
	t.Helper()
	f, err := os.Open(recordingPath(name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, _, release, err := open(f, newBuilder(ReadOptions{}.WithDefaults()))
	defer release()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(plain)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
