package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/valueprof"
)

// TestPackagedFileHasTheDefaults: the file that users begin with says what holds without it,
// and has all keys. It alone keeps files: a daemon of a user has no directory for them yet.
func TestPackagedFileHasTheDefaults(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../packaging/ccmapd.toml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Store.Files = true
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("not the defaults (-want +got):\n%s", diff)
	}
	for _, fields := range [][]field{c.Listen.fields(), c.Defaults.fields(), c.Budget.fields(), c.Store.fields(), new(Match).fields(), new(Auth).fields(), new(Hot).fields(), new(Hub).fields(), new(Feedback).fields()} {
		for _, f := range fields {
			if !strings.Contains(string(text), f.key) {
				t.Errorf("key %s is not there", f.key)
			}
		}
	}
	if empty, err := Parse(nil); err != nil || !cmp.Equal(empty, Default()) {
		t.Errorf("an empty file: %+v, %v", empty, err)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	c, err := Parse([]byte(`
listen.tcp = "[::1]:7070"
[[target]]
name = "web"
match = { exe = "/srv/*/web", cmdline = '-addr :80\d\d', user = "root" }
interval = "5ms"
max = 2
[defaults]                      # after a target, and holds for it
window = "1d"
max_overhead = 2
value_hash = "pext"
janitor = "off"
dump_values = true
hot = { edge = "10s", path = ["A > B:3  >\tC", "A = 2%/1m"] }
[[target]]
name = "billing.eu"
match.url = "https://billing.example/debug/ccmapd#guests"
[target.auth]
user = "ccmapd"
password_file = "/etc/ccmapd/billing"
[[target]]
name = "host"
match = { host = true }
interval = "20ms"
max_memory = "16MiB"
hot.method = "0"
hot.path = []
[store]
files = true
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Listen.TCP = "[::1]:7070"
	want.Defaults.Window, want.Defaults.MaxOverhead, want.Store.Files = 24*time.Hour, 2, true
	want.Defaults.ValueHash, want.Defaults.Janitor, want.Defaults.DumpValues = valueprof.HashPext, valueprof.PolicyOff, true
	want.Defaults.Hot.Edge.Time, want.Defaults.Hot.Paths = 10*time.Second, "A > B:3 > C\nA = 2%/1m"
	web := Target{Name: "web", Match: Match{Exe: "/srv/*/web", Cmdline: `-addr :80\d\d`, User: "root"}, Settings: want.Defaults}
	web.Interval, web.Max = 5*time.Millisecond, 2
	host := Target{Name: "host", Match: Match{Host: true}, Settings: want.Defaults}
	host.Interval, host.MaxMemory = 20*time.Millisecond, 16<<20
	host.Hot = Hot{Edge: want.Defaults.Hot.Edge}
	want.Targets = []Target{web, {
		Name: "billing.eu", Match: Match{URL: "https://billing.example/debug/ccmapd#guests"},
		Auth: Auth{User: "ccmapd", PasswordFile: "/etc/ccmapd/billing"}, Settings: want.Defaults,
	}, host}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestThresholdsOfHot: paths come back out of the text that makes them comparable.
func TestThresholdsOfHot(t *testing.T) {
	t.Parallel()
	c, err := Parse([]byte("[defaults]\nhot = { method = \"1%/10m\", path = [\"A > B:3 > C\", \"A = 2%/1m\"] }"))
	if err != nil {
		t.Fatal(err)
	}
	want := manager.Thresholds{
		Method: manager.Threshold{Percent: 1, Window: 10 * time.Minute},
		Paths: []manager.HotPath{
			{Path: query.Path{{Name: "A"}, {Name: "B", Line: 3}, {Name: "C"}}},
			{Path: query.Path{{Name: "A"}}, Threshold: manager.Threshold{Percent: 2, Window: time.Minute}},
		},
	}
	if diff := cmp.Diff(want, c.Defaults.Hot.Thresholds()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestErrors: each says where, which key, and what is allowed.
func TestErrors(t *testing.T) {
	t.Parallel()
	const named = "[[target]]\nname = \"a\"\n"
	for text, want := range map[string]string{
		"[listen\n":                                            "line 1, column 8: expected ']' to close table name",
		"a = 1\na = 2":                                         "line 2, column 1: key a is already defined",
		"[budget]\n  cores = 1":                                "line 2, column 3: budget.cores: unknown key: budget has cpu, memory, targets, max_host_overhead, scan",
		"[bugdet]":                                             "line 1, column 2: bugdet: unknown key: the file has listen, defaults, budget, store, hub, feedback, target",
		"budget = 3":                                           "line 1, column 1: budget: must be a table, [budget]",
		"budget.cpu = \"1\"":                                   "line 1, column 8: budget.cpu: must be a number from 0.01 to 1024",
		"budget.cpu = nan":                                     "line 1, column 8: budget.cpu: must be a number from 0.01 to 1024",
		"budget.memory = \"lots\"":                             `line 1, column 8: budget.memory: must be a size in quotes, such as "64MiB", "1GB" or "500kB": 16MiB at least, or "0" for no limit`,
		"budget.targets = 0":                                   "line 1, column 8: budget.targets: must be a whole number from 1 to 16384",
		"[defaults]\ninterval = 10":                            `line 2, column 1: defaults.interval: must be a time in quotes from "100µs" to "1m"`,
		"[defaults]\nrotate = \"1ms\"":                         `line 2, column 1: defaults.rotate: must be a time in quotes from "1s" to "365d", or "0"`,
		"[budget]\nscan = \"0\"":                               `line 2, column 1: budget.scan: must be a time in quotes from "100ms" to "1h"`,
		"[defaults]\nengine = \"ptrace\"":                      "line 2, column 1: defaults.engine: must be auto, bpf, perf, jfr or pprofhttp",
		"[defaults]\ntune = \"yes\"":                           "line 2, column 1: defaults.tune: must be true or false",
		"[defaults]\nmax_interval = \"1ms\"":                   "line 2, column 1: defaults.max_interval: 1ms is shorter than interval, 10ms",
		"[defaults]\nmin_interval = \"20ms\"":                  "line 2, column 1: defaults.min_interval: 20ms is longer than interval, 10ms",
		"[defaults]\nhot = { method = \"1%\" }":                `line 2, column 9: defaults.hot.method: must be a CPU time in quotes, "10s", a share of the recent CPU time, "1%/10m", or "0" for none`,
		"[defaults]\nhot.edge = 10":                            `line 2, column 5: defaults.hot.edge: must be a CPU time in quotes, "10s", a share of the recent CPU time, "1%/10m", or "0" for none`,
		"[defaults]\nhot.path = \"A > B\"":                     `line 2, column 5: defaults.hot.path: must be at most 64 paths, such as ["A > B > C", "A > B = 10s"]`,
		"[defaults]\nhot.path = [\"A\", 1]":                    "line 2, column 5: defaults.hot.path: must be paths in quotes, of at most 4096 bytes: the 2. is not",
		"[defaults]\nhot.path = [\"A\", \"B >\"]":              `line 2, column 5: defaults.hot.path: must be paths, such as "A > B = 10s": parse path "B >": element 2: no method name; write a path as 'A > B > C'`,
		"[defaults]\nhot.path = [\"A = x\"]":                   `line 2, column 5: defaults.hot.path: must be paths, such as "A > B = 10s": threshold "x" is neither a CPU time, such as "10s", nor a share of the recent CPU time, such as "1%/10m"`,
		named + "match.pid = 1\nhot = { methods = \"1s\" }":    "line 4, column 9: target[0].hot.methods: unknown key: target[0].hot has method, edge, path",
		named + "match.pid = 1\nhot = \"1s\"":                  "line 4, column 1: target[0].hot: must be a table, [target[0].hot]",
		"feedback.hotspot = \"on\"":                            "line 1, column 10: feedback.hotspot: must be off, suggest or apply",
		"listen.socket = \"ccmapd.sock\"":                      "line 1, column 8: listen.socket: must be an absolute path",
		"listen.tcp = \"7070\"":                                `line 1, column 8: listen.tcp: must be host:port, such as "127.0.0.1:7070"`,
		"listen.tcp = \":7070\"":                               `line 1, column 8: listen.tcp: ":7070" can be reached from other machines: that needs web_config, with TLS and users; allowed without it: 127.0.0.1, [::1] and localhost`,
		"listen.web_config = \"/w\"":                           "line 1, column 8: listen.web_config: is for tcp, which is not given",
		"listen.socket = \"/" + strings.Repeat("s", 107) + `"`: "line 1, column 8: listen.socket: must have at most 107 bytes, because the kernel has room for no more",
		"target = 1":                                           "line 1, column 1: target: must be tables, each after a line [[target]]",
		"target = [1]":                                         "line 1, column 1: target: must be tables, each after a line [[target]]",
		named:                                                  "line 1, column 3: target[0].match: is missing, or matches on nothing: target[0].match has exe, cmdline, user, cgroup, unit, pid, url, host",
		named + "match = {}":                                   "line 3, column 1: target[0].match: is missing, or matches on nothing: target[0].match has exe, cmdline, user, cgroup, unit, pid, url, host",
		named + "match = { exe = \"[\" }":                      `line 3, column 11: target[0].match.exe: must be a glob: '*', '?' and '[a-z]' stand for characters but '/', '\' takes the next one as it is`,
		named + "match = { cmdline = \"(\" }":                  "line 3, column 11: target[0].match.cmdline: must be a regular expression (RE2): missing closing ): `(`",
		named + "match = { user = \"no such\" }":               `line 3, column 11: target[0].match.user: there is no user "no such" here: give a name of /etc/passwd, or a number`,
		named + "match = { pid = -1 }":                         "line 3, column 11: target[0].match.pid: must be a whole number from 1 to 4194304",
		named + "match = { url = \"ftp://a\" }":                `line 3, column 11: target[0].match.url: must be an address such as "http://127.0.0.1:6060/debug/pprof"`,
		named + "match = { url = \"http://u:p@a\" }":           "line 3, column 11: target[0].match.url: must not have a user or password: they belong in auth",
		named + "match = { url = \"http://a/?token=t\" }":      "line 3, column 11: target[0].match.url: must not have a query: it is the address of the endpoint alone",
		named + "match.url = \"http://a\"\ninterval = \"1ms\"": "line 4, column 1: target[0].interval: is for processes: the program behind match.url samples itself",
		named + "match = { url = \"http://a\" }\nauth = { bearer_file = \"/b\" }": "line 4, column 1: target[0].auth: would cross the network in clear text: use https",
		named + "match = { url = \"http://a\", pid = 1 }":                         "line 3, column 1: target[0].match: url and host stand alone: a process is found by the other keys",
		named + "match = { pid = 1 }\nauth = { bearer_file = \"/b\" }":            "line 4, column 1: target[0].auth: is for match.url, which is not given",
		named + "match.url = \"https://a\"\n[target.auth]\nuser = \"u\"":          "line 4, column 9: target[0].auth: user and password_file belong together",
		"[[target]]\nmatch.pid = 1":                                               "line 1, column 3: target[0].name: is missing",
		"[[target]]\nname = \"../a\"\nmatch.pid = 1":                              "line 2, column 1: target[0].name: must have 1 to 63 letters, digits, '.', '_' and '-', and begin with a letter or digit",
		named + "match.pid = 1\n" + named + "match.pid = 2":                       `line 5, column 1: target[1].name: "a" is the name of target[0], too: each target needs its own`,
		named + "match.host = true\n[[target]]\nname = \"b\"\nmatch.host = true":  "line 6, column 7: target[1].match.host: target[0] is the whole host already: one target can be",
		named + "match.host = true\nengine = \"bpf\"":                             "line 4, column 1: target[0].engine: is for processes: match.host has them all, by engine bpf",
		"[defaults]\nvalue_hash = \"md5\"\njanitor = 1\ndump_values = 1": "line 2, column 1: defaults.value_hash: must be auto, pext, bitpermute, shift or multiply, in quotes\n" +
			"line 3, column 1: defaults.janitor: must be decay, reset or off, in quotes\nline 4, column 1: defaults.dump_values: must be true or false",
		named + "match.host = true\njanitor = \"off\"":                                            "line 4, column 1: target[0].janitor: is for processes: match.host has them all, by engine bpf",
		named + "match.host = true\nhits = 0":                                                     "line 4, column 1: target[0].hits: is for processes: match.host has them all, by engine bpf",
		named + "max = 1\nmatch.host = true":                                                      "line 3, column 1: target[0].max: is for processes: match.host has them all, by engine bpf",
		named + "match = { host = true, exe = \"a\" }":                                            "line 3, column 1: target[0].match: url and host stand alone: a process is found by the other keys",
		named + "match.host = true\nauth = { bearer_file = \"/b\" }":                              "line 4, column 1: target[0].auth: is for match.url, which is not given",
		"budget.targets = 1\n" + named + "match.pid = 1\n[[target]]\nname = \"b\"\nmatch.pid = 1": "line 1, column 8: budget.targets: 1 is less than the file has [[target]]: 2",
		"[listen]\n[defaults]\ntune = 1\n[bugdet]\n": "line 3, column 1: defaults.tune: must be true or false\n" +
			"line 4, column 2: bugdet: unknown key: the file has listen, defaults, budget, store, hub, feedback, target",
	} {
		c, err := Parse([]byte(text))
		if err == nil || err.Error() != want {
			t.Errorf("%q: %+v\n got %v\nwant %s", text, c, err, want)
		}
	}
}

// TestManyErrors: a file that is another program's is not answered by pages.
func TestManyErrors(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte(strings.Repeat("[[target]]\n", 100)))
	if n := len(Errors(err)); n != mostErrors || !strings.HasSuffix(err.Error(), "\nand 180 more errors") {
		t.Errorf("%d errors: %v", n, err)
	}
}

// TestLoadRefusesWhatOthersMayWrite: such a file would let them choose what the daemon opens.
func TestLoadRefusesWhatOthersMayWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "ccmapd.toml")
	if err := os.WriteFile(file, []byte("[budget]\ncpu = 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		file, dir os.FileMode
		want      string // part of the error
	}{
		{0o600, 0o700, ""},
		{0o644, 0o755, ""},
		{0o644, 0o777 | os.ModeSticky, ""},
		{0o646, 0o755, "ccmapd.toml has mode 0646"},
		{0o644, 0o777, dir + " has mode 0777"},
	} {
		if err := errors.Join(os.Chmod(file, test.file), os.Chmod(dir, test.dir)); err != nil {
			t.Fatal(err)
		}
		c, err := Load(file)
		if test.want == "" && (err != nil || c.Budget.CPU != 2) {
			t.Errorf("%v in %v: %+v, %v", test.file, test.dir, c, err)
		}
		if _, cured := advice.Of(err); test.want != "" && (!cured || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%v in %v: %v, want %q", test.file, test.dir, err, test.want)
		}
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file + ".none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestRuleMatches: all that a rule gives must hold.
func TestRuleMatches(t *testing.T) {
	t.Parallel()
	web := process.Facts{
		PID: 42, UID: 0, Executable: "/srv/blue/web", CommandLine: []string{"web", "-addr", ":8080"},
		Cgroup: "/system.slice/web.service/worker", Unit: "web.service",
	}
	for _, test := range []struct {
		match Match
		want  bool
	}{
		{Match{Exe: "web"}, true},
		{Match{Exe: "/srv/*/web"}, true},
		{Match{Exe: "/srv/*"}, false},
		{Match{Exe: "w?b", PID: 42}, true},
		{Match{Exe: "web", PID: 43}, false},
		{Match{User: "root"}, true},
		{Match{User: "0"}, true},
		{Match{User: "1"}, false},
		{Match{Cmdline: `-addr :80\d\d$`}, true},
		{Match{Cmdline: "^-addr"}, false},
		{Match{Unit: "web.*"}, true},
		{Match{Unit: "web"}, false},
		{Match{Cgroup: "/system.slice/web.service"}, true},
		{Match{Cgroup: "/*"}, true},
		{Match{Cgroup: "/user.slice"}, false},
		{Match{}, false},
		{Match{URL: "http://a"}, false},
		{Match{Host: true}, false},
	} {
		rule, err := test.match.Rule()
		if err != nil {
			t.Fatal(err)
		}
		if got := rule.Matches(web); got != test.want {
			t.Errorf("%v: %v, want %v", test.match, got, test.want)
		}
	}
	if rule, err := (Match{Cmdline: "("}).Rule(); err == nil {
		t.Errorf("broken expression: %+v", rule)
	}
	if got := (Match{Exe: "a\x1b", User: "www", PID: 3}).String(); got != "exe a\ufffd, user www, pid 3" {
		t.Errorf("rule for people: %q", got)
	}
}

// TestRuleMayMatch: the name of a process, which the kernel cuts, stands in for an executable that may not be seen.
func TestRuleMayMatch(t *testing.T) {
	t.Parallel()
	hidden := process.Facts{PID: 42, UID: 0, Name: "web"}
	long := process.Facts{PID: 43, UID: 0, Name: "prometheus-node"}
	seen := hidden
	seen.Executable = "/srv/web"
	for _, test := range []struct {
		match Match
		facts process.Facts
		want  bool
	}{
		{Match{Exe: "web"}, hidden, true},
		{Match{Exe: "/srv/*/w*"}, hidden, true},
		{Match{Exe: "we"}, hidden, false},
		{Match{Exe: "website"}, hidden, false},
		{Match{Exe: "web"}, seen, false},
		{Match{Exe: "web", User: "root"}, hidden, true},
		{Match{Exe: "web", User: "1"}, hidden, false},
		{Match{User: "root"}, hidden, false},
		{Match{Exe: "/usr/bin/prometheus-node-exporter"}, long, true},
		{Match{Exe: "prometheus"}, long, false},
	} {
		rule, err := test.match.Rule()
		if err != nil {
			t.Fatal(err)
		}
		if got := rule.MayMatch(test.facts); got != test.want {
			t.Errorf("%v and %q: %v, want %v", test.match, test.facts.Name, got, test.want)
		}
	}
}

// FuzzParse: no file makes it panic, an error names a place in the file, and a configuration
// keeps its promises.
func FuzzParse(f *testing.F) {
	packaged, err := os.ReadFile("../../../packaging/ccmapd.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packaged)
	for _, seed := range []string{
		"[[target]]\nname = \"a\"\nmatch = { exe = \"*\", host = false }\n",
		"target = [{ name = \"a\", match = { url = \"http://a\" }, auth = { user = \"u\", password_file = \"/p\" } }]",
		"listen.tcp = \":1\"\n[listen]\n", "x = [[[[{a.b.c.d.e.f = [{}]}]]]]", "[a.b.c.d.e]\n[[a.b.c.d.f]]\n", "\"\\u0000\" = 1", "budget.cpu = inf",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text)
		if err != nil {
			lines := strings.Count(string(text), "\n") + 1
			for _, e := range Errors(err) {
				if e.Line < 1 || e.Line > lines || e.Column < 1 || e.Column > len(text)+1 || e.Reason == "" {
					t.Errorf("%+v in a file of %d lines", e, lines)
				}
			}
			return
		}
		if len(c.Targets) > c.Budget.Targets {
			t.Errorf("%d targets", len(c.Targets))
		}
		for _, target := range c.Targets {
			if _, err := target.Match.Rule(); err != nil || target.Name == "" || target.Interval <= 0 {
				t.Errorf("%+v: %v", target, err)
			}
		}
	})
}
