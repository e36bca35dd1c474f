package vmstructs_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// TestMain removes the Java programs that the tests have compiled.
func TestMain(m *testing.M) { jvmtest.Main(m) }

// open reads the tables of a JVM of a test.
func open(t testing.TB, j *jvmtest.JVM) *vmstructs.VM {
	t.Helper()
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", j.PID))
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	vm, err := vmstructs.Open(context.Background(), process.MemoryOf(j.PID, nil), maps)
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

func TestTables(t *testing.T) {
	for _, jdk := range jvmtest.JDKs(t) {
		t.Run(jdk.Name, func(t *testing.T) {
			j := jdk.Start(t, []string{"-XX:TypeProfileWidth=4", "-XX:-UseCompressedOops", "-XX:CICompilerCount=3"}, "Loop")
			vm := open(t, j)
			if !strings.HasPrefix(vm.Version, jdk.Name+".") || !strings.Contains(vm.Info, "linux-amd64") {
				t.Errorf("version %q, info %q; want those of JDK %s", vm.Version, vm.Info, jdk.Name)
			}
			if len(vm.BuildID) != 40 {
				t.Errorf("build id %q, want 20 bytes in hex", vm.BuildID)
			}
			q := vm.Query()
			if q.Offset("OSThread._thread_id") == 0 || q.Size("Method") < 64 || q.Const("JVM_CONSTANT_Methodref") != 10 {
				t.Error("a field, a size or a constant is not what it is")
			}
			if heaps := q.Static("CodeCache._heaps"); heaps < vm.Low || heaps >= vm.High {
				t.Errorf("the code heaps are at %#x, not in libjvm.so", heaps)
			}
			if err := q.Err(); err != nil {
				t.Error(err)
			}
			if q.Offset("Method._none", "Method._nothing"); q.Err() == nil {
				t.Error("a field that does not exist was found")
			}
			if typ, _ := vm.FieldType("PcDesc._pc_offset"); typ != "int" || vm.Super("JavaThread") != "Thread" {
				t.Errorf("PcDesc._pc_offset has type %q, JavaThread is a %q", typ, vm.Super("JavaThread"))
			}
			for name, want := range map[string]uint64{"TypeProfileWidth": 4, "UseCompressedOops": 0, "CICompilerCount": 3, "TieredCompilation": 1} {
				if got, ok := vm.Flag(name); !ok || got != want {
					t.Errorf("flag %s is %d, %v; want %d", name, got, ok, want)
				}
			}
			if _, ok := vm.Flag("OnError"); ok {
				t.Error("a flag with a text has a number")
			}
		})
	}
}

func TestNoJVM(t *testing.T) {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	if _, err := vmstructs.Open(context.Background(), process.MemoryOf(os.Getpid(), nil), maps); err == nil {
		t.Error("this process was taken for a JVM")
	}
}
