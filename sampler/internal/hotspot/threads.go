package hotspot

import "strings"

// Names of the frames that stand for the purpose of a thread of the JVM's own, and for
// functions of C that are not known.
const (
	gcName     = "[gc]"
	jitName    = "[jit]"
	vmName     = "[vm]"
	nativeName = "[native]"
)

// purposes are the beginnings of names that HotSpot gives to its own threads, cut to the 15
// bytes that Linux keeps (JDK 17 to 25: set_name and create_thread in hotspot/share).
var purposes = []struct{ prefix, frame string }{
	{"GC Thread", gcName}, {"G1 ", gcName}, {"ParGC", gcName}, {"Concurrent Mark", gcName},
	{"ZWorker", gcName}, {"ZDirector", gcName}, {"ZDriver", gcName}, {"ZStat", gcName}, {"ZUncommitter", gcName}, {"ZUnmapper", gcName},
	{"XWorker", gcName}, {"XDirector", gcName}, {"XDriver", gcName}, {"XStat", gcName}, {"XUncommitter", gcName}, {"XUnmapper", gcName},
	{"RuntimeWorker", gcName}, {"Shenandoah", gcName},
	{"C1 Compiler", jitName}, {"C2 Compiler", jitName}, {"JVMCI", jitName}, {"Sweeper thread", jitName}, {"Common-Compiler", jitName},
	{"VM Thread", vmName}, {"VM Periodic", vmName}, {"Signal Dispatch", vmName}, {"Service Thread", vmName}, {"Monitor Deflati", vmName},
	{"Notification Th", vmName}, {"Attach Listener", vmName}, {"JFR ", vmName}, {"StringDedup", gcName},
}

// purposeOf returns the frame that stands for the purpose of a thread of that name; "" for a
// thread of the program.
func purposeOf(name string) string {
	for _, p := range purposes {
		if strings.HasPrefix(name, p.prefix) {
			return p.frame
		}
	}
	return ""
}
