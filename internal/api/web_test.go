package api

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority signs the certificates of a test, in a folder of its own.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.issue(t, "ca", 1, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue writes NAME.pem and NAME.key.
func (a *authority) issue(t *testing.T, name string, serial int64, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(serial), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, name+".pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	a.write(t, name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}

// write puts a file into its place at once, as an administrator should.
func (a *authority) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// server writes a certificate for a server.
func (a *authority) server(t *testing.T, serial int64) {
	t.Helper()
	a.issue(t, "server", serial, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
}

// trusting returns a client that trusts the authority.
func (a *authority) trusting(certificates ...tls.Certificate) *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certificates}}}
}

// Web configurations. The passwords are "secret" and "changed".
const (
	withTLS      = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
	withUser     = "basic_auth_users:\n  reader: $2y$04$ccmapdccmapdccmapdccmOTh/z5vsOl8Du6AUgrDCm7j7VGMxyBbS\n"
	withChanged  = "basic_auth_users:\n  reader: $2y$04$ccmapdccmapdccmapdccmO1wwlmsiA9VbA.EEDSXMeJC/UcsSkVgi\n"
	withClientCA = "  client_ca_file: ca.pem\n  client_auth_type: RequireAndVerifyClientCert\n"
)

// secured serves with a web configuration until the test ends.
func secured(t *testing.T, a *authority, text string) (s *Server, address string) {
	t.Helper()
	a.server(t, 2)
	s = newServer(t, newFake(), Options{TCP: "127.0.0.1:0", WebConfig: a.write(t, "web.yml", text)})
	listenAndServe(t, s)
	return s, s.Addr().String()
}

// getAs asks for a URL as a user, whom user:password names.
func getAs(t *testing.T, c *http.Client, url, credentials string) (status int, body string, answer *http.Response) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if user, password, ok := strings.Cut(credentials, ":"); ok {
		r.SetBasicAuth(user, password)
	}
	answer, err = c.Do(r)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text), answer
}

// TestWebConfig: over TLS, users read with their password, and others nothing.
func TestWebConfig(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	s, address := secured(t, a, withTLS+withUser)
	for _, test := range []struct {
		name, url, credentials string
		client                 *http.Client
		status                 int
		contains               string
	}{
		{"user", "https://", "reader:secret", a.trusting(), 200, `"user": "reader"`},
		{"wrong password", "https://", "reader:wrong", a.trusting(), 401, "Unauthorized"},
		{"unknown user", "https://", "root:secret", a.trusting(), 401, "Unauthorized"},
		{"anonymous", "https://", "", a.trusting(), 401, "Unauthorized"},
		{"unknown authority", "https://", "reader:secret", http.DefaultClient, 0, "certificate signed by unknown authority"},
		{"no TLS", "http://", "reader:secret", http.DefaultClient, 400, "HTTP request to an HTTPS server"},
	} {
		status, body, answer := getAs(t, test.client, test.url+address+"/v1/info", test.credentials)
		if status != test.status || !strings.Contains(body, test.contains) {
			t.Errorf("%s: %d %s", test.name, status, body)
		}
		if status == 200 && (answer.ProtoMajor != 1 || answer.TLS.Version != tls.VersionTLS13) {
			t.Errorf("%s: %s over TLS %x", test.name, answer.Proto, answer.TLS.Version)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/v1/reload", nil)
	r.SetBasicAuth("reader", "secret")
	w := httptest.NewRecorder()
	s.gate.ServeHTTP(w, r)
	if w.Code != 403 {
		t.Errorf("a user reloads: %d %s", w.Code, w.Body)
	}
}

// TestClientReadsByTLS: a reading command trusts the system's authorities, and shows the password
// of its URL.
func TestClientReadsByTLS(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := newAuthority(t)
	_, address := secured(t, a, withTLS+withUser)
	for _, test := range []struct{ credentials, trusted, want string }{
		{"reader:secret@", filepath.Join(a.dir, "ca.pem"), "2001 samples\n"},
		{"reader:wrong@", filepath.Join(a.dir, "ca.pem"), "the server answers 401 Unauthorized\n"},
		{"", filepath.Join(a.dir, "ca.pem"), "the server answers 401 Unauthorized\n"},
		{"reader:secret@", filepath.Join(a.dir, "none.pem"), "certificate signed by unknown authority\n"},
	} {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), readAs+"=https://"+test.credentials+address+"/v1/p/live:web/map", "SSL_CERT_DIR="+t.TempDir(), "SSL_CERT_FILE="+test.trusted)
		out, err := cmd.Output()
		if err != nil || !strings.HasSuffix(string(out), test.want) || strings.Contains(string(out), "secret") {
			t.Errorf("%+v: %v: %s", test, err, out)
		}
	}
}

// TestWebConfigIsReadAgain: a new certificate and a new password hold at once. Beyond loopback a
// file that has lost its users lets nobody in.
func TestWebConfigIsReadAgain(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	s, address := secured(t, a, withTLS+withUser)
	s.gate.exposed = true
	ask := func(credentials string) (int, int64) {
		status, _, answer := getAs(t, a.trusting(), "https://"+address+"/v1/info", credentials)
		if answer == nil {
			return 0, 0
		}
		return status, answer.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	for _, step := range []struct {
		name, text, credentials string
		serial                  int64
		status                  int
	}{
		{"as at first", withTLS + withUser, "reader:secret", 2, 200},
		{"another certificate", withTLS + withUser, "reader:secret", 3, 200},
		{"another password", withTLS + withChanged, "reader:changed", 3, 200},
		{"the old password", withTLS + withChanged, "reader:secret", 3, 401},
		{"no users, a password", withTLS, "reader:secret", 3, 403},
		{"no users", withTLS, "", 3, 403},
		{"broken", "tls_server_config: [", "reader:secret", 0, 0},
		{"mended", withTLS + withUser, "reader:secret", 3, 200},
	} {
		if step.serial == 3 {
			a.server(t, 3)
		}
		a.write(t, "web.yml", step.text)
		if status, serial := ask(step.credentials); status != step.status || serial != step.serial {
			t.Errorf("%s: status %d by certificate %d, want %d by %d", step.name, status, serial, step.status, step.serial)
		}
	}
}

// TestWebConfigIsWatched: once others may write a file of the configuration, no client is let in.
func TestWebConfigIsWatched(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	_, address := secured(t, a, withTLS+withUser)
	for _, name := range []string{"web.yml", "server.pem", "server.key"} {
		for mode, want := range map[os.FileMode]int{0o666: 403, 0o600: 200} {
			if err := os.Chmod(filepath.Join(a.dir, name), mode); err != nil {
				t.Fatal(err)
			}
			if status, body, _ := getAs(t, a.trusting(), "https://"+address+"/v1/info", "reader:secret"); status != want {
				t.Errorf("%s, mode %o: %d %s", name, mode, status, body)
			}
			if err := os.Chmod(filepath.Join(a.dir, name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestClientCertificates: beyond loopback, a certificate of the client may stand for a password.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	s, address := secured(t, a, withTLS+withClientCA)
	s.gate.exposed = true
	if status, body, _ := getAs(t, a.trusting(), "https://"+address+"/v1/info", ""); status != 0 {
		t.Errorf("without one: %d %s", status, body)
	}
	a.issue(t, "robot", 4, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	mine, err := tls.LoadX509KeyPair(filepath.Join(a.dir, "robot.pem"), filepath.Join(a.dir, "robot.key"))
	if err != nil {
		t.Fatal(err)
	}
	if status, body, _ := getAs(t, a.trusting(mine), "https://"+address+"/v1/info", ""); status != 200 || !strings.Contains(body, `"user": "robot"`) {
		t.Errorf("with one: %d %s", status, body)
	}
}

// TestGuessesAreBounded: so many passwords are checked, and a user whose password is known to
// be right goes on.
func TestGuessesAreBounded(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	s, _ := secured(t, a, withTLS+withUser)
	now := time.Now()
	s.gate.now = func() time.Time { return now }
	ask := func(password string) int {
		r := httptest.NewRequest(http.MethodGet, "/v1/info", nil)
		r.SetBasicAuth("reader", password)
		w := httptest.NewRecorder()
		s.gate.ServeHTTP(w, r)
		return w.Code
	}
	counts := map[int]int{}
	counts[ask("secret")]++
	for i := range 1000 {
		counts[ask(fmt.Sprint("guess", i))]++
	}
	counts[ask("secret")]++
	if got, want := fmt.Sprint(counts), fmt.Sprint(map[int]int{200: 2, 401: mostTries - 1, 503: 1001 - mostTries}); got != want {
		t.Errorf("answers %s, want %s", got, want)
	}
	now = now.Add(time.Second)
	if first, rest := ask("later"), []int{ask("x"), ask("y")}; first != 401 || rest[triesPerSecond-1] != 503 {
		t.Errorf("after a second: %d %v", first, rest)
	}
}

// TestWebConfigRefusals: a configuration that would let others in is refused before anything
// listens.
func TestWebConfigRefusals(t *testing.T) {
	t.Parallel()
	const all, loopback = "0.0.0.0:0", "127.0.0.1:0"
	for _, test := range []struct {
		name, address, text string
		open                string // a file that others may write
		want                string
	}{
		{"whole", all, withTLS + withUser, "", ""},
		{"certificates of clients", all, withTLS + withClientCA, "", ""},
		{"users on loopback", loopback, withUser, "", ""},
		{"no TLS", all, withUser, "", "has no tls_server_config"},
		{"no users", all, withTLS, "", "has no basic_auth_users"},
		{"certificates of clients if they like", all, withTLS + strings.Replace(withClientCA, "RequireAndVerifyClientCert", "VerifyClientCertIfGiven", 1), "", "has no basic_auth_users"},
		{"others write the file", loopback, withTLS + withUser, "web.yml", "others than root and this user can change it"},
		{"others write the key", all, withTLS + withUser, "server.key", "others than root and this user can change it"},
		{"others write the certificate", all, withTLS + withUser, "server.pem", "others than root and this user can change it"},
		{"others write the authority", all, withTLS + withClientCA, "ca.pem", "others than root and this user can change it"},
		{"no certificate", all, strings.Replace(withTLS, "server.pem", "none.pem", 1) + withUser, "", "no such file"},
		{"unknown key", all, withTLS + withUser + "users: {}\n", "", "field users not found"},
		{"no hash", loopback, "basic_auth_users:\n  reader: secret\n", "", "hashedSecret too short"},
		{"not YAML", loopback, "\x00", "", "control characters are not allowed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := newAuthority(t)
			a.server(t, 2)
			file := a.write(t, "web.yml", test.text)
			if test.open != "" {
				if err := os.Chmod(filepath.Join(a.dir, test.open), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			_, err := New(Options{Daemon: newFake(), TCP: test.address, WebConfig: file})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
