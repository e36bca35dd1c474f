package classpath

import (
	"archive/zip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
)

func TestMain(m *testing.M) { jvmtest.Main(m) }

// put writes a file as a whole, under a new name first: as an installer does.
func put(t *testing.T, name string, data []byte) {
	t.Helper()
	for _, err := range []error{os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name+".new", data, 0o644), os.Rename(name+".new", name)} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// startAt starts a JVM with a class path, and returns its build.
func startAt(t *testing.T, jdk jvmtest.JDK, args ...string) (j *jvmtest.JVM, build string) {
	t.Helper()
	j = jvmtest.Run(t, filepath.Join(jdk.Home, "bin/java"), t.TempDir(), append([]string{"-XX:-UsePerfData"}, args...)...)
	return j, BuildOf(j.PID, "jvm", nil)
}

// TestBuilds: what is one build of a Java program, and what is another, by running JVMs.
func TestBuilds(t *testing.T) {
	for _, jdk := range jvmtest.JDKs(t) {
		t.Run(jdk.Name, func(t *testing.T) {
			t.Parallel()
			class, err := os.ReadFile(filepath.Join(jvmtest.Classes(t), "Wait.class"))
			if err != nil {
				t.Fatal(err)
			}
			files := map[string]string{"Wait.class": string(class), "META-INF/MANIFEST.MF": "Manifest-Version: 1.0\nMain-Class: Wait\n"}
			other := map[string]string{"Wait.class": files["Wait.class"], "META-INF/MANIFEST.MF": files["META-INF/MANIFEST.MF"], "Other.class": "other"}
			dir := t.TempDir()
			a, b, folder := filepath.Join(dir, "a.jar"), filepath.Join(dir, "lib/b.jar"), filepath.Join(dir, "classes")
			put(t, a, archiveOf(files, before, zip.Deflate))
			put(t, b, archiveOf(files, time.Now(), zip.Store))
			put(t, folder+"/Wait.class", class)
			first, archive := startAt(t, jdk, "-jar", a)
			_, again := startAt(t, jdk, "-jar", b)
			if archive != again {
				t.Error("an archive that was built again, elsewhere, is another build")
			}
			put(t, a, archiveOf(other, before, zip.Deflate))
			if is := BuildOf(first.PID, "jvm", nil); is != archive {
				t.Error("a JVM whose archive was replaced is of another build than before")
			}
			if _, next := startAt(t, jdk, "-jar", a); next == archive {
				t.Error("another content of the archive is the same build")
			}
			_, all := startAt(t, jdk, "-cp", filepath.Join(dir, "lib/*"), "Wait")
			put(t, filepath.Join(dir, "lib/c.jar"), archiveOf(other, before, zip.Deflate))
			if _, more := startAt(t, jdk, "-cp", filepath.Join(dir, "lib/*"), "Wait"); all == more {
				t.Error("another archive in lib/* is the same build")
			}

			running, was := startAt(t, jdk, "-cp", folder, "Wait")
			if _, again := startAt(t, jdk, "-cp", folder, "Wait"); again != was {
				t.Error("two JVMs of one folder are of two builds")
			}
			put(t, folder+"/Late.class", class)
			if is := BuildOf(running.PID, "jvm", nil); is == was {
				t.Error("a folder that was changed under a JVM is still its build")
			}
			_, after := startAt(t, jdk, "-cp", folder, "Wait")
			if is := BuildOf(running.PID, "jvm", nil); after == was || after == is {
				t.Error("the JVM that has the changed folder is of the build before")
			}
		})
	}
}
