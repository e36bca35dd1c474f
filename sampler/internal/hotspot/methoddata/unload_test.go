package methoddata

import (
	"errors"
	"regexp"
	"strconv"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
)

// quickly makes the JVM keep profiles of methods that have hardly begun.
var quickly = []string{
	"-Xbatch", "-Xmx64m", "-XX:TieredStopAtLevel=3", "-XX:Tier3InvocationThreshold=50", "-XX:Tier3MinInvocationThreshold=20",
	"-XX:Tier3CompileThreshold=50",
}

// TestLoadersComeAndGo reads profiles while 150 class loaders and hidden classes come and go, and
// the JVM uses their addresses again: by the number in their names, the methods of a class belong
// together, and a call reaches the method that the program calls.
func TestLoadersComeAndGo(t *testing.T) {
	if testing.Short() {
		t.Skip("the JVM is another process, and one goroutine reads it")
	}
	const loaders = 150
	for _, jdk := range jvmtest.JDKs(t) {
		for _, collector := range []string{"-XX:+UseSerialGC", "-XX:+UseZGC"} {
			t.Run(jdk.Name+collector, func(t *testing.T) {
				j := jdk.Start(t, append([]string{collector}, quickly...), "Loaders")
				r := open(t, j)
				w := watcher{names: ccmap.NewNames(), units: make(map[string]bool)}
				// On a slow machine few snapshots meet the classes of a round.
				for round := 0; round < 30 && (len(w.units) < 10 || w.snapshots < 2); round++ {
					if gone := w.round(t, j, r, loaders); gone < loaders/2 {
						t.Errorf("%d of %d loaders went", gone, loaders)
					}
				}
				t.Logf("%d classes were seen in %d snapshots: %+v", len(w.units), w.snapshots, r.Stats())
				if len(w.units) < 10 || w.snapshots < 2 {
					t.Errorf("%d classes were seen in %d snapshots", len(w.units), w.snapshots)
				}
			})
		}
	}
}

// watcher checks the names in points.
type watcher struct {
	names     *ccmap.Names
	units     map[string]bool // classes, by the number of their methods
	snapshots int
}

// round checks names while so many loaders come and go, and returns how many went.
func (w *watcher) round(t *testing.T, j *jvmtest.JVM, r *Reader, loaders int) int {
	t.Helper()
	j.Tell(t, strconv.Itoa(loaders))
	done := make(chan int, 1)
	go func() {
		j.Out.Scan()
		n, _ := strconv.Atoi(j.Out.Text())
		done <- n
	}()
	for {
		w.check(t, r)
		select {
		case gone := <-done:
			return gone
		default:
		}
	}
}

// check takes a snapshot, and an update of the methods that were read.
func (w *watcher) check(t *testing.T, r *Reader) {
	t.Helper()
	if err := r.Snapshot(); errors.Is(err, ErrFew) {
		return
	} else if err != nil {
		t.Fatal(err)
	}
	w.snapshots++
	w.verify(t, r.Points(w.names))
	var methods []uint64
	for method := range r.profiles {
		methods = append(methods, method)
	}
	r.Update(methods)
	w.verify(t, r.Points(w.names))
}

var numbered = regexp.MustCompile(`^Unit(\d{4})\.(?:lambda\$)?(work|help|applyAsInt)(\d{4})?`)

func (w *watcher) verify(t *testing.T, points []ccmap.Point) {
	t.Helper()
	for _, p := range points {
		name := w.names.At(p.Method).Name
		m := numbered.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		if m[3] != "" {
			w.units[m[3]] = true
		}
		if class := m[1]; class != "0000" && m[3] != "" && m[3] != class {
			t.Errorf("there is no %s", name)
		}
		if p.Kind != ccmap.PointCall || m[2] != "work" || m[3] == "" {
			continue
		}
		for _, v := range p.Values {
			callee := w.names.At(ccmap.MethodID(v.Value)).Name
			if c := numbered.FindStringSubmatch(callee); c != nil && (c[1] != m[1] || c[2] == "help" && c[3] != m[3]) {
				t.Errorf("%s calls %s", name, callee)
			}
		}
	}
}
