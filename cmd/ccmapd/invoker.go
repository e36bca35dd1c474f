package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/store"
)

// invoker is the caller of sudo. Root must not do in the directories of another user what the kernel would
// refuse that user: a link of theirs may lead anywhere. So another process does it, ccmapd again, which is that user's
// in all respects: the kernel decides what it may read and write, and to whom the files belong.
type invoker struct {
	uid, gid uint32
	groups   []uint32
	home     string
}

// invokedBy returns the caller of sudo, nil if this process was not called by it.
func invokedBy(euid int, getenv func(string) string) (*invoker, error) {
	id := getenv("SUDO_UID")
	if euid != 0 || id == "" || id == "0" {
		return nil, nil
	}
	u, err := user.LookupId(id)
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		return nil, withHint(fmt.Errorf("user %q, who called sudo, has no home that is known: %w", id, homeError(err)),
			"Without --%s nothing is stored.", storeFlag)
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of user %s: %w", id, err)
	}
	who := &invoker{home: u.HomeDir}
	ids := append([]string{u.Uid, u.Gid}, groups...)
	for i, text := range ids {
		n, err := strconv.ParseUint(text, 10, 32)
		switch {
		case err != nil:
			return nil, fmt.Errorf("user %s: %w", id, err)
		case i == 0:
			who.uid = uint32(n)
		case i == 1:
			who.gid = uint32(n)
		default:
			who.groups = append(who.groups, uint32(n))
		}
	}
	if who.uid == 0 {
		return nil, nil
	}
	return who, nil
}

// homeError says why a home cannot be used: err, or else its path.
func homeError(err error) error {
	if err == nil {
		return errors.New("it is no absolute path")
	}
	return err
}

// becoming returns the use of capabilities that acting for the caller of sudo takes.
func becoming() privilege.Use {
	if who, err := invokedBy(os.Geteuid(), os.Getenv); err != nil || who == nil {
		return 0
	}
	return privilege.Becoming
}

// ownProfiles returns the store of this user, or of the one who has called sudo.
func (env *environment) ownProfiles(log *slog.Logger) (profiles, error) {
	who, err := invokedBy(os.Geteuid(), os.Getenv)
	switch {
	case err != nil:
		return nil, err
	case who == nil:
		return ownStore{defaultStore(os.Geteuid(), os.Getenv), log}, nil
	}
	return invokersStore{who, defaultStore(int(who.uid), who.getenv)}, nil
}

// getenv is the environment of the invoker as far as it is known: of root's, what names a store.
func (who *invoker) getenv(name string) string {
	switch name {
	case storeVariable:
		return os.Getenv(name)
	case "HOME":
		return who.home
	}
	return ""
}

// invokersStore is the store of the caller of sudo.
type invokersStore struct {
	who *invoker
	at  string
}

func (s invokersStore) dir() string { return s.at }

func (s invokersStore) past(k store.Key) (store.Past, error) {
	if _, err := os.Lstat(s.at); err != nil || k.Build == "" {
		return store.Past{}, nil // the answer of most users takes no process
	}
	text, err := s.who.run(nil, "store", "list", "--json", "--dir", s.at,
		"--target", k.Target, "--build", store.BuildName(k.Build), "--event", store.Event(k.Unit))
	if err != nil {
		return store.Past{}, err
	}
	var list storeList
	if err := json.Unmarshal(text, &list); err != nil {
		return store.Past{}, fmt.Errorf("read list of %s: %w", s.at, err)
	}
	var entries []store.Entry
	for _, e := range list.Entries {
		if e.Kind != string(store.KindBest) && e.Kind != string(store.KindRunning) {
			entries = append(entries, store.Entry{Kind: store.KindPeriod, From: e.From, To: e.To, Interval: e.Interval})
		}
	}
	return store.PastOf(entries), nil
}

func (s invokersStore) add(k store.Key, _, _ time.Time, whole *ccmap.Snapshot) error {
	var b bytes.Buffer
	if err := export.Write(&b, export.JSON, whole); err != nil {
		return err
	}
	_, err := s.who.run(&b, "store", "add", "--dir", s.at, "--target", k.Target, stdPath)
	return err
}

// mismatches keeps none: a module needs no rights of root's.
func (invokersStore) mismatches(store.Key) (io.Reader, io.Writer) { return nil, nil }

// run runs ccmapd as the invoker, with nothing of root's but an open standard input, and returns its output.
func (who *invoker) run(stdin *bytes.Buffer, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.Dir, cmd.Env = "/", []string{"HOME=" + who.home, "PATH=/usr/bin:/bin"}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if stdin != nil {
		cmd.Stdin = stdin
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: who.uid, Gid: who.gid, Groups: who.groups}}
	err := cmd.Run()
	switch {
	case errors.As(err, new(*exec.ExitError)):
		text := strings.TrimPrefix(strings.TrimSpace(stderr.String()), "ccmapd: ")
		return nil, fmt.Errorf("as user %d, who called sudo: %s", who.uid, text)
	case errors.Is(err, fs.ErrPermission):
		return nil, withHint(fmt.Errorf("user %d, who called sudo, may not execute ccmapd: %w", who.uid, err),
			"Without --%s nothing is stored.", storeFlag)
	case err != nil:
		return nil, fmt.Errorf("run ccmapd as user %d, who called sudo: %w", who.uid, err)
	}
	return stdout.Bytes(), nil
}
