package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/internal/versitygw"
)

// programs is where the daemon is built, once for all tests.
var programs string

var buildDaemon = sync.OnceValues(func() (string, error) {
	var err error
	if programs, err = os.MkdirTemp("", "ccmapd-hub-"); err != nil {
		return "", err
	}
	if err = os.Chmod(programs, 0o755); err != nil {
		return "", err
	}
	return programtest.Command(filepath.Join("..", "..", ".."), programs)
})

// daemonProgram returns ccmapd, as it is built from this tree.
func daemonProgram(t *testing.T) string {
	t.Helper()
	path, err := buildDaemon()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// started starts a program, and waits for a line of its output that begins so. Kill ends it at once.
func started(t *testing.T, cmd *exec.Cmd, prefix string) (line string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() { kill(cmd) })
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), prefix) {
			go func() {
				for lines.Scan() { // or the program would wait for a reader
				}
				r.Close()
			}()
			return lines.Text()
		}
	}
	t.Fatalf("%v printed no line %q", cmd.Args, prefix)
	return ""
}

func kill(cmd *exec.Cmd) { cmd.Process.Kill(); cmd.Wait() }

// machine is a machine of the fleet: a daemon with a store, and a program.
type machine struct {
	ccmapd, dir, program string
	daemon               *exec.Cmd
}

func newMachine(t *testing.T, ccmapd, hub string) *machine {
	t.Helper()
	m := &machine{ccmapd: ccmapd, dir: programtest.PublicDir(t, 0o700), program: programtest.Copy(t, ccmapd, "web")}
	for name, text := range map[string]string{"write": "writer\n", "read": "reader\n", "ccmapd.toml": fmt.Sprintf(`
[listen]
socket = "%[1]s/s.sock"
group = ""
[store]
files = true
dir = "%[1]s/store"
every = "1s"
[hub]
url = "http://%[2]s"
token_file = "%[1]s/write"
read_token_file = "%[1]s/read"
every = "1s"
[[target]]
name = "web"
match = { exe = "%[3]s" }
`, m.dir, hub, m.program)} {
		if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.start(t)
	return m
}

func (m *machine) start(t *testing.T) {
	t.Helper()
	m.daemon = exec.Command(m.ccmapd, "serve", "--config", m.dir+"/ccmapd.toml")
	started(t, m.daemon, "Listening on ")
}

// work starts the program, which ends with the function that is returned.
func (m *machine) work(t *testing.T) (end func()) {
	t.Helper()
	cmd := exec.Command(m.program, "demo-workload", "-rest", "2ms")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(cmd) })
	return func() { kill(cmd) }
}

// status is what the daemon says of the hub.
type status struct {
	State, Reason string
	Waiting       int
	Sent, Lost    uint64
}

func (m *machine) status() (is status, err error) {
	err = m.get("info", &struct{ Hub *status }{&is})
	return is, err
}

func (m *machine) get(route string, into any) error {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", m.dir+"/s.sock")
	}}}
	r, err := client.Get("http://localhost/v1/" + route)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	return json.NewDecoder(r.Body).Decode(into)
}

// await waits until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("%s is awaited in vain", what)
}

// stored adds what the files of the machine's store have to a map. All is filed if nothing is in the log.
func (m *machine) stored(t *testing.T, sum *ccmap.Map) (allFiled bool) {
	t.Helper()
	r, err := store.NewReader(m.dir + "/store")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range r.List(store.Filter{Target: "web", Running: true}).Entries {
		switch e.Kind {
		case store.KindRunning:
			return false
		case store.KindPeriod:
			p, err := r.Read(e)
			if err == nil {
				err = store.AddForHub(sum, p.Snapshot())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return true
}

// bytesOf returns the bytes of a profile without its description.
func bytesOf(t *testing.T, m *ccmap.Map) string {
	t.Helper()
	*m.Meta() = ccmap.Meta{}
	var b bytes.Buffer
	if err := export.Write(&b, export.JSON, m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestLoop is a fleet over a directory.
func TestLoop(t *testing.T) {
	t.Parallel()
	testLoop(t, "--dir", filepath.Join(programtest.PublicDir(t, 0o700), "bucket"))
}

// TestLoopS3 is the same over a server of S3, where one is installed.
func TestLoopS3(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	t.Parallel()
	testLoop(t, "--s3", versitygw.Serve(t), "--bucket", versitygw.Bucket, "--region", versitygw.Region, "--s3-insecure")
}

// testLoop has a fleet of real processes: two daemons with a program each, and a hub over a bucket. The hub is killed
// and away for a while, a daemon is killed while it sends. In the end the hub's sum is the offline merge of both stores,
// byte for byte, and a third daemon begins with it.
func testLoop(t *testing.T, bucket ...string) {
	ccmapd := daemonProgram(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	checkModules(t, ccmapd)
	if text, err := exec.Command(ccmapd, "doctor").CombinedOutput(); err != nil {
		testrun.Lacks(t, "no engine is permitted: %s", text)
	}
	dir := programtest.PublicDir(t, 0o700)
	tokens := fmt.Sprintf("write %x * web\nread %x - web\n", sha256.Sum256([]byte("writer")), sha256.Sum256([]byte("reader")))
	if err := os.WriteFile(dir+"/tokens", []byte(tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	at := "127.0.0.1:0"
	newHub := func() *exec.Cmd {
		hub := exec.Command(self, append(bucket, "--tokens", dir+"/tokens", "--listen", at, "--window", "20ms", "--round", "500ms")...)
		hub.Env = append(versitygw.Environment(), asHub+"=1")
		at = strings.TrimPrefix(started(t, hub, "ccmapd-hub listens at "), "ccmapd-hub listens at ")
		return hub
	}
	hub := newHub()
	a, b := newMachine(t, ccmapd, at), newMachine(t, ccmapd, at)
	endA, endB := a.work(t), b.work(t)
	sent := func(m *machine, least uint64) func() bool {
		return func() bool { is, err := m.status(); return err == nil && is.Sent >= least }
	}
	await(t, "a contribution of each", func() bool { return sent(a, 1)() && sent(b, 1)() })

	kill(hub)
	await(t, "what waits while the hub is away", func() bool {
		is, err := a.status()
		return err == nil && is.State == "failing" && is.Waiting >= 2 && is.Reason != ""
	})
	kill(a.daemon)
	a.start(t)
	hub = newHub()
	await(t, "what waited", sent(a, 1))
	kill(a.daemon) // at any moment
	a.start(t)
	await(t, "a contribution of the third life", sent(a, 1))
	endA()
	endB()

	want := lastSum(t, at, a, b)

	c := newMachine(t, ccmapd, at)
	c.work(t)
	known := ""
	await(t, "what the third daemon begins with", func() bool {
		list, _ := filepath.Glob(c.dir + "/store/targets/web/*/cpu/fleet.json.zst")
		known = strings.Join(list, "")
		return known != ""
	})
	m, _, err := export.ReadFile(known, export.ReadOptions{})
	if err != nil || bytesOf(t, m) != bytesOf(t, want) {
		t.Errorf("the third daemon begins with something else than the hub has: %v", err)
	}
	c.fanInWithout(t, hub)
	for _, d := range []*exec.Cmd{a.daemon, b.daemon, c.daemon} {
		d.Process.Signal(syscall.SIGTERM)
		if err := d.Wait(); err != nil {
			t.Errorf("a daemon ends with %v", err)
		}
	}
}

// fanInWithout waits until a daemon keeps from where methods are called in the whole fleet. The daemon then begins anew,
// without the hub, and commands still say what the fleet knows better.
func (m *machine) fanInWithout(t *testing.T, hub *exec.Cmd) {
	t.Helper()
	await(t, "fan-in of the fleet", func() bool {
		list, _ := filepath.Glob(m.dir + "/store/targets/web/*/fleet.fanin")
		return len(list) == 1
	})
	kill(hub)
	kill(m.daemon)
	m.start(t)
	var answer struct {
		Shared  struct{ Methods int }
		Methods []struct {
			Method, From string
			Places       int
		}
	}
	await(t, "what the daemon keeps of the fleet", func() bool {
		text, err := m.command("fanin", "@web", "--json", "-n", "0").Output()
		return err == nil && json.Unmarshal(text, &answer) == nil && answer.Shared.Methods > 0
	})
	await(t, "a method of the own profile that the fleet knows better", func() bool {
		for _, is := range answer.Methods {
			if is.From != "shared" || is.Places == 0 {
				continue
			}
			if text, err := m.command("contexts", "@web", is.Method).CombinedOutput(); err == nil && bytes.Contains(text, []byte("in the whole fleet")) {
				return true
			}
		}
		return false // it has begun anew, perhaps with few samples
	})
}

// command asks the daemon.
func (m *machine) command(args ...string) *exec.Cmd {
	c := exec.Command(m.ccmapd, args...)
	c.Env = append(os.Environ(), "CCMAPD_SOCKET="+m.dir+"/s.sock")
	return c
}

// ask asks the hub.
func ask(t *testing.T, at, route string) *http.Response {
	t.Helper()
	r, err := http.NewRequest("GET", "http://"+at+"/v1/"+route, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer reader")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// lastSum waits until the hub's sum is the offline merge of the stores, byte for byte, and stays so. The first time that
// all seems filed may be too early: the last samples of a program that has ended are in no file and no log for a moment.
// What the hub lost, or counted twice, stays wrong.
func lastSum(t *testing.T, at string, machines ...*machine) (want *ccmap.Map) {
	t.Helper()
	var got, offline int64
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("at last the hub had %d samples, the offline merge %d", got, offline)
		}
	})
	var since time.Time
	await(t, "the hub's sum of all that was filed", func() bool {
		want = filed(t, machines)
		if want == nil {
			since = time.Time{}
			return false
		}
		offline = want.Snapshot().Total().Samples
		sum := sumOf(t, at, len(machines))
		if sum != nil {
			got = sum.Snapshot().Total().Samples
		}
		if sum == nil || bytesOf(t, sum) != bytesOf(t, want) {
			since = time.Time{}
			return false
		}
		if since.IsZero() {
			since = time.Now()
		}
		return time.Since(since) > 3*time.Second // longer than a period, the way to the hub, and a round
	})
	return want
}

// filed returns the offline merge of stores, nil if something is not yet filed or sent.
func filed(t *testing.T, machines []*machine) *ccmap.Map {
	t.Helper()
	sum := ccmap.New(ccmap.Options{})
	for _, m := range machines {
		if !m.stored(t, sum) {
			return nil
		}
		is, err := m.status()
		if err == nil && is.Lost > 0 {
			t.Fatalf("%+v", is)
		}
		if err != nil || is.Waiting > 0 {
			return nil
		}
	}
	return sum
}

// sumOf returns the sum of the hub's only build, nil if it has not that of so many instances.
func sumOf(t *testing.T, at string, instances int) *ccmap.Map {
	t.Helper()
	var list []struct {
		Build     string
		Instances int
	}
	err := json.NewDecoder(ask(t, at, "builds").Body).Decode(&list)
	if err != nil || len(list) != 1 || list[0].Instances != instances {
		return nil
	}
	return best(t, at, list[0].Build)
}

func best(t *testing.T, at, build string) *ccmap.Map {
	t.Helper()
	m, _, err := export.Read(ask(t, at, "best?target=web&build="+strings.NewReplacer("/", "%2F", "+", "%2B").Replace(build)).Body, export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// checkModules: the daemon's binary, which may run as root, links no module of the hub's.
func checkModules(t *testing.T, ccmapd string) {
	t.Helper()
	modules, err := exec.Command("go", "version", "-m", ccmapd).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"minio", "ccmapd/hub", "crc64nvme", "gopkg.in/ini"} {
		if bytes.Contains(modules, []byte(module)) {
			t.Errorf("the daemon has %s", module)
		}
	}
}
