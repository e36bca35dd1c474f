package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/loopback"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/valueprof"
)

const day = 24 * time.Hour

// Parse reads a configuration of one file. Keys that are not given have the values of [Default].
func Parse(text []byte) (*Config, error) { return parse([]file{{text: text}}) }

// file is a file of a configuration. One without a name has errors without one.
type file struct {
	name string
	text []byte
}

// parse reads a configuration. Files after the first have targets alone. The error has what is wrong in all of them.
func parse(files []file) (*Config, error) {
	all := make([]*document, len(files))
	var wrong error
	for i, f := range files {
		var err error
		all[i], err = open(f)
		wrong = errors.Join(wrong, err)
	}
	if wrong != nil {
		return nil, wrong
	}
	c := Default()
	for i, d := range all {
		sections := []field{
			d.table("", "listen", c.Listen.fields()),
			d.table("", "defaults", d.settings("defaults", &c.Defaults)),
			d.table("", "budget", c.Budget.fields()),
			d.table("", "store", c.Store.fields()),
			d.table("", "hub", c.Hub.fields()),
			d.table("", "feedback", c.Feedback.fields()),
		}
		if i > 0 {
			sections = elsewhere(sections, files[0].name)
		}
		d.read("", d.values, append(sections, d.tables("target", func(path string, table map[string]any) {
			d.targets = append(d.targets, targetTable{path, table})
		})))
	}
	taken := make(names)
	for _, d := range all { // only now are the defaults known
		var own []Target
		for _, t := range d.targets {
			own = append(own, d.target(t, c.Defaults))
		}
		c.Targets = append(c.Targets, own...)
		d.checkTargets(own, taken)
	}
	all[0].check(c)
	for _, d := range all {
		wrong = errors.Join(wrong, d.err())
	}
	if wrong != nil {
		return nil, wrong
	}
	return c, nil
}

// elsewhere returns sections that are refused, because they belong into another file.
func elsewhere(sections []field, file string) (all []field) {
	for _, s := range sections {
		all = append(all, field{s.key, func(any) error {
			return fmt.Errorf("belongs into %s: a file of %s has [[target]] alone", file, filepath.Base(file)+partsSuffix)
		}})
	}
	return all
}

// targetTable is a target that was not read yet.
type targetTable struct {
	path  string
	table map[string]any
}

func (l *Listen) fields() []field {
	return []field{
		{"socket", text(&l.Socket, socketPath)},
		{"open", truth(&l.Open)},
		{"group", text(&l.Group, oneWord)},
		{"tcp", text(&l.TCP, hostAndPort)},
		{"web_config", text(&l.WebConfig, absolute)},
		{"metrics", text(&l.Metrics, basicOrFull)},
	}
}

func (s *Settings) fields() []field {
	return []field{
		{"engine", text(&s.Engine, knownEngine)},
		{"interval", duration(&s.Interval, 100*time.Microsecond, time.Minute, false)},
		{"min_interval", duration(&s.MinInterval, 100*time.Microsecond, time.Minute, true)},
		{"max_interval", duration(&s.MaxInterval, 100*time.Microsecond, time.Minute, true)},
		{"tune", truth(&s.Tune)},
		{"max_overhead", number(&s.MaxOverhead, 0, 100)},
		{"max_memory", size(&s.MaxMemory, 64*figure.KiB)},
		{"window", duration(&s.Window, time.Second, 365*day, true)},
		{"hits", number(&s.Hits, 0, 10_000)},
		{"value_hash", word(&s.ValueHash, valueprof.ParseHash, append([]valueprof.Hash{valueprof.HashAuto}, valueprof.Hashes()...)...)},
		{"janitor", word(&s.Janitor, valueprof.ParsePolicy, valueprof.PolicyDecay, valueprof.PolicyReset, valueprof.PolicyOff)},
		{"dump_values", truth(&s.DumpValues)},
		{"labels", truth(&s.Labels)},
		{"rotate", duration(&s.Rotate, time.Second, 365*day, true)},
		{"max", whole(&s.Max, 1, 4096)},
		{"waits", text(&s.Waits, offWaitOrWall)},
		{"idle", duration(&s.Idle, time.Millisecond, 365*day, true)},
		{"under", text(&s.Under, functions)},
		{"send", truth(&s.Send)},
	}
}

// settings returns the fields of the settings in a table.
func (d *document) settings(path string, s *Settings) []field {
	return append(s.fields(), d.table(path, "hot", s.Hot.fields()))
}

func (b *Budget) fields() []field {
	return []field{
		{"cpu", number(&b.CPU, 0.01, 1024)},
		{"memory", size(&b.Memory, 16*figure.MiB)},
		{"targets", whole(&b.Targets, 1, 16384)},
		{"max_host_overhead", number(&b.MaxHostOverhead, 0, 100)},
		{"scan", duration(&b.Scan, 100*time.Millisecond, time.Hour, false)},
	}
}

func (s *Store) fields() []field {
	return []field{
		{"files", truth(&s.Files)},
		{"dir", text(&s.Dir, absolute)},
		{"every", duration(&s.Every, time.Second, time.Hour, false)},
		{"keep", duration(&s.Keep, time.Minute, 36500*day, true)},
		{"max_bytes", size(&s.MaxBytes, figure.MiB)},
		{"moments", duration(&s.Moments, time.Minute, 36500*day, true)},
	}
}

func (h *Hub) fields() []field {
	return []field{
		{"url", text(&h.URL, hubAddress)},
		{"token_file", text(&h.TokenFile, absolute)},
		{"read_token_file", text(&h.ReadTokenFile, absolute)},
		{"ca_file", text(&h.CAFile, absolute)},
		{"every", duration(&h.Every, time.Second, day, false)},
	}
}

func (f *Feedback) fields() []field {
	return []field{
		{"hotspot", text(&f.HotSpot, offSuggestOrApply)},
		{"record", text(&f.Record, methodPattern)},
	}
}

func (m *Match) fields() []field {
	return []field{
		{"exe", text(&m.Exe, glob)},
		{"cmdline", text(&m.Cmdline, expression)},
		{"user", text(&m.User, knownUser)},
		{"cgroup", text(&m.Cgroup, glob)},
		{"unit", text(&m.Unit, glob)},
		{"pid", whole(&m.PID, 1, 1<<22)},
		{"url", text(&m.URL, endpoint)},
		{"host", truth(&m.Host)},
	}
}

func (a *Auth) fields() []field {
	return []field{
		{"bearer_file", text(&a.BearerFile, absolute)},
		{"user", text(&a.User, oneWord)},
		{"password_file", text(&a.PasswordFile, absolute)},
		{"ca_file", text(&a.CAFile, absolute)},
	}
}

// target reads a target, whose settings begin as the defaults.
func (d *document) target(t targetTable, defaults Settings) Target {
	to := Target{Settings: defaults}
	d.read(t.path, t.table, append([]field{
		{"name", text(&to.Name, targetName)},
		d.table(t.path, "match", to.Match.fields()),
		d.table(t.path, "auth", to.Auth.fields()),
	}, d.settings(t.path, &to.Settings)...))
	switch {
	case to.Match.URL != "":
		d.refuse(t, ofProcesses, "is for processes: the program behind match.url samples itself")
	case to.Match.Host:
		d.refuse(t, ofOneProcess, "is for processes: match.host has them all, by engine bpf")
	}
	return to
}

// refuse refuses keys of a target.
func (d *document) refuse(t targetTable, keys []string, reason string) {
	for _, key := range keys {
		if _, given := t.table[key]; given {
			d.fail(join(t.path, key), "%s", reason)
		}
	}
}

// ofOneProcess are the settings that the whole host does not take.
var ofOneProcess = slices.Concat([]string{"engine", "max", "send"}, ofCaughtCalls, ofWaits)

// ofProcesses are the settings that an endpoint does not take.
var ofProcesses = slices.Concat([]string{"engine", "interval", "min_interval", "max_interval", "tune", "max_overhead", "max", "send"}, ofCaughtCalls, ofWaits)

// ofCaughtCalls are the settings of calls that breakpoints catch.
var ofCaughtCalls = []string{"hits", "value_hash", "janitor", "dump_values"}

// ofWaits are the settings of what goroutines wait for.
var ofWaits = []string{"waits", "idle", "under"}

// check finds values that do not go together, of all but targets.
func (d *document) check(c *Config) {
	d.checkListen(c.Listen)
	d.checkHub(c.Hub, c.Store)
	d.checkSettings("defaults", c.Defaults)
	if n := len(c.Targets); n > c.Budget.Targets {
		d.fail("budget.targets", "%d is less than the file has [[target]]: %d", c.Budget.Targets, n)
	}
}

// names says where the names of targets are taken, and by wholeHost where the whole host is.
type names map[string]place

const wholeHost = "\x00host" // no name of a target

// place is a table of a file.
type place struct {
	in   *document
	path string
}

// seenFrom names the place for an error of a file.
func (p place) seenFrom(d *document) string {
	if p.in == d {
		return p.path
	}
	return p.path + " of " + p.in.name
}

// checkTargets finds values of targets that do not go together, within the file and with those of files before.
func (d *document) checkTargets(own []Target, taken names) {
	for i, t := range own {
		path := element("target", i)
		d.checkTarget(path, t)
		if first, is := taken[t.Name]; is && t.Name != "" {
			d.fail(path+".name", "%q is the name of %s, too: each target needs its own", t.Name, first.seenFrom(d))
		}
		taken[t.Name] = place{d, path}
		if !t.Match.Host {
			continue
		}
		if first, is := taken[wholeHost]; is {
			d.fail(path+".match.host", "%s is the whole host already: one target can be", first.seenFrom(d))
		}
		taken[wholeHost] = place{d, path}
	}
}

func (d *document) checkListen(l Listen) {
	if l.WebConfig != "" && l.TCP == "" {
		d.fail("listen.web_config", "is for tcp, which is not given")
	}
	if l.TCP != "" && l.WebConfig == "" && !onLoopback(l.TCP) {
		d.fail("listen.tcp", "%q can be reached from other machines: that needs web_config, with TLS and users; allowed without it: 127.0.0.1, [::1] and localhost", l.TCP)
	}
}

func (d *document) checkHub(h Hub, s Store) {
	switch {
	case h.URL == "":
		if h.TokenFile != "" || h.ReadTokenFile != "" || h.CAFile != "" {
			d.fail("hub.url", "is missing")
		}
	case h.TokenFile == "":
		d.fail("hub.token_file", "is missing: the file with the token that the hub knows")
	case crossesNetwork(h.URL):
		d.fail("hub.url", "the token would cross the network in clear text: use https")
	case !s.Files:
		d.fail("hub.url", "takes files = true in [store]: what waits for the hub is kept there")
	}
}

func (d *document) checkSettings(path string, s Settings) {
	if s.MinInterval > s.Interval {
		d.fail(path+".min_interval", "%v is longer than interval, %v", s.MinInterval, s.Interval)
	}
	if s.MaxInterval > 0 && s.MaxInterval < s.Interval {
		d.fail(path+".max_interval", "%v is shorter than interval, %v", s.MaxInterval, s.Interval)
	}
}

func (d *document) checkTarget(path string, t Target) {
	m := t.Match
	process := m != Match{URL: m.URL, Host: m.Host} // something of a process is given
	switch {
	case m == Match{} && !d.failed(path+".match"):
		d.fail(path+".match", "is missing, or matches on nothing: %s", allowed(path+".match", m.fields()))
	case m.URL != "" && (process || m.Host), m.Host && process:
		d.fail(path+".match", "url and host stand alone: a process is found by the other keys")
	}
	if t.Name == "" {
		d.fail(path+".name", "is missing")
	}
	if t.Auth != (Auth{}) && m.URL == "" {
		d.fail(path+".auth", "is for match.url, which is not given")
	}
	if (t.Auth.User == "") != (t.Auth.PasswordFile == "") {
		d.fail(path+".auth", "user and password_file belong together")
	}
	if t.Auth.BearerFile != "" && t.Auth.User != "" {
		d.fail(path+".auth", "bearer_file and user exclude each other")
	}
	if t.Auth != (Auth{CAFile: t.Auth.CAFile}) && crossesNetwork(m.URL) {
		d.fail(path+".auth", "would cross the network in clear text: use https")
	}
	d.checkSettings(path, t.Settings)
}

// text sets a string that passes a check. The error of the check says what is allowed.
func text(to *string, check func(string) error) func(any) error {
	return func(value any) error {
		s, is := value.(string)
		if !is {
			return errors.New("must be a string, in quotes")
		}
		if len(s) > 4096 {
			return errors.New("is longer than 4096 bytes")
		}
		*to = s
		return check(s)
	}
}

// word sets a value that parse knows by its name. All are those that it may be.
func word[T fmt.Stringer](to *T, parse func(string) (T, error), all ...T) func(any) error {
	return func(value any) error {
		name, is := value.(string)
		v, err := parse(name)
		if !is || err != nil {
			var names []string
			for _, v := range all {
				names = append(names, v.String())
			}
			return fmt.Errorf("must be %s, in quotes", terminal.OrList(names))
		}
		*to = v
		return nil
	}
}

func truth(to *bool) func(any) error {
	return func(value any) error {
		b, is := value.(bool)
		if !is {
			return errors.New("must be true or false")
		}
		*to = b
		return nil
	}
}

// number sets a number from least to most.
func number(to *float64, least, most float64) func(any) error {
	return func(value any) error {
		n, is := value.(float64)
		if i, whole := value.(int64); whole {
			n, is = float64(i), true
		}
		if !is || math.IsNaN(n) || n < least || n > most {
			return fmt.Errorf("must be a number from %v to %v", least, most)
		}
		*to = n
		return nil
	}
}

// whole sets a whole number from least to most.
func whole(to *int, least, most int64) func(any) error {
	return func(value any) error {
		n, is := value.(int64)
		if !is || n < least || n > most {
			return fmt.Errorf("must be a whole number from %d to %d", least, most)
		}
		*to = int(n)
		return nil
	}
}

// duration sets a time from least to most; orNone allows 0, too.
func duration(to *time.Duration, least, most time.Duration, orNone bool) func(any) error {
	return func(value any) error {
		s, is := value.(string)
		t, err := parseDuration(s)
		if !is || err != nil || !(orNone && t == 0) && (t < least || t > most) {
			none := ""
			if orNone {
				none = `, or "0"`
			}
			return fmt.Errorf(`must be a time in quotes from "%s" to "%s"%s`, printDuration(least), printDuration(most), none)
		}
		*to = t
		return nil
	}
}

// parseDuration takes the times of Go, and days: "30d".
func parseDuration(s string) (time.Duration, error) {
	number, isDays := strings.CutSuffix(s, "d")
	if !isDays {
		return time.ParseDuration(s)
	}
	days, err := strconv.ParseUint(number, 10, 16)
	return time.Duration(days) * day, err
}

func printDuration(t time.Duration) string {
	if t > 0 && t%day == 0 {
		return fmt.Sprintf("%dd", t/day)
	}
	s := t.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// size sets an amount of memory of at least that many bytes, or 0.
func size(to *int64, least figure.ByteSize) func(any) error {
	return func(value any) error {
		var b figure.ByteSize
		s, is := value.(string)
		if !is || b.Set(s) != nil || b != 0 && b < least {
			return fmt.Errorf(`must be a size in quotes, such as "64MiB", "1GB" or "500kB": %v at least, or "0" for no limit`, least)
		}
		*to = int64(b)
		return nil
	}
}

func absolute(path string) error {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return errors.New("must be an absolute path")
	}
	return nil
}

// longestSocket is the room of struct sockaddr_un (unix(7)).
const longestSocket = 107

func socketPath(path string) error {
	if len(path) > longestSocket {
		return fmt.Errorf("must have at most %d bytes, because the kernel has room for no more", longestSocket)
	}
	return absolute(path)
}

func oneWord(s string) error {
	if strings.ContainsAny(s, " \t\r\n:\x00") || terminal.Printable(s) != s {
		return errors.New("must be one word")
	}
	return nil
}

// Metrics of a server.
const (
	BasicMetrics = "basic"
	FullMetrics  = "full"
)

func basicOrFull(word string) error {
	if word != BasicMetrics && word != FullMetrics {
		return fmt.Errorf("must be %q or %q", BasicMetrics, FullMetrics)
	}
	return nil
}

func offWaitOrWall(word string) error {
	if words := []string{NoWaits, Wait, Wall}; !slices.Contains(words, word) {
		return fmt.Errorf("must be %s", terminal.OrList(words))
	}
	return nil
}

// functions checks names of functions.
func functions(names string) error {
	if terminal.Printable(names) != names {
		return errors.New("must be names of functions with spaces between, such as \"main.(*Queue).work main.poll\"")
	}
	return nil
}

func offSuggestOrApply(word string) error {
	if words := []string{FeedbackOff, FeedbackSuggest, FeedbackApply}; !slices.Contains(words, word) {
		return fmt.Errorf("must be %s", terminal.OrList(words))
	}
	return nil
}

// methodPattern checks a pattern of methods of JVMs.
func methodPattern(pattern string) error {
	if len(pattern) > 1000 || strings.Count(pattern, "*") > 4 || strings.ContainsAny(pattern, "(/ ") {
		return errors.New(`must be class and method with at most four '*', such as "com.acme.*", without a signature`)
	}
	return nil
}

// knownEngine refuses engine memory, too: it samples waits, and targets are sampled for CPU time.
func knownEngine(name string) error {
	names := engine.Names(append(engine.All(), engine.Endpoint(engine.EndpointOptions{})))
	names = slices.DeleteFunc(names, func(n string) bool { return n == engine.Memory })
	if !slices.Contains(names, name) {
		return fmt.Errorf("must be %s", terminal.OrList(names))
	}
	return nil
}

// nameRule: names of targets are parts of paths, addresses and metrics.
var nameRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func targetName(name string) error {
	if !nameRule.MatchString(name) {
		return errors.New("must have 1 to 63 letters, digits, '.', '_' and '-', and begin with a letter or digit")
	}
	return nil
}

func hostAndPort(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return errors.New(`must be host:port, such as "127.0.0.1:7070"`)
	}
	return nil
}

// onLoopback reports whether only this machine reaches an address. A name other than
// localhost may be any machine.
func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true // it has an error of its own
	}
	return loopback.IsHost(host)
}
