package pollution_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// addVM adds points of the VM: "j.W.call+2 j.Sq.area 30 j.Ci.area 10 other 5" are a call
// and what it reached, "j.W.call 45" is how often a method was called.
func addVM(t rapid.TB, m *ccmap.Map, points ...string) {
	t.Helper()
	for _, line := range points {
		words := strings.Fields(line)
		at := framesOf(t, m.Names(), words[0])[0]
		p := ccmap.Point{Origin: ccmap.OriginVM, Method: at.Method, Offset: at.Offset, End: at.Offset, Nulls: ccmap.NullsUnknown}
		if len(words) == 2 {
			p.Kind, p.Offset, p.End = ccmap.PointBlock, 0, 0
			p.Count = number(t, words[1])
		}
		for i := 1; i+1 < len(words); i += 2 {
			switch n := number(t, words[i+1]); words[i] {
			case "other":
				p.Other = n
			case "frozen":
				p.Frozen = n > 0
			default:
				p.Values = append(p.Values, ccmap.PointValue{Value: uint64(framesOf(t, m.Names(), words[i])[0].Method), Count: n})
			}
		}
		m.AddPoint(p)
	}
}

func number(t rapid.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// shapes is a program that draws circles, and squares mixed with them, by one method: the
// call in it is polluted, and of one type from j.W.circles.
func shapes(t rapid.TB) *ccmap.Map {
	m := mapOf(t,
		"j.W.main+1;j.W.circles+28;j.W.call+2;j.Ci.area 400",
		"j.W.main+9;j.W.squares+28;j.W.call+2;j.Sq.area 300",
		"j.W.main+9;j.W.squares+28;j.W.call+2;j.Ci.area 100",
	)
	addVM(t, m,
		"j.W.call+2 j.Ci.area 146000 j.Sq.area 95000 frozen 1", "j.W.call 241000",
		"j.W.circles+28 j.W.call 114688", "j.W.squares+28 j.W.call 127232 frozen 1",
		"j.W.main+1 j.W.circles 10", "j.W.main+9 j.W.squares 11",
	)
	return m
}

// tableText prints a table, one row a line: "caller+1 calls: Least-Most~Estimate, …".
func tableText(names *ccmap.Names, t pollution.Table) []string {
	var lines []string
	for _, row := range t.Rows {
		var chain, cells []string
		for _, f := range row.Callers {
			chain = append(chain, fmt.Sprintf("%s+%d", names.At(f.Method).Name, f.Offset))
		}
		if row.Rest {
			chain = append(chain, "…")
		}
		for _, c := range row.Cells {
			cells = append(cells, fmt.Sprintf("%d-%d~%.0f", c.Least, c.Most, c.Estimate))
		}
		lines = append(lines, fmt.Sprintf("%s %d: %s", strings.Join(chain, "←"), row.Calls, strings.Join(cells, ", ")))
	}
	return lines
}

func table(t rapid.TB, m *ccmap.Map, caller string, depth int) pollution.Table {
	t.Helper()
	got, ok := pollution.New(m.Snapshot(), pollution.Options{}).Table(siteOf(t, m, caller), depth)
	if !ok {
		t.Fatalf("%s has no table", caller)
	}
	return got
}

// TestShapes: the VM's counts tell all types and all callers, and samples which caller has
// which type.
func TestShapes(t *testing.T) {
	t.Parallel()
	m := shapes(t)
	site := siteOf(t, m, "j.W.call")
	if site.VM == nil || !site.VM.Frozen || site.VM.Compiled != pollution.InlinedTwo {
		t.Errorf("the VM has %+v", site.VM)
	}
	if got := mixText(m.Names(), site.Calls.Mix); got != "j.Ci.area 146000 j.Sq.area 95000" || !site.MaybeDynamic() {
		t.Errorf("counted: %s", got)
	}
	if v := site.Decisive().Verdict; v != pollution.Bimorphic {
		t.Errorf("the site is %v", v)
	}
	got := table(t, m, "j.W.call", 1)
	if got.Margins != pollution.MarginsAgree || !got.Estimated {
		t.Errorf("margins %v, estimated: %t", got.Margins, got.Estimated)
	}
	want := []string{
		"j.W.squares+28 127232: 31312-127232~31890, 0-95000~94858",
		"j.W.circles+28 114688: 18768-114688~114110, 0-95000~142",
	}
	if diff := cmp.Diff(want, tableText(m.Names(), got)); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	polluted := pollution.New(m.Snapshot(), pollution.Options{}).Polluted(nil, 3)
	if len(polluted) != 1 || len(polluted[0].Clean) != 1 {
		t.Fatalf("polluted: %+v", polluted)
	}
	clean := polluted[0].Clean[0]
	if name := m.Names().At(clean.Callers[0].Method).Name; name != "j.W.circles" || len(clean.Callers) != 1 || clean.Calls != 114688 || clean.Samples.Seen != 400 ||
		clean.Basis != pollution.Estimated || clean.Share < 0.99 || m.Names().At(clean.Target).Name != "j.Ci.area" {
		t.Errorf("%s is clean: %+v", name, clean)
	}
}

// TestMargins: counts are only joined where they are of the same calls.
func TestMargins(t *testing.T) {
	t.Parallel()
	stacks := []string{"j.W.a+1;j.W.call+2;j.Ci.area 100", "j.W.b+1;j.W.call+2;j.Sq.area 100"}
	site := "j.W.call+2 j.Ci.area 1000 j.Sq.area 1000"
	for _, test := range []struct {
		name   string
		stacks []string
		points []string
		want   pollution.Margins
		clean  string // contexts
		rows   []string
	}{
		{
			"apart", stacks, []string{site, "j.W.call 2000", "j.W.a+1 j.W.call 900", "j.W.b+1 j.W.call 400"}, pollution.MarginsApart,
			"j.W.a sampled, j.W.b sampled",
			[]string{"j.W.a+1 900: 0-900~0, 0-900~0", " … 700: 0-700~0, 0-700~0", "j.W.b+1 400: 0-400~0, 0-400~0"},
		},
		{
			"in a loop", stacks, []string{site, "j.W.call 20", "j.W.a+1 j.W.call 10", "j.W.b+1 j.W.call 10"}, pollution.MarginsRepeat,
			"j.W.a sampled, j.W.b sampled",
			[]string{" … 1980: 0-1000~0, 0-1000~0", "j.W.a+1 10: 0-1000~0, 0-1000~0", "j.W.b+1 10: 0-1000~0, 0-1000~0"},
		},
		{
			"callers unknown", stacks, []string{site, "j.W.call 2000"}, pollution.MarginsUnknown,
			"j.W.a sampled, j.W.b sampled",
			[]string{"j.W.a+1 -1: 0-1000~0, 0-1000~0", "j.W.b+1 -1: 0-1000~0, 0-1000~0"},
		},
		{
			"new receivers", append(stacks, "j.W.b+1;j.W.call+2;j.Dot.area 50"), []string{site, "j.W.a+1 j.W.call 1000", "j.W.b+1 j.W.call 1000"}, pollution.MarginsApart,
			"j.W.a sampled",
			[]string{"j.W.b+1 1000: 0-1000~0, 0-1000~0", "j.W.a+1 1000: 0-1000~0, 0-1000~0"},
		},
		{
			"a few samples of the other", append(stacks, "j.W.a+1;j.W.call+2;j.Ci.area 900", "j.W.a+1;j.W.call+2;j.Sq.area 3"),
			[]string{site, "j.W.call 2000", "j.W.a+1 j.W.call 1000", "j.W.b+1 j.W.call 1000"}, pollution.MarginsAgree,
			"j.W.a estimated, j.W.b estimated",
			[]string{"j.W.a+1 1000: 0-1000~996, 0-1000~4", "j.W.b+1 1000: 0-1000~4, 0-1000~996"},
		},
		{
			"fewer samples than tell", []string{"j.W.a+1;j.W.call+2;j.Ci.area 20", "j.W.b+1;j.W.call+2;j.Sq.area 20"},
			[]string{site, "j.W.call 2000", "j.W.a+1 j.W.call 1000", "j.W.b+1 j.W.call 1000"}, pollution.MarginsAgree,
			"",
			[]string{"j.W.a+1 1000: 0-1000~976, 0-1000~24", "j.W.b+1 1000: 0-1000~24, 0-1000~976"},
		},
		{
			"proven without samples", nil, []string{"j.W.call+2 j.Ci.area 1950 j.Sq.area 50", "j.W.call 2000", "j.W.a+1 j.W.call 1900", "j.W.b+1 j.W.call 100"}, pollution.MarginsAgree,
			"j.W.a proven",
			[]string{"j.W.a+1 1900: 1850-1900~1852, 0-50~48", "j.W.b+1 100: 50-100~98, 0-50~2"},
		},
		{
			"too short to be sampled", stacks[:1], []string{site, "j.W.call 2000", "j.W.a+1 j.W.call 900", "j.W.b+1 j.W.call 400"}, pollution.MarginsApart,
			"",
			[]string{"j.W.a+1 900: 0-900~0, 0-900~0", " … 700: 0-700~0, 0-700~0", "j.W.b+1 400: 0-400~0, 0-400~0"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := mapOf(t, test.stacks...)
			addVM(t, m, test.points...)
			got := table(t, m, "j.W.call", 1)
			for i := range test.rows {
				test.rows[i] = strings.TrimPrefix(test.rows[i], " ")
			}
			if diff := cmp.Diff(test.rows, tableText(m.Names(), got)); got.Margins != test.want || diff != "" {
				t.Errorf("margins %v, want %v; rows (-want +got):\n%s", got.Margins, test.want, diff)
			}
			if clean := cleaners(t, m, "j.W.call", 1); clean != test.clean {
				t.Errorf("clean are %q, want %q", clean, test.clean)
			}
		})
	}
}

// cleaners prints the clean contexts of a site in order of their names, each with its basis.
func cleaners(t rapid.TB, m *ccmap.Map, caller string, depth int) string {
	t.Helper()
	var all []string
	for _, c := range pollution.New(m.Snapshot(), pollution.Options{}).Cleaners(siteOf(t, m, caller), depth) {
		var names []string
		for _, f := range c.Callers {
			names = append(names, m.Names().At(f.Method).Name)
		}
		all = append(all, strings.Join(names, "←")+" "+c.Basis.String())
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestTypeWithoutRow: the VM counts a third type with others. Samples that have seen it explain as many
// of those as they can stand for; more may hide a type that is too short to be sampled.
func TestTypeWithoutRow(t *testing.T) {
	t.Parallel()
	for other, want := range map[string]string{"700": "j.W.a sampled, j.W.b sampled, j.W.c sampled", "2000": ""} {
		m := mapOf(t, "j.W.a+1;j.W.call+2;j.Ci.area 100", "j.W.b+1;j.W.call+2;j.Sq.area 100", "j.W.c+1;j.W.call+2;j.Dot.area 100")
		addVM(t, m, "j.W.call+2 j.Ci.area 700 j.Sq.area 650 other "+other, "j.W.call 2050")
		if got := cleaners(t, m, "j.W.call", 1); got != want {
			t.Errorf("%s others: clean are %q, want %q", other, got, want)
		}
	}
}

// TestDeepContexts: callers of callers are told apart by counts where each method makes its
// call once, and by samples elsewhere.
func TestDeepContexts(t *testing.T) {
	t.Parallel()
	stacks := []string{
		"j.W.a+1;j.W.draw+5;j.W.call+2;j.Ci.area 100", "j.W.b+1;j.W.draw+5;j.W.call+2;j.Sq.area 100",
	}
	m := mapOf(t, stacks...)
	addVM(t, m, "j.W.call+2 j.Ci.area 700 j.Sq.area 300", "j.W.call 1000", "j.W.draw+5 j.W.call 1000", "j.W.draw 1000", "j.W.a+1 j.W.draw 710", "j.W.b+1 j.W.draw 290")
	want := []string{
		"j.W.draw+5←j.W.a+1 710: 410-700~700, 10-300~10",
		"j.W.draw+5←j.W.b+1 290: 0-290~0, 0-290~290",
	}
	if diff := cmp.Diff(want, tableText(m.Names(), table(t, m, "j.W.call", 2))); diff != "" {
		t.Errorf("by counts (-want +got):\n%s", diff)
	}
	if got := cleaners(t, m, "j.W.call", 3); got != "j.W.draw←j.W.a estimated, j.W.draw←j.W.b estimated" {
		t.Errorf("clean are %s", got)
	}
	m = mapOf(t, stacks...)
	addVM(t, m, "j.W.call+2 j.Ci.area 700 j.Sq.area 300", "j.W.call 1000", "j.W.draw+5 j.W.call 1000", "j.W.draw 10", "j.W.a+1 j.W.draw 6", "j.W.b+1 j.W.draw 4")
	want = []string{
		"j.W.draw+5←j.W.a+1 -1: 0-700~697, 0-300~1",
		"j.W.draw+5←j.W.b+1 -1: 0-700~3, 0-300~299",
	}
	if diff := cmp.Diff(want, tableText(m.Names(), table(t, m, "j.W.call", 2))); diff != "" {
		t.Errorf("by samples (-want +got):\n%s", diff)
	}
}

// TestCompiled: what the compiler makes of a call.
func TestCompiled(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]pollution.Compiled{
		"j.A.x 100":                     pollution.CompiledUnknown,
		"j.A.x 200":                     pollution.InlinedOne,
		"j.A.x 950 j.B.x 50":            pollution.InlinedMajor,
		"j.A.x 850 j.B.x 150":           pollution.InlinedTwo,
		"j.A.x 450 j.B.x 250 other 300": pollution.VirtualCall,
		"j.A.x 950 j.B.x 20 other 30":   pollution.InlinedMajor,
		"j.A.x 40 j.B.x 40 j.C.x 120":   pollution.VirtualCall, // of -XX:TypeProfileWidth=4
		"other 1000":                    pollution.CompiledUnknown,
	} {
		m := mapOf(t)
		addVM(t, m, "j.W.call+2 "+values)
		if got := siteOf(t, m, "j.W.call").VM.Compiled; got != want {
			t.Errorf("%s: %v, want %v", values, got, want)
		}
	}
}

// TestJavaNames: rules for names that Go's compiler makes are not for Java, and a class that
// is initialized at a call is no receiver of the call.
func TestJavaNames(t *testing.T) {
	t.Parallel()
	java := func(m *ccmap.Map, name string) ccmap.MethodID {
		return m.Names().Intern(ccmap.Method{Name: name, Signature: "(I)V", Receiver: "x", Coordinate: ccmap.CoordinateBytecode})
	}
	for _, test := range []struct {
		targets []string
		want    pollution.Verdict
		n       int
	}{
		{[]string{"runtime.A.run", "runtime.B.run"}, pollution.Bimorphic, 2},
		{[]string{"a.F.func1", "b.F.func1"}, pollution.Bimorphic, 2},
		{[]string{"a.F.run", "a.F.<clinit>"}, pollution.Monomorphic, 1},
		{[]string{"a.F.<init>", "b.F.<init>"}, pollution.Bimorphic, 2},
		{[]string{"a.F.<clinit>"}, pollution.Monomorphic, 1},
	} {
		m := ccmap.New(ccmap.Options{})
		f := m.Child(m.Root(), ccmap.NoOffset, java(m, "j.W.f"))
		for _, name := range test.targets {
			m.Add(m.Child(f, 7, java(m, name)), ccmap.Counters{Samples: 50, Time: 500})
		}
		sites := pollution.New(m.Snapshot(), pollution.Options{}).Sites(nil)
		if len(sites) != 1 || sites[0].Samples.Verdict != test.want || len(sites[0].Samples.Targets) != test.n {
			t.Errorf("%s: %+v, want %v of %d", test.targets, sites, test.want, test.n)
		}
	}
}

// calls are how often callers reached types, by both.
type calls [][]int64

func randomCalls(t *rapid.T, label string) calls {
	rows, columns := rapid.IntRange(1, 4).Draw(t, "callers"), rapid.IntRange(1, 3).Draw(t, "types")
	row := rapid.SliceOfN(rapid.Int64Range(0, 400), columns, columns)
	return rapid.SliceOfN(row, rows, rows).Draw(t, label)
}

// some returns a part of the calls: those that one side had counted when it froze.
func (c calls) some(t *rapid.T) calls {
	part := make(calls, len(c))
	for i, row := range c {
		for _, n := range row {
			part[i] = append(part[i], rapid.Int64Range(0, n).Draw(t, "counted"))
		}
	}
	return part
}

func (c calls) row(i int) (sum int64) {
	for _, n := range c[i] {
		sum += n
	}
	return sum
}

func (c calls) column(k int) (sum int64) {
	for i := range c {
		sum += c[i][k]
	}
	return sum
}

// tableOf returns the table of calls that the callers, and the site, have counted, and of
// some samples. It returns false if nothing was counted at the site.
func tableOf(t *rapid.T, callers, site calls) (*ccmap.Map, pollution.Table, bool) {
	m := ccmap.New(ccmap.Options{})
	point, all := "j.W.call+2", int64(0)
	for k := range site[0] {
		if n := site.column(k); n > 0 {
			point += fmt.Sprintf(" j.T%d.area %d", k, n)
			all += n
		}
	}
	if all == 0 {
		return m, pollution.Table{}, false
	}
	addVM(t, m, point, fmt.Sprint("j.W.call ", all))
	for i := range callers {
		if n := callers.row(i); n > 0 {
			addVM(t, m, fmt.Sprintf("j.W.from%d+7 j.W.call %d", i, n))
		}
		for k := range callers[i] {
			if n := rapid.Int64Range(0, 50).Draw(t, "samples"); n > 0 {
				addStack(t, m, fmt.Sprintf("j.W.from%d+7;j.W.call+2;j.T%d.area %d", i, k, n))
			}
		}
	}
	return m, table(t, m, "j.W.call", 1), true
}

// TestBounds: they hold for every table, also if the callers, or the site, stopped to count
// before the other: then for the calls that both counted.
func TestBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := randomCalls(t, "calls")
		callers, site, both := all, all, all
		switch rapid.IntRange(0, 2).Draw(t, "frozen") {
		case 1:
			callers = all.some(t)
			both = callers
		case 2:
			site = all.some(t)
			both = site
		}
		m, got, ok := tableOf(t, callers, site)
		if !ok {
			return
		}
		for _, row := range got.Rows {
			if row.Rest {
				continue
			}
			i := number(t, strings.TrimPrefix(m.Names().At(row.Callers[0].Method).Name, "j.W.from"))
			if row.Calls >= 0 && row.Calls != callers.row(int(i)) {
				t.Errorf("caller %d made %d calls, want %d", i, row.Calls, callers.row(int(i)))
			}
			for at, c := range got.Columns {
				k := number(t, strings.TrimSuffix(strings.TrimPrefix(m.Names().At(c.Method).Name, "j.T"), ".area"))
				if n, cell := both[i][k], row.Cells[at]; n < cell.Least || n > cell.Most {
					t.Errorf("caller %d reached type %d %d times, want %d to %d", i, k, n, cell.Least, cell.Most)
				}
			}
		}
	})
}

// TestEstimates: estimates keep the counts of types and of callers, and the bounds.
func TestEstimates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := randomCalls(t, "calls")
		_, got, ok := tableOf(t, all, all)
		if !ok || !got.Estimated {
			return
		}
		columns, whole := make([]float64, len(got.Columns)), 0.0
		for _, c := range got.Columns {
			whole += float64(c.Seen)
		}
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-3+1e-4*whole }
		for _, row := range got.Rows {
			sum := 0.0
			for k, c := range row.Cells {
				sum += c.Estimate
				columns[k] += c.Estimate
				if c.Estimate < float64(c.Least) && !near(c.Estimate, float64(c.Least)) || c.Estimate > float64(c.Most) && !near(c.Estimate, float64(c.Most)) {
					t.Errorf("estimate %v is not within %d and %d", c.Estimate, c.Least, c.Most)
				}
			}
			if !near(sum, float64(row.Calls)) {
				t.Errorf("a caller has %v of %d calls", sum, row.Calls)
			}
		}
		for k, c := range got.Columns {
			if !near(columns[k], float64(c.Seen)) {
				t.Errorf("a type has %v of %d calls", columns[k], c.Seen)
			}
		}
	})
}
