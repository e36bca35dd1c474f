package main

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/attach"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// TestAllocationShares holds the shares of sizes in the bytes that ccmapd says against those that a program
// counts, within 5 points (3.6 at most were seen): large arrays do not take the weight of small objects. Samples of
// what the JVM picks by itself show 72 to 95 % where 79 are true. Each JDK has every other mixture: the weights do not depend on it.
func TestAllocationShares(t *testing.T) {
	testrun.Full(t, testrun.JDK)
	t.Parallel()
	jdks := jvmtest.JDKs(t)
	for i, jdk := range jdks {
		for j, mixture := range []string{
			"79x65536 21x64", "79x8192 21x40", "50x24 50x200", "80x24000 20x32", "40x1000000 30x20000 30x48",
		} {
			if j%len(jdks) != i {
				continue
			}
			t.Run(jdk.Name+" "+mixture, func(t *testing.T) {
				checkMixture(t, jvmtest.Run(t, filepath.Join(jdk.Home, "bin/java"), t.TempDir(),
					append([]string{"-Xmx512m", "-cp", jvmtest.Classes(t), "Mixes"}, strings.Fields(mixture)...)...))
			})
		}
	}
}

// mixSites are the sites of Mixes, in the order of its counts.
var mixSites = []string{"Mixes.first", "Mixes.second", "Mixes.third"}

// checkMixture samples until each site is seen often enough that chance is less than a point.
func checkMixture(t *testing.T, jvm *jvmtest.JVM) {
	t.Helper()
	awaitRecorder(t, jvm.PID)
	file := filepath.Join(t.TempDir(), "mix.json")
	a := attachTo(t, strconv.Itoa(jvm.PID), "--engine", "jfr", "--event", "alloc", "-o", file)
	from := askMix(t, jvm)
	const enough = 2 << 30 // bytes: some 4,000 buffers
	to := from
	for ; sumOf(to)-sumOf(from) < enough; to = askMix(t, jvm) {
		time.Sleep(50 * time.Millisecond) // between two questions
	}
	s := a.interrupt(t, file)
	t.Logf("%s%s", &a.stderr, &a.stdout)
	got, want := make([]int64, len(to)), make([]int64, len(to))
	for i := range to {
		got[i], want[i] = bytesAt(s, mixSites[i]), to[i]-from[i]
	}
	for i := range to {
		share, truth := 100*float64(got[i])/float64(sumOf(got)), 100*float64(want[i])/float64(sumOf(want))
		t.Logf("%s has %.1f %% of the bytes, in truth %.1f", mixSites[i], share, truth)
		if !(math.Abs(share-truth) <= 5) {
			t.Errorf("%s is off by %.1f points", mixSites[i], share-truth)
		}
	}
}

// awaitRecorder has the JVM load its recorder. That takes a busy machine longer than ccmapd waits for an answer.
func awaitRecorder(t *testing.T, pid int) {
	t.Helper()
	target, err := attach.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if _, err := target.Jcmd(t.Context(), 5*time.Minute, "JFR.check"); err != nil {
		t.Fatal(err)
	}
}

// askMix asks the program how many bytes it has allocated at each site.
func askMix(t *testing.T, jvm *jvmtest.JVM) (bytes []int64) {
	t.Helper()
	jvm.Tell(t, "")
	const counts = "counts "
	for more := true; more; more = !strings.HasPrefix(jvm.Out.Text(), counts) {
		if !jvm.Out.Scan() {
			t.Fatal("the program is gone")
		}
	}
	for _, word := range strings.Fields(strings.TrimPrefix(jvm.Out.Text(), counts)) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		bytes = append(bytes, n)
	}
	return bytes
}

func sumOf(numbers []int64) (sum int64) {
	for _, n := range numbers {
		sum += n
	}
	return sum
}

// bytesAt returns the bytes of the samples with a method on top.
func bytesAt(s *ccmap.Snapshot, method string) int64 {
	id, _ := s.Names().Lookup(method, "()V")
	m, _ := s.Method(id)
	return m.Self().Time
}
