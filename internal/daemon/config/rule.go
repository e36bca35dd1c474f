package config

import (
	"errors"
	"fmt"
	"net/url"
	"os/user"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/internal/loopback"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// Match is the rule of a target. Everything that is given must hold; the zero value of a
// field is not given.
type Match struct {
	Exe     string // glob of the executable's path; without '/' of its base name
	Cmdline string // RE2, found in the arguments with a space between two
	User    string // name or number of the owner
	Cgroup  string // glob of the path of a cgroup that the process is in, at any depth
	Unit    string // glob of the systemd unit
	PID     int
	URL     string // a pprof endpoint or a program that hosts VMs, in place of a process
	Host    bool   // all processes of this machine, as one target
}

// String describes the rule in one line.
func (m Match) String() string {
	var parts []string
	for _, p := range []struct{ key, value string }{
		{"exe", m.Exe}, {"cmdline", m.Cmdline}, {"user", m.User}, {"cgroup", m.Cgroup}, {"unit", m.Unit}, {"url", m.URL},
	} {
		if p.value != "" {
			parts = append(parts, p.key+" "+terminal.Printable(p.value))
		}
	}
	if m.PID != 0 {
		parts = append(parts, fmt.Sprintf("pid %d", m.PID))
	}
	if m.Host {
		parts = append(parts, "the whole host")
	}
	return strings.Join(parts, ", ")
}

// Rule is a compiled Match. Any goroutine may use it.
type Rule struct {
	match   Match
	cmdline *regexp.Regexp // nil: any
	uid     int            // -1: any
}

// Rule compiles the rule. It looks the user up.
func (m Match) Rule() (Rule, error) {
	r := Rule{match: m, uid: -1}
	for _, pattern := range []string{m.Exe, m.Cgroup, m.Unit} {
		if err := glob(pattern); err != nil {
			return Rule{}, err
		}
	}
	var err error
	if m.Cmdline != "" {
		if r.cmdline, err = regexp.Compile(m.Cmdline); err != nil {
			return Rule{}, expression(m.Cmdline)
		}
	}
	if m.User != "" {
		if r.uid, err = uidOf(m.User); err != nil {
			return Rule{}, err
		}
	}
	return r, nil
}

// Matches reports whether all that the rule gives holds of a process. A rule of an
// endpoint or of the whole host fits no process.
func (r Rule) Matches(p process.Facts) bool {
	m := r.match
	return m != Match{} && m.URL == "" && !m.Host &&
		(m.PID == 0 || m.PID == p.PID) &&
		(r.uid < 0 || r.uid == p.UID) &&
		(m.Exe == "" || matchesFile(m.Exe, p.Executable)) &&
		(r.cmdline == nil || r.cmdline.MatchString(strings.Join(p.CommandLine, " "))) &&
		(m.Unit == "" || matches(m.Unit, p.Unit)) &&
		(m.Cgroup == "" || matchesParent(m.Cgroup, p.Cgroup))
}

// MayMatch reports whether the rule may fit a process whose executable this user may not see: its name
// stands in for the base name of the executable.
func (r Rule) MayMatch(p process.Facts) bool {
	const longestName = 15 // TASK_COMM_LEN of the kernel, without the zero byte
	base := path.Base(r.match.Exe)
	if r.match.Exe == "" || p.Executable != "" || !matches(base, p.Name) && (len(p.Name) < longestName || !strings.HasPrefix(base, p.Name)) {
		return false
	}
	r.match.Exe = "*"
	p.Executable = p.Name
	return r.Matches(p)
}

func matches(pattern, name string) bool {
	ok, _ := path.Match(pattern, name) // the pattern was checked
	return ok
}

// matchesFile holds a pattern without a slash against the base name.
func matchesFile(pattern, file string) bool {
	if !strings.Contains(pattern, "/") {
		file = path.Base(file)
	}
	return matches(pattern, file)
}

// matchesParent reports whether a pattern fits a path or a directory above it.
func matchesParent(pattern, dir string) bool {
	for ; dir != "" && dir != "."; dir = path.Dir(dir) {
		if matches(pattern, dir) {
			return true
		}
		if dir == "/" {
			return false
		}
	}
	return false
}

func glob(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return errors.New("must be a glob: '*', '?' and '[a-z]' stand for characters but '/', '\\' takes the next one as it is")
	}
	return nil
}

func expression(pattern string) error {
	if _, err := regexp.Compile(pattern); err != nil {
		return fmt.Errorf("must be a regular expression (RE2): %s",
			terminal.Printable(strings.TrimPrefix(err.Error(), "error parsing regexp: ")))
	}
	return nil
}

func knownUser(name string) error {
	_, err := uidOf(name)
	return err
}

// uidOf returns the number of a user. Users of a directory service, which a static binary
// cannot ask, are given by number.
func uidOf(name string) (int, error) {
	if uid, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(uid), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return -1, fmt.Errorf("there is no user %q here: give a name of /etc/passwd, or a number", name)
	}
	return strconv.Atoi(u.Uid)
}

func endpoint(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New(`must be an address such as "http://127.0.0.1:6060/debug/pprof"`)
	case u.User != nil:
		return errors.New("must not have a user or password: they belong in auth")
	case u.RawQuery != "":
		return errors.New("must not have a query: it is the address of the endpoint alone")
	}
	return nil
}

func hubAddress(address string) error {
	if endpoint(address) != nil {
		return errors.New(`must be an address such as "https://hub.example:7800", without user or query`)
	}
	return nil
}

// crossesNetwork reports whether others can read requests to an address.
func crossesNetwork(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "http" && !loopback.IsHost(u.Hostname())
}
