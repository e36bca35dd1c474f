package served

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
)

// mostCredentials bounds a file, bytes.
const mostCredentials = 16 << 10

// Credentials name the file with the secret that a server asks for. It is read at each request, so
// that it can be renewed. At most one file is named.
type Credentials struct {
	BearerFile   string // a token
	BasicFile    string // user:password
	PasswordFile string // the password of User
	User         string

	// Private refuses a file that every user of this machine may read or change.
	Private bool
}

// given reports whether there is a secret.
func (c Credentials) given() bool { return c.files() > 0 }

func (c Credentials) files() (n int) {
	for _, file := range []string{c.BearerFile, c.BasicFile, c.PasswordFile} {
		if file != "" {
			n++
		}
	}
	return n
}

// add adds the credentials to a request.
func (c Credentials) add(r *http.Request) error {
	switch {
	case c.BearerFile != "":
		token, err := c.read(c.BearerFile)
		if err != nil {
			return fmt.Errorf("read token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
	case c.PasswordFile != "":
		password, err := c.read(c.PasswordFile)
		if err != nil {
			return fmt.Errorf("read password: %w", err)
		}
		r.SetBasicAuth(c.User, password)
	case c.BasicFile != "":
		text, err := c.read(c.BasicFile)
		if err != nil {
			return fmt.Errorf("read password: %w", err)
		}
		user, password, found := strings.Cut(text, ":")
		if !found {
			return fmt.Errorf("read password: %s is not user:password", c.BasicFile)
		}
		r.SetBasicAuth(user, password)
	}
	return nil
}

// ErrExposed says that every user of this machine may read or change a file with credentials.
var ErrExposed = errors.New("every user may read or change the file")

// read reads the only line of a file.
func (c Credentials) read(file string) (string, error) {
	flag := os.O_RDONLY
	if c.Private {
		flag |= syscall.O_NONBLOCK // a pipe, which is refused then, must not keep it waiting
	}
	f, err := os.OpenFile(file, flag, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if c.Private {
		if err := checkPrivate(f); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, mostCredentials))
	if err != nil {
		return "", err
	}
	line := strings.TrimSpace(string(text))
	if line == "" || strings.ContainsAny(line, "\r\n\x00") {
		return "", fmt.Errorf("%s has not one line", file)
	}
	return line, nil
}

// checkPrivate refuses a file that every user may read or change.
func checkPrivate(f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", f.Name())
	case info.Mode().Perm()&0o007 != 0:
		return fmt.Errorf("%s: %w", f.Name(), ErrExposed)
	}
	return nil
}
