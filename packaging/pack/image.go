package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user of the container.
const user = 65532

// image makes a container image of the program alone: an OCI layout, as a tar file.
func (r release) image() error {
	files, err := r.files()
	if err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return fmt.Errorf("make layer: %w", err)
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.date}, CreatedBy: "packaging/build"}}); err != nil {
		return fmt.Errorf("make image: %w", err)
	}
	c, err := img.ConfigFile()
	if err != nil {
		return fmt.Errorf("make image: %w", err)
	}
	c = c.DeepCopy()
	c.Architecture, c.OS, c.Created = "amd64", "linux", v1.Time{Time: r.date}
	c.Config = v1.Config{
		User: fmt.Sprintf("%d:%[1]d", user), Entrypoint: []string{"/usr/bin/" + r.name},
		Cmd: r.arguments(),
		Labels: map[string]string{
			"org.opencontainers.image.title": r.name, "org.opencontainers.image.version": r.version,
			"org.opencontainers.image.source": "https://github.com/ccmapd/ccmapd", "org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if img, err = mutate.ConfigFile(img, c); err != nil {
		return fmt.Errorf("make image: %w", err)
	}
	return r.writeLayout(img)
}

// arguments are those of a container that names none.
func (r release) arguments() []string {
	if r.isHub() {
		return []string{"--help"}
	}
	return []string{"serve", "--config", "/etc/ccmapd/ccmapd.toml"}
}

// writeLayout writes an image as a tar file that 'podman load' and 'docker load' read.
func (r release) writeLayout(img v1.Image) error {
	dir, err := os.MkdirTemp("", "ccmapd-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	if err := path.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version}), layout.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"})); err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	var all archive
	all.init()
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		at, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return all.add(tar.Header{Name: at + "/", Mode: 0o755}, nil)
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return all.add(tar.Header{Name: at, Mode: 0o644}, content)
	})
	if err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	text, err := all.close()
	if err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	return os.WriteFile(r.file("-oci.tar"), text, 0o644)
}

// content is a file of a container.
type content struct {
	tar.Header
	bytes []byte
}

// files returns the files of the container, as a tar file.
func (r release) files() ([]byte, error) {
	program, err := os.ReadFile(r.program())
	if err != nil {
		return nil, err
	}
	authorities, err := r.certificates()
	if err != nil {
		return nil, err
	}
	list := []content{
		{tar.Header{Name: "tmp/", Mode: 0o1777}, nil},
		{tar.Header{Name: "var/lib/" + r.name + "/", Mode: 0o750, Uid: user, Gid: user}, nil},
		{tar.Header{Name: "etc/passwd", Mode: 0o644}, fmt.Appendf(nil, "root:x:0:0::/:/usr/sbin/nologin\n%s:x:%d:%[2]d::/var/lib/%[1]s:/usr/sbin/nologin\n", r.name, user)},
		{tar.Header{Name: "etc/group", Mode: 0o644}, fmt.Appendf(nil, "root:x:0:\n%s:x:%d:\n", r.name, user)},
		{tar.Header{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644}, authorities},
	}
	if r.isHub() {
		list = append(list, content{tar.Header{Name: "usr/bin/ccmapd-hub", Mode: 0o755}, program})
	} else {
		config, err := os.ReadFile(filepath.Join(r.root, "etc/ccmapd/ccmapd.toml"))
		if err != nil {
			return nil, err
		}
		list = append(list, ofDaemon(program, config)...)
	}
	a := &archive{epoch: r}
	a.init()
	for _, dir := range []string{"etc/", "etc/ccmapd/", "etc/ssl/", "etc/ssl/certs/", "proc/", "run/", "sys/", "usr/", "usr/bin/", "var/", "var/lib/"} {
		if err := a.add(tar.Header{Name: dir, Mode: 0o755}, nil); err != nil {
			return nil, err
		}
	}
	for _, f := range list {
		if err := a.add(f.Header, f.bytes); err != nil {
			return nil, err
		}
	}
	return a.close()
}

// ofDaemon returns the files of the daemon alone. The program has the capabilities for targets as a file, because
// container runtimes give capabilities to root alone; the program raises them for calls on targets only. Only root and
// the group of that user can execute it.
func ofDaemon(program, config []byte) []content {
	return []content{
		{tar.Header{Name: "run/ccmapd/", Mode: 0o755, Uid: user, Gid: user}, nil},
		{tar.Header{Name: "etc/ccmapd/ccmapd.toml", Mode: 0o644}, config},
		{tar.Header{Name: "usr/bin/ccmapd", Mode: 0o750, Gid: user, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": fileCapabilities()}}, program},
	}
}

// certificates returns the certificates of public authorities, as crypto/x509 reads them on Linux: targets may be
// https. They are those of Debian's package ca-certificates, without those that the builder's machine trusts besides.
func (r release) certificates() ([]byte, error) {
	const least = 50
	files, err := filepath.Glob(filepath.Join(r.authorities, "*.crt")) // sorted
	if err != nil {
		return nil, err
	}
	if len(files) < least {
		return nil, fmt.Errorf("%s has %d certificates: apt-get install ca-certificates", r.authorities, len(files))
	}
	var all bytes.Buffer
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		block, rest := pem.Decode(text)
		if block == nil || len(bytes.TrimSpace(rest)) > 0 {
			return nil, fmt.Errorf("%s is not one certificate", file)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all.Write(pem.EncodeToMemory(block))
	}
	return all.Bytes(), nil
}

// fileCapabilities returns CAP_SYS_PTRACE, CAP_PERFMON and CAP_BPF as permitted, and not in effect: a
// struct vfs_cap_data of linux/capability.h, revision 2.
func fileCapabilities() string {
	const revision2, ptrace, perfmon, bpf = 0x02000000, 19, 38, 39
	permitted := uint64(1<<ptrace | 1<<perfmon | 1<<bpf)
	data := binary.LittleEndian.AppendUint32(nil, revision2)
	data = binary.LittleEndian.AppendUint32(data, uint32(permitted))
	data = binary.LittleEndian.AppendUint32(data, 0) // inheritable
	data = binary.LittleEndian.AppendUint32(data, uint32(permitted>>32))
	return string(binary.LittleEndian.AppendUint32(data, 0))
}

// archive is a tar file in memory, all of one date.
type archive struct {
	epoch release
	text  bytes.Buffer
	*tar.Writer
}

func (a *archive) init() { a.Writer = tar.NewWriter(&a.text) }

func (a *archive) add(h tar.Header, content []byte) error {
	h.ModTime, h.Size, h.Format = a.epoch.date, int64(len(content)), tar.FormatPAX
	if err := a.WriteHeader(&h); err != nil {
		return err
	}
	_, err := a.Write(content)
	return err
}

func (a *archive) close() ([]byte, error) {
	err := a.Close()
	return a.text.Bytes(), err
}
