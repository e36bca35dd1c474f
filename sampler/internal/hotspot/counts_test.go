package hotspot

import (
	"context"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
)

// TestMain removes the Java programs that the tests have compiled.
func TestMain(m *testing.M) { jvmtest.Main(m) }

// TestCount reads the JVM's own profile until it tells both receivers of a call.
func TestCount(t *testing.T) {
	for _, jdk := range jvmtest.JDKs(t) {
		t.Run(jdk.Name, func(t *testing.T) {
			j := jdk.Start(t, nil, "Loop")
			p := openJVM(t, j.PID)
			names := ccmap.NewNames()
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			found := 0
			err := p.Count(ctx, new(hang.Watch), names, func(points []ccmap.Point) {
				if found = receivers(names, points); found == 2 {
					stop()
				}
			})
			if err != nil || found != 2 {
				t.Errorf("%d receivers were found, %v", found, err)
			}
		})
	}
}

// receivers returns how many of the two shapes a call of the program has reached.
func receivers(names *ccmap.Names, points []ccmap.Point) int {
	found := make(map[string]bool)
	for _, p := range points {
		if p.Kind != ccmap.PointCall || names.At(p.Method).Name != "Loop.call" {
			continue
		}
		for _, v := range p.Values {
			found[names.At(ccmap.MethodID(v.Value)).Receiver] = true
		}
	}
	if found["Loop$Square"] && found["Loop$Circle"] {
		return 2
	}
	return len(found)
}

func TestHot(t *testing.T) {
	var h hot
	if got := h.drainMethods(); len(got) != 0 {
		t.Errorf("%d methods of no stack", len(got))
	}
	for i := range uint64(2 * maxHot) {
		h.note(i)
		h.note(i)
	}
	if got := h.drainMethods(); len(got) != maxHot {
		t.Errorf("%d methods, want %d", len(got), maxHot)
	}
	if got := h.drainMethods(); len(got) != 0 {
		t.Errorf("%d methods are taken twice", len(got))
	}
}
