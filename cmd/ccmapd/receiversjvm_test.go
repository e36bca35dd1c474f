package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// TestReceiversOfJVM compares what ccmapd says of a Java program's polluted call with the
// program's own counts. The first compiler counts all calls. The second one stops to count,
// and may do so for each caller at another time. Then samples alone tell which one is clean.
// They are exact for callers, so the receivers call a method that is not inlined.
func TestReceiversOfJVM(t *testing.T) {
	needEngine(t)
	if testing.Short() {
		t.Skip("samples JVMs for seconds")
	}
	t.Parallel()
	for _, jdk := range jvmtest.InTurn(t) {
		for _, flag := range []string{countsAll, "-XX:CompileCommand=dontinline,Shapes::steps"} {
			t.Run(jdk.Name+flag, func(t *testing.T) {
				jvm := jdk.Start(t, []string{flag}, "Shapes", "rests")
				file := filepath.Join(t.TempDir(), "shapes.json")
				a := attachTo(t, fmt.Sprint(jvm.PID), "--tune=false", "-i", "1ms", "-o", file)
				waitForCPU(t, jvm.PID, 4*time.Second) // of 10 s or more, as it rests: by then the counts of a call and of its callers have been read after all were compiled
				s := a.interrupt(t, file)
				jvm.Tell(t, "end")
				if !jvm.Out.Scan() {
					t.Fatal("the program does not tell its counts")
				}
				var truth shapesTruth
				if _, err := fmt.Sscan(jvm.Out.Text(), &truth.circles, &truth.round, &truth.square); err != nil {
					t.Fatal(err)
				}
				if text := a.stdout.String(); !strings.Contains(text, "Receivers: the VM's own counts of ") || strings.Contains(text, "Go program") {
					t.Errorf("the report says:\n%s", text)
				}
				code, text, errs := runWith([]string{"receivers", file, "Shapes.call"}, nil)
				t.Log(text)
				if code != exitOK || !strings.Contains(text, "bimorphic") || !strings.Contains(text, "monomorphic: Shapes$Circle.area") {
					t.Errorf("receivers exits with %d: %s%s", code, text, errs)
				}
				truth.compare(t, s, flag == countsAll)
			})
		}
	}
}

// countsAll makes a JVM compile with the first compiler only, whose code counts.
const countsAll = "-XX:TieredStopAtLevel=3"

// shapesTruth is what the program says: calls with circles by its method circles, and with
// circles and squares by its method squares.
type shapesTruth struct{ circles, round, square int64 }

// compare checks the counts, the joined table and the clean caller. With all the JVM has
// counted all calls.
func (truth shapesTruth) compare(t *testing.T, s *ccmap.Snapshot, all bool) {
	t.Helper()
	a := pollution.New(s, pollution.Options{})
	i := 0
	sites := a.Polluted(func(caller ccmap.MethodID) bool { return s.Names().At(caller).Name == "Shapes.call" }, 2)
	if len(sites) != 1 || sites[0].VM == nil {
		t.Fatalf("%d polluted sites in Shapes.call", len(sites))
	}
	site := sites[0]
	for _, target := range site.Calls.Targets {
		want := map[string]int64{"Shapes$Circle.area": truth.circles + truth.round, "Shapes$Square.area": truth.square}[s.Names().At(target.Method).Name]
		if target.Seen > want {
			t.Errorf("%s was called %d times, and counted %d times", s.Names().At(target.Method).Name, want, target.Seen)
		}
		i++
	}
	if i != 2 || site.VM.Compiled != pollution.InlinedTwo || site.VM.Frozen == all {
		t.Errorf("the site is %+v, with %d receivers", site.VM, i)
	}
	if len(site.Clean) != 1 {
		t.Fatalf("%d contexts are clean: %+v", len(site.Clean), site.Clean)
	}
	clean := site.Clean[0]
	if s.Names().At(clean.Callers[0].Method).Name != "Shapes.circles" || len(clean.Callers) != 1 || s.Names().At(clean.Target).Name != "Shapes$Circle.area" || clean.Share < 0.95 {
		t.Errorf("clean is %+v", clean)
	}
	table, _ := a.Table(site.Site, 1)
	if all && (clean.Basis != pollution.Estimated || !table.Estimated) {
		t.Errorf("margins %v, and the context is %v", table.Margins, clean.Basis)
	}
	for _, row := range table.Rows {
		if !all || row.Rest || s.Names().At(row.Callers[0].Method).Name != "Shapes.squares" {
			continue
		}
		for k, c := range table.Columns {
			if s.Names().At(c.Method).Name == "Shapes$Square.area" && math.Abs(row.Share(k)-0.75) > 0.05 {
				t.Errorf("squares has %v squares, want 0.75", row.Share(k))
			}
		}
	}
}
