package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/contribution"
	"github.com/ccmapd/ccmapd/internal/fleet"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// asHub has the test's program be the hub.
const asHub = "CCMAPD_TEST_AS_HUB"

func TestMain(m *testing.M) {
	if os.Getenv(asHub) != "" {
		main()
	}
	if os.Getenv(asFastHub) != "" {
		os.Exit(fastHub())
	}
	code := testrun.Guard(m).Run()
	os.RemoveAll(programs)
	os.Exit(code)
}

// process is a hub that runs as a process, over a directory, with TLS.
type process struct {
	*exec.Cmd
	url string
}

// place has the files of hubs.
type place struct {
	dir    string
	client *http.Client
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{dir: t.TempDir()}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	p.write(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	p.write(t, "tokens", fmt.Sprintf("write %x * *\nread %x - *\n", sha256.Sum256([]byte("writer")), sha256.Sum256([]byte("reader"))))
	p.write(t, "reader", "reader\n")
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	p.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}, Timeout: time.Minute}
	return p
}

func (p *place) file(name string) string { return filepath.Join(p.dir, name) }

func (p *place) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(p.file(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start starts a hub, and returns when it listens.
func (p *place) start(t *testing.T) *process {
	t.Helper()
	return p.startBy(t, p.file("bucket"))
}

// startBy starts a hub over a directory by the command before its own.
func (p *place) startBy(t *testing.T, dir string, before ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(before, self, "--dir", dir, "--tokens", p.file("tokens"), "--listen", "127.0.0.1:0",
		"--tls-cert", p.file("cert.pem"), "--tls-key", p.file("key.pem"), "--window", "1ms", "--round", "20ms")
	c := exec.CommandContext(t.Context(), args[0], args[1:]...)
	c.Env = append(os.Environ(), asHub+"=1")
	c.Stderr = t.Output()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(c) }) // before its folder is removed
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the hub has not started: %v", err)
	}
	fields := strings.Fields(line)
	return &process{c, "https://" + fields[len(fields)-1]}
}

// contributionOf returns a contribution of samples in methods, as bytes, and its profile.
func contributionOf(t *testing.T, target, build string, instance, seq int, methods ...string) ([]byte, *ccmap.Snapshot) {
	t.Helper()
	m := ccmap.New(ccmap.Options{})
	for _, name := range methods {
		id := m.Names().Intern(ccmap.Method{Name: name, File: "main.go", StartLine: 1})
		main := m.Names().Intern(ccmap.Method{Name: "main.main", File: "main.go", StartLine: 9})
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: id}, {Method: main}}, Weight: 1e7, Fresh: ccmap.FreshUnknown})
	}
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if err := export.Write(z, export.JSON, m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	frame, err := contribution.Append(nil, contribution.Key{
		Target: target, Build: build, Kind: "cpu", Base: "nanoseconds", Instance: fmt.Sprintf("%032x", instance), Epoch: 1,
		Seq: uint64(seq), From: time.Now().Add(-time.Minute), To: time.Now(), CPUs: 1,
	}, b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return frame, m.Snapshot()
}

// post sends a contribution, and reports whether the hub has acknowledged it.
func (p *place) post(url string, body []byte) bool {
	status, err := p.send(url, body)
	return err == nil && status == http.StatusNoContent
}

// status sends a contribution to a hub that lives, and returns the status of the answer.
func (p *place) status(t *testing.T, url string, body []byte) int {
	t.Helper()
	status, err := p.send(url, body)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func (p *place) send(url string, body []byte) (status int, err error) {
	r, err := http.NewRequest("POST", url+"/v1/contributions", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer writer")
	answer, err := p.client.Do(r)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// get returns an answer for readers.
func (p *place) get(t *testing.T, url string) []byte {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer reader")
	answer, err := p.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// await waits until the sums have so many contributions.
func (p *place) await(t *testing.T, url string, n int) {
	t.Helper()
	for t.Context().Err() == nil {
		var list []fleet.Build
		if err := json.Unmarshal(p.get(t, url+"/v1/builds"), &list); err != nil {
			t.Fatal(err)
		}
		got := uint64(0)
		for _, b := range list {
			got += b.Contributions
		}
		if got == uint64(n) {
			return
		}
		if got > uint64(n) {
			t.Fatalf("%d contributions are in the sums, of %d", got, n)
		}
		time.Sleep(50 * time.Millisecond) // until it has merged
	}
}

// TestKilledProcesses kills hubs, two at a time over one directory, while daemons send. What was acknowledged is in the
// sum, and counts once: the sum is the offline merge.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	const lives, each, senders = 5, 12, 4
	p := newPlace(t)
	var mu sync.Mutex
	want := ccmap.New(ccmap.Options{})
	hubs := []*process{p.start(t), p.start(t)}
	seq := make([]int, senders)
	for life := range lives {
		var acked atomic.Int32
		var all sync.WaitGroup
		for s := range senders {
			all.Go(func() {
				for range each {
					seq[s]++
					body, profile := contributionOf(t, "web", "1f0c", s, seq[s], "main.a", fmt.Sprintf("main.f%d", (seq[s]*7+s)%9))
					mu.Lock()
					if err := want.Merge(profile); err != nil {
						t.Error(err)
					}
					mu.Unlock()
					for try := 0; t.Context().Err() == nil; try++ {
						mu.Lock()
						url := hubs[(s+try)%2].url
						mu.Unlock()
						if p.post(url, body) {
							break
						}
					}
					if acked.Add(1) == int32(1+life*7) {
						mu.Lock()
						hubs[life%2].Process.Kill()
						hubs[life%2].Wait()
						hubs[life%2] = p.start(t)
						mu.Unlock()
					}
				}
			})
		}
		all.Wait()
	}
	p.await(t, hubs[0].url, lives*each*senders)
	if got, wanted := p.sum(t, hubs[1].url), textOf(t, want); got != wanted {
		t.Errorf("after %d kills the sum has %d bytes, the offline merge %d, and they differ", lives, len(got), len(wanted))
	}
}

// TestFleetCommands has ccmapd ask a hub.
func TestFleetCommands(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ccmapd := daemonProgram(t)
	hub := p.start(t)
	sent := 0
	send := func(target, build string, instance int, methods ...string) {
		sent++
		body, _ := contributionOf(t, target, build, instance, 1, methods...)
		if !p.post(hub.url, body) {
			t.Fatal("a contribution is refused")
		}
	}
	send("web", "1f0c7d2e", 1, "main.old")
	p.await(t, hub.url, sent)
	send("web", "1f0d0000", 2, "main.hot", "main.hot", "main.cold")
	send("web", "1f0d0000", 3, "main.hot", "main.cold")
	send("batch", "22", 4, "main.batch")
	p.await(t, hub.url, sent)
	with := []string{"CCMAPD_HUB=" + hub.url, "CCMAPD_HUB_TOKEN_FILE=" + p.file("reader"), "CCMAPD_HUB_CA_FILE=" + p.file("cert.pem"), "HOME=" + p.dir}
	p.write(t, "writer", "writer")
	p.write(t, "none", "nobody")
	p.write(t, "empty", "")
	if err := os.MkdirAll(p.file(".config/ccmapd"), 0o700); err != nil {
		t.Fatal(err)
	}
	p.write(t, ".config/ccmapd/hub.toml", fmt.Sprintf("url = %q\ntoken_file = %q\nca_file = %q\n", hub.url, p.file("reader"), p.file("cert.pem")))
	for _, test := range []struct {
		args string
		env  []string
		code int
		want []string // in the output, or the error
	}{
		{"fleet targets", with, 0, []string{"target  builds  instances  samples  outliers", "batch        1", "web          2          2        6"}},
		{"fleet builds web", with, 0, []string{"1f0c7d2e", "1f0d0000", "cpu"}},
		{"fleet builds web --json", with, 0, []string{`"build": "1f0d0000"`, `"unit": "cpu/nanoseconds"`}},
		{"fleet show web", with, 0, []string{"web@1f0d0000, cpu: 5 samples of 2 instances", "A new instance would be known to", "hour"}},
		{"fleet show web@1f0c --json", with, 0, []string{`"build": "1f0c7d2e"`, `"class_list"`}},
		{"fleet classes web", with, 0, []string{"class  instances  samples", "0          2        5"}},
		{"fleet outliers", with, 0, []string{"No instance differs"}},
		{"top @hub/best:web", with, 0, []string{"main.hot", "main.cold"}},
		{"top @hub/best:web@1f0c", with, 0, []string{"main.old"}},
		{"top @hub/best:web@1f0c", []string{"HOME=" + p.dir}, 0, []string{"main.old"}}, // by the file
		{"fleet targets --hub " + hub.url + " --token-file " + p.file("reader") + " --ca-file " + p.file("cert.pem"), []string{"HOME=/"}, 0, []string{"batch"}},
		{"convert @hub/period:web@" + time.Now().UTC().Format("2006-01-02") + " - --to folded", with, 0, []string{"main.main+0;main.hot"}},

		{"fanin @hub/build:web hot", with, 0, []string{"main.hot is called from 1 place, in 3 samples", "main.main"}},
		{"fanin @hub/build:web@1f0c --json", with, 0, []string{`"method": "main.old"`, `"samples": 1`}},
		{"contexts @hub/best:batch main.batch --shared @hub/build:batch", with, 0, []string{"main.batch"}},

		{"fanin @hub/build:web missing", with, 1, []string{`"missing"`}},
		{"fanin @hub/build:none", with, 4, []string{`no profile of "none"`}},
		{"fanin @hub/build:web", append(with[:3:3], "CCMAPD_HUB_TOKEN_FILE="+p.file("writer")), 3, []string{"another right"}},
		{"top @hub/best:wep", with, 4, []string{`no profile of "wep"`, "Perhaps batch, web."}},
		{"top @hub/best:web@1f", with, 2, []string{"may be 2 builds", "Perhaps 1f0d0000, 1f0c7d2e."}},
		{"top @hub/newest:web", with, 2, []string{"names no profile of a hub", "KIND:NAME"}},
		{"fleet show web@3", with, 4, []string{"has no build 3", "ccmapd fleet builds"}},
		{"fleet show none", with, 4, []string{`no profile of "none"`}},
		{"top @hub/best:web", []string{"HOME=/"}, 2, []string{"no hub is known", "CCMAPD_HUB"}},
		{"fleet targets", []string{"HOME=/", "CCMAPD_HUB=http://hub.example.com"}, 2, []string{"in clear text"}},
		{"fleet targets", []string{"HOME=/", "CCMAPD_HUB=hub"}, 2, []string{"is no URL of a hub"}},
		{"fleet targets", append(with[:3:3], "CCMAPD_HUB_TOKEN_FILE="+p.file("missing")), 3, []string{"read token of the hub", "CCMAPD_HUB_TOKEN_FILE"}},
		{"fleet targets", append(with[:3:3], "CCMAPD_HUB_TOKEN_FILE="+p.file("empty")), 2, []string{"has no token"}},
		{"fleet targets", append(with[:3:3], "CCMAPD_HUB_TOKEN_FILE="+p.file("writer")), 3, []string{"403", "another right", "a token that reads"}},
		{"fleet targets", append(with[:3:3], "CCMAPD_HUB_TOKEN_FILE="+p.file("none")), 3, []string{"401", "no known token"}},
		{"fleet targets", append(with[:2:2], "HOME=/"), 1, []string{"certificate"}},
	} {
		c := exec.Command(ccmapd, strings.Fields(test.args)...)
		c.Env = append(append(os.Environ(), "HOME=/", "XDG_CONFIG_HOME="), test.env...)
		out, _ := c.CombinedOutput()
		if code := c.ProcessState.ExitCode(); code != test.code {
			t.Errorf("ccmapd %s exits with %d, want %d: %s", test.args, code, test.code, out)
		}
		for _, want := range test.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("ccmapd %s prints no %q: %s", test.args, want, out)
			}
		}
	}
}
