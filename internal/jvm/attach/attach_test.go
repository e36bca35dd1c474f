package attach

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// listenEnv is the path where the test binary listens, in place of tests.
const listenEnv = "CCMAPD_TEST_LISTEN"

func TestMain(m *testing.M) {
	if path := os.Getenv(listenEnv); path != "" {
		l, err := net.Listen("unix", path)
		if err != nil {
			panic(err)
		}
		os.Stdout.WriteString("ready\n")
		io.Copy(io.Discard, os.Stdin)
		l.Close()
		return
	}
	jvmtest.Main(m)
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	if _, err := Open(os.Getpid()); !errors.Is(err, ErrNotJVM) {
		t.Errorf("this test: %v", err)
	}
	const none = 1 << 22 // the largest pid that Linux has, and one more
	if _, err := Open(none); err == nil {
		t.Error("no process: no error")
	}
}

// fakeTarget returns this process as a JVM, whose root is a directory with tmp.
func fakeTarget(t *testing.T) (target *Target, tmp string) {
	t.Helper()
	dir := t.TempDir()
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(root) })
	tmp = filepath.Join(dir, "tmp")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	pid := os.Getpid()
	return &Target{pid: pid, pidfd: -1, root: root, status: status{uid: os.Geteuid(), gid: os.Getegid(), inner: pid}}, tmp
}

// socketPath is where a JVM of this pid has its socket.
func socketPath(tmp string) string { return filepath.Join(tmp, ".java_pid"+strconv.Itoa(os.Getpid())) }

// What is there in place of a socket is not opened, and nothing is written to it.
func TestUnsafeSocket(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(t *testing.T, tmp string){
		"fifo": func(t *testing.T, tmp string) { check(t, unix.Mkfifo(socketPath(tmp), 0o666)) },
		"file": func(t *testing.T, tmp string) { check(t, os.WriteFile(socketPath(tmp), nil, 0o666)) },
		"symbolic link": func(t *testing.T, tmp string) {
			listen(t, filepath.Join(tmp, "real"))
			check(t, os.Symlink("real", socketPath(tmp)))
		},
		"tmp is a symbolic link": func(t *testing.T, tmp string) {
			check(t, os.Rename(tmp, tmp+"2"))
			listen(t, socketPath(tmp+"2"))
			check(t, os.Symlink("tmp2", tmp))
		},
		"nobody listens": func(t *testing.T, tmp string) {
			l := listen(t, socketPath(tmp))
			l.SetUnlinkOnClose(false)
			l.Close()
		},
		"another process": func(t *testing.T, tmp string) { listenElsewhere(t, socketPath(tmp)) },
		"another user": func(t *testing.T, tmp string) {
			if os.Geteuid() != 0 {
				testrun.Lacks(t, "only root gives files away")
			}
			listen(t, socketPath(tmp))
			check(t, os.Lchown(socketPath(tmp), 12345, 12345))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target, tmp := fakeTarget(t)
			put(t, tmp)
			_, err := target.Command(t.Context(), patient, "jcmd")
			if !errors.Is(err, ErrUnsafe) && !errors.Is(err, unix.ELOOP) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A file is readable whatever the umask, new, and gone whatever happens.
func TestWithFile(t *testing.T) {
	t.Parallel()
	target, tmp := fakeTarget(t)
	failed := errors.New("failed")
	err := target.WithFile([]byte("text"), func(path string) error {
		file := filepath.Join(filepath.Dir(tmp), path)
		text, err := os.ReadFile(file)
		check(t, err)
		st, err := os.Lstat(file)
		check(t, err)
		if string(text) != "text" || st.Mode() != fileMode {
			t.Errorf("%s is %v: %q", path, st.Mode(), text)
		}
		return failed
	})
	left, _ := os.ReadDir(tmp)
	if !errors.Is(err, failed) || len(left) > 0 {
		t.Errorf("%v, and %v is left", err, left)
	}
	check(t, os.Rename(tmp, tmp+"2"))
	check(t, os.Symlink("tmp2", tmp))
	if err := target.WithFile(nil, func(string) error { t.Error("it is used"); return nil }); !errors.Is(err, ErrUnsafe) {
		t.Errorf("/tmp is a symbolic link: %v", err)
	}
}

// Only regular files of the target's user are opened, in no other place than their folder.
func TestOpenIn(t *testing.T) {
	t.Parallel()
	target, tmp := fakeTarget(t)
	in := func(name string) string { return filepath.Join(tmp, "of chunks", name) }
	check(t, os.Mkdir(in(""), 0o700))
	check(t, os.WriteFile(in("file"), []byte("text"), 0o600))
	check(t, os.WriteFile(filepath.Join(tmp, "outside"), nil, 0o600))
	check(t, os.Symlink("file", in("link")))
	check(t, os.Symlink("of chunks", filepath.Join(tmp, "linked")))
	check(t, unix.Mkfifo(in("fifo"), 0o600))
	if _, err := target.OpenFolder("/tmp/linked"); err == nil {
		t.Error("a link to a folder is followed")
	}
	folder, err := target.OpenFolder("/tmp/of chunks")
	check(t, err)
	defer folder.Close()
	f, err := target.OpenIn(folder, "file")
	check(t, err)
	defer f.Close()
	if text, err := io.ReadAll(f); string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	for name, uid := range map[string]int{"link": 0, "fifo": 0, "../outside": 0, "none": 0, "file": 1} {
		target.uid = os.Geteuid() + uid
		if f, err := target.OpenIn(folder, name); err == nil {
			f.Close()
			t.Errorf("%s is opened, where the target's user is %d", name, target.uid)
		}
	}
}

// A process that SIGQUIT would kill gets none.
func TestNoHandler(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "600")
	check(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	target, _ := fakeTarget(t)
	target.pid = cmd.Process.Pid
	if _, err := target.Command(t.Context(), patient, "jcmd"); !errors.Is(err, ErrStarting) {
		t.Error(err)
	}
	check(t, cmd.Process.Signal(unix.Signal(0)))
}

// TestWhoMayCommand: a user whom the JVM refuses is told so, and no file is made in its /tmp.
func TestWhoMayCommand(t *testing.T) {
	t.Parallel()
	target, tmp := fakeTarget(t)
	target.uid = 7
	for user, may := range map[int]bool{0: true, 7: true, 8: false} {
		if err := target.mayCommand(user); (err == nil) != may || !may && (!errors.Is(err, ErrOthers) || !errors.Is(err, os.ErrPermission)) {
			t.Errorf("user %d: %v", user, err)
		}
	}
	if files, err := os.ReadDir(tmp); err != nil || len(files) > 0 {
		t.Errorf("files %v, %v", files, err)
	}
}

// TestNotToBeWoken: a process that has become another user's gets no SIGQUIT.
func TestNotToBeWoken(t *testing.T) {
	t.Parallel()
	target, _ := fakeTarget(t)
	target.uid++
	if err := target.quit(); !errors.Is(err, ErrUnsafe) {
		t.Error(err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func listen(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	check(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// listenElsewhere makes another process listen.
func listenElsewhere(t *testing.T, path string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), listenEnv+"="+path)
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	_, err = io.ReadFull(out, make([]byte, len("ready\n")))
	check(t, err)
}

// serve answers each connection by a function.
func serve(t *testing.T, l *net.UnixListener, answer func(io.Writer)) {
	done := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			request := make([]byte, len("1\x00jcmd\x00VM.version\x00\x00\x00"))
			if _, err := io.ReadFull(c, request); err == nil {
				answer(c)
			}
			c.Close()
		}
	}()
}

// An answer is bounded, whatever the JVM does.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(io.Writer)
		want   string
	}{
		"good": {func(w io.Writer) { io.WriteString(w, "0\nok\n") }, ""},
		"byte by byte": {func(w io.Writer) {
			for _, b := range []byte("0\nok\n") {
				w.Write([]byte{b})
			}
		}, ""},
		"nothing": {func(io.Writer) {}, "no status"},
		"garbage": {func(w io.Writer) { io.WriteString(w, "\xff\x00okay") }, "no status"},
		"no":      {func(w io.Writer) { io.WriteString(w, "-1\nbad\n") }, "status -1"},
		"long":    {func(w io.Writer) { io.Copy(w, endless{}) }, "more than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target, tmp := fakeTarget(t)
			serve(t, listen(t, socketPath(tmp)), c.answer)
			answer, err := target.Jcmd(t.Context(), patient, "VM.version")
			switch {
			case c.want == "" && (err != nil || answer != "ok\n"):
				t.Errorf("%q, %v", answer, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%q, %v, want %s", answer, err, c.want)
			}
		})
	}
}

// A JVM that says nothing, or stops in the middle, is given up.
func TestSilence(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"", "0", "0\nok"} {
		target, tmp := fakeTarget(t)
		given := make(chan struct{})
		serve(t, listen(t, socketPath(tmp)), func(w io.Writer) {
			io.WriteString(w, said)
			<-given
		})
		if answer, err := target.Jcmd(t.Context(), 50*time.Millisecond, "VM.version"); !errors.Is(err, ErrSilent) {
			t.Errorf("after %q: %q, %v", said, answer, err)
		}
		close(given)
	}
}

// endless gives zeros for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func TestEncode(t *testing.T) {
	t.Parallel()
	got, err := encode("jcmd", []string{"VM.version"})
	if want := "1\x00jcmd\x00VM.version\x00\x00\x00"; err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if _, err := encode("jcmd", []string{strings.Repeat("x", longestArgument)}); err != nil {
		t.Errorf("the longest: %v", err)
	}
	if _, err := encode("jcmd", []string{strings.Repeat("x", longestArgument+1)}); !errors.Is(err, ErrTooLong) {
		t.Errorf("one byte more: %v", err)
	}
	if _, err := encode("jcmd", []string{"a\x00b"}); err == nil {
		t.Error("NUL: no error")
	}
	if _, err := encode("load", []string{"", "", "", ""}); err == nil {
		t.Error("four arguments: no error")
	}
}

func TestParseStatus(t *testing.T) {
	t.Parallel()
	const text = "Name:\tjava\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nNSpid:\t900\t17\t3\nSigCgt:\t0000000000000004\n"
	if got, want := parseStatus(text, 900), (status{uid: 2, gid: 6, inner: 3, quits: true}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := parseStatus("SigCgt:\t00000000fffffffb\n", 7), (status{uid: -1, gid: -1, inner: 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestFindLibrary(t *testing.T) {
	t.Parallel()
	const jvm = "7f0-7f1 r-xp 0000 08:01 42 /usr/lib/my jvm/a/lib/server/libjvm.so\n"
	got, err := findLibrary(strings.NewReader("7f0-7f1 rw-p 0 00:00 0\n" + jvm))
	if want := (mapped{"/usr/lib/my jvm/a/lib/server/libjvm.so", unix.Mkdev(8, 1), 42}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, maps := range []string{"", "7f0-7f1 r-xp 0 08:01 42 /lib/libc.so.6\n", strings.ReplaceAll(jvm, "libjvm", "libj9vm29")} {
		if got, err := findLibrary(strings.NewReader(maps)); !errors.Is(err, ErrNotJVM) {
			t.Errorf("%q: %+v, %v", maps, got, err)
		}
	}
}

// A text is found wherever reads cut it.
func TestContains(t *testing.T) {
	t.Parallel()
	data := append(bytes.Repeat([]byte("g"), 256<<10-5), tableSymbol...)
	if !contains(bytes.NewReader(data), tableSymbol) || !contains(iotest.OneByteReader(bytes.NewReader(data[250<<10:])), tableSymbol) {
		t.Error("not found")
	}
	if contains(bytes.NewReader(data[:len(data)-1]), tableSymbol) {
		t.Error("found a part")
	}
}

func TestPoll(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := poll(ctx, patient, ErrSilent, func() (bool, error) { return false, nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := poll(t.Context(), time.Nanosecond, ErrSilent, func() (bool, error) { return false, nil }); !errors.Is(err, ErrSilent) {
		t.Errorf("late: %v", err)
	}
}

func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{"0\nok", "-1\nbad", "101\n", "", "\n", "99999999999\n", "0"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		text, err := decode(answer)
		if err == nil && (!bytes.HasSuffix(answer, []byte("\n"+text)) || answer[0] != '0' && answer[0] != '-') {
			t.Errorf("%q became %q", answer, text)
		}
		if err != nil {
			_ = err.Error()
		}
	})
}

func FuzzStatus(f *testing.F) {
	f.Add("Uid:\t1\t2\t3\t4\nNSpid:\t900\t17\nSigCgt:\t4\n", "7f0-7f1 r-xp 0 08:01 42 /a/libjvm.so\n")
	f.Add("NSpid:\tS00\t17\nSigCgt:\t\n", "7f0-7f1 r-xp 0 08:01 42 /a/libjvm.so/\n")
	f.Fuzz(func(t *testing.T, status, maps string) {
		parseStatus(status, 1)
		if where, err := findLibrary(strings.NewReader(maps)); err == nil && !strings.HasSuffix(where.path, "/"+library) {
			t.Errorf("%+v", where)
		}
	})
}
