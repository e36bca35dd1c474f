package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/compilation"
	"github.com/ccmapd/ccmapd/internal/feedback/hotspot"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/store"
)

// TestCompileRecordsOfJVM: a JVM's own events say what C2 has made of a method, and the store keeps it for 'store
// records'.
func TestCompileRecordsOfJVM(t *testing.T) {
	t.Parallel()
	for _, jdk := range jvmtest.JDKs(t) {
		t.Run(jdk.Name, func(t *testing.T) {
			jvm := jdk.Start(t, nil, "Work")
			dir := filepath.Join(t.TempDir(), "store")
			s, err := store.Open(store.Options{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
			defer stop()
			of := store.Key{Target: "work", Build: "b"}
			c := &hotspot.Compilations{Pattern: "Work*", Record: func(records []compilation.Record) {
				if err := s.AppendRecords(of, records...); err != nil {
					t.Error(err)
				}
				for _, r := range records {
					if r.Level == compilation.LevelOptimized && len(r.Calls) > 0 {
						stop()
					}
				}
			}}
			watched := make(chan error)
			go func() { watched <- c.Watch(ctx, jvm.PID) }()
			for !strings.Contains(jcmd(t, jvm.PID, "JFR.check"), "running") && ctx.Err() == nil {
				time.Sleep(20 * time.Millisecond)
			}
			jvm.Tell(t, "go") // what was hot before is compiled anew
			if err := <-watched; err != nil {
				t.Fatal(err)
			}
			list := ccmapdOK(t, "store", "records", "--dir", dir, "work")
			if !strings.Contains(list, "Work") || !strings.Contains(list, " of ") {
				t.Errorf("%s\n%d bytes of events lost", list, c.Lost())
			}
			calls := ccmapdOK(t, "store", "records", "--dir", dir, "work", "Work", "--calls")
			if !strings.Contains(calls, "inlined") || strings.Contains(list, "java.") {
				t.Errorf("%s", calls)
			}
			t.Logf("%s\n%s", list, calls)
		})
	}
}
