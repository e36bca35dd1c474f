package main

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"

	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/figure"
)

// TestDaemonSet holds the manifest for Kubernetes against the program, the unit of systemd and the image: no
// unknown key, commands that exist, and the paths, capabilities, limits and times of the unit.
func TestDaemonSet(t *testing.T) {
	t.Parallel()
	m, u := readManifest(t), readUnit(t)
	pod := m.set.Spec.Template
	if want := m.set.Spec.Selector.MatchLabels; len(want) == 0 || !maps.Equal(want, pod.Metadata.Labels) {
		t.Errorf("the pods have labels %v, the selector wants %v", pod.Metadata.Labels, want)
	}
	for _, space := range []string{m.set.Metadata.Namespace, m.configuration.Metadata.Namespace} {
		if space != m.namespace.Metadata.Name {
			t.Errorf("namespace %q, want %q", space, m.namespace.Metadata.Name)
		}
	}
	if !pod.Spec.HostPID {
		t.Error("the pod does not see the processes of its host")
	}
	if got, want := strconv.Itoa(pod.Spec.Grace)+"s", u["TimeoutStopSec"]; got != want {
		t.Errorf("the pod has %s to end, want %s, as the unit", got, want)
	}
	if len(pod.Spec.Containers) != 1 {
		t.Fatalf("%d containers, want 1", len(pod.Spec.Containers))
	}
	c := pod.Spec.Containers[0]
	for _, command := range [][]string{u.command(), c.Readiness.Exec.Command, c.Liveness.Exec.Command} {
		checkCommand(t, command)
	}
	checkRights(t, c, u)
	checkVolumes(t, m, c, u)
	checkLimits(t, m, c, u)
}

// checkCommand: the packaged program takes the command line.
func checkCommand(t *testing.T, command []string) {
	t.Helper()
	if len(command) < 2 || command[0] != "/usr/bin/ccmapd" {
		t.Errorf("%q: want /usr/bin/ccmapd COMMAND", command)
		return
	}
	cmd, args, err := newRoot(&environment{}).Find(command[1:])
	if err == nil {
		err = cmd.ParseFlags(args)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil || !cmd.HasParent() {
		t.Errorf("%q: %s, %v", command, cmd.Name(), err)
	}
}

// checkRights: the user of the image, with the capabilities of the unit.
func checkRights(t *testing.T, c container, u unit) {
	t.Helper()
	source, err := os.ReadFile("../../packaging/pack/image.go")
	if err != nil {
		t.Fatal(err)
	}
	user := regexp.MustCompile(`(?m)^const user = (\d+)$`).FindSubmatch(source)
	if user == nil {
		t.Fatal("packaging/pack has no user of the image")
	}
	s := c.Security
	if want := string(user[1]); !s.NonRoot || strconv.Itoa(s.User) != want || strconv.Itoa(s.Group) != want {
		t.Errorf("runs as %d:%d; the program of the image is for %s alone", s.User, s.Group, want)
	}
	if want := strings.Fields(strings.ReplaceAll(u["AmbientCapabilities"], "CAP_", "")); !slices.Equal(s.Capabilities.Add, want) || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("capabilities %+v, want no others than %v", s.Capabilities, want)
	}
	if !s.Escalation { // it is no_new_privs
		t.Error("capabilities of the program's file have no effect")
	}
	if s.Seccomp.Type != "Unconfined" {
		t.Errorf("seccomp profile %q: the default of runtimes refuses bpf", s.Seccomp.Type)
	}
	if !s.ReadOnly || u["ProtectSystem"] != "strict" {
		t.Error("the root can be written to")
	}
}

// checkVolumes: what is mounted exists, what exists is mounted. The configuration is at the path of the
// unit, and the folders that the unit can write to are the only ones that the container can.
func checkVolumes(t *testing.T, m manifest, c container, u unit) {
	t.Helper()
	volumes := make(map[string]volume)
	for _, v := range m.set.Spec.Template.Spec.Volumes {
		volumes[v.Name] = v
	}
	var writable []string
	at := make(map[string]volume)
	for _, mount := range c.Mounts {
		v, known := volumes[mount.Name]
		if !known {
			t.Errorf("no volume is called %s", mount.Name)
		}
		if at[mount.Path] = v; !mount.ReadOnly {
			writable = append(writable, mount.Path)
		}
	}
	if len(at) != len(volumes) {
		t.Errorf("%d of %d volumes are mounted", len(at), len(volumes))
	}
	if want := []string{"/run/" + u["RuntimeDirectory"], "/var/lib/" + u["StateDirectory"]}; !slices.Equal(writable, want) {
		t.Errorf("can write to %v, want %v", writable, want)
	}
	for _, folder := range writable {
		if at[folder].Empty == nil {
			t.Errorf("%s is not a folder of the pod's own", folder)
		}
	}
	folder, file := path.Split(u.command()[len(u.command())-1])
	if v := at[path.Clean(folder)]; v.Config.Name != m.configuration.Metadata.Name || m.configuration.Data[file] == "" {
		t.Errorf("%s%s does not come from the ConfigMap %s", folder, file, m.configuration.Metadata.Name)
	}
}

// TestServiceMemory: the limits of the unit, of the container and of the page are the ones that the budgets need.
func TestServiceMemory(t *testing.T) {
	t.Parallel()
	budget := config.Default().Budget
	if got, want := size(t, readUnit(t)["MemoryMax"]+"iB"), budget.ServiceMemory(); got != want {
		t.Errorf("MemoryMax of the unit is %d, want %d for budget.memory of %d", got, want, budget.Memory)
	}
	page, err := os.ReadFile("../../docs/daemon.md")
	if err != nil {
		t.Fatal(err)
	}
	relation := regexp.MustCompile(`MemoryMax=(\d+M).{1,80}budget\.memory. and a third`).FindSubmatch(page)
	if relation == nil {
		t.Fatal("docs/daemon.md does not say how much memory a service needs")
	}
	if got, want := size(t, string(relation[1])+"iB"), budget.ServiceMemory(); got != want {
		t.Errorf("docs/daemon.md says %d, want %d", got, want)
	}
	for memory, want := range map[int64]int64{0: 0, 1: 1 << 20, 3 << 20: 4 << 20, 768 << 20: 1 << 30, 1 << 30: 1366 << 20} {
		if got := (config.Budget{Memory: memory}).ServiceMemory(); got != want {
			t.Errorf("a budget of %d needs %d, want %d", memory, got, want)
		}
	}
}

// checkLimits: the configuration is valid, and its budgets are within the limits of the container.
func checkLimits(t *testing.T, m manifest, c container, u unit) {
	t.Helper()
	limits := c.Resources.Limits
	if got, want := limits.CPU+"00%", u["CPUQuota"]; got != want {
		t.Errorf("the CPU limit is %s, want %s, as the unit's", got, want)
	}
	for file, text := range m.configuration.Data {
		conf, err := config.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if got, want := size(t, limits.Memory+"B"), conf.Budget.ServiceMemory(); got != want {
			t.Errorf("the memory limit is %d, want %d for budget.memory of %d", got, want, conf.Budget.Memory)
		}
		if whole, err := strconv.ParseFloat(limits.CPU, 64); err != nil || conf.Budget.CPU >= whole {
			t.Errorf("the CPU budget is %g, of %s (%v)", conf.Budget.CPU, limits.CPU, err)
		}
		for _, v := range m.set.Spec.Template.Spec.Volumes {
			if v.Name == "state" && size(t, v.Empty["sizeLimit"]+"B") < conf.Store.MaxBytes {
				t.Errorf("the store may take %d bytes, of %s", conf.Store.MaxBytes, v.Empty["sizeLimit"])
			}
		}
	}
}

func size(t *testing.T, text string) int64 {
	t.Helper()
	var b figure.ByteSize
	if err := b.Set(text); err != nil {
		t.Fatal(err)
	}
	return int64(b)
}

// unit has the settings of packaging/systemd/ccmapd.service.
type unit map[string]string

func (u unit) command() []string { return strings.Fields(u["ExecStart"]) }

func readUnit(t *testing.T) unit {
	t.Helper()
	text, err := os.ReadFile("../../packaging/systemd/ccmapd.service")
	if err != nil {
		t.Fatal(err)
	}
	u := make(unit)
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, "="); found && line[0] != '#' {
			u[name] = strings.TrimSpace(value)
		}
	}
	return u
}

// manifest has the objects of packaging/kubernetes/daemonset.yaml, in the order of the file.
type manifest struct {
	namespace     object
	configuration struct {
		object `yaml:",inline"`
		Data   map[string]string
	}
	set struct {
		object `yaml:",inline"`
		Spec   struct {
			Selector struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			}
			Template struct {
				Metadata metadata
				Spec     pod
			}
		}
	}
}

// The types have those fields of the API of Kubernetes 1.30 (core/v1, apps/v1) that the manifest uses.
// An unknown key in the file is an error.
type (
	object struct {
		Version  string `yaml:"apiVersion"`
		Kind     string
		Metadata metadata
	}
	metadata struct {
		Name, Namespace string
		Labels          map[string]string
	}
	pod struct {
		HostPID      bool `yaml:"hostPID"`
		Token        bool `yaml:"automountServiceAccountToken"`
		ServiceLinks bool `yaml:"enableServiceLinks"`
		Grace        int  `yaml:"terminationGracePeriodSeconds"` // s
		Tolerations  []map[string]string
		Containers   []container
		Volumes      []volume
	}
	container struct {
		Name, Image string
		Resources   struct{ Requests, Limits resources }
		Security    struct {
			NonRoot      bool `yaml:"runAsNonRoot"`
			User         int  `yaml:"runAsUser"`
			Group        int  `yaml:"runAsGroup"`
			ReadOnly     bool `yaml:"readOnlyRootFilesystem"`
			Escalation   bool `yaml:"allowPrivilegeEscalation"`
			Capabilities struct{ Drop, Add []string }
			Seccomp      struct{ Type string } `yaml:"seccompProfile"`
		} `yaml:"securityContext"`
		Readiness probe `yaml:"readinessProbe"`
		Liveness  probe `yaml:"livenessProbe"`
		Mounts    []struct {
			Name     string
			Path     string `yaml:"mountPath"`
			ReadOnly bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
	resources struct{ CPU, Memory string }
	probe     struct {
		Exec    struct{ Command []string }
		Period  int `yaml:"periodSeconds"`
		Timeout int `yaml:"timeoutSeconds"`
	}
	volume struct {
		Name   string
		Config struct{ Name string } `yaml:"configMap"`
		Empty  map[string]string     `yaml:"emptyDir"`
		Host   struct{ Path string } `yaml:"hostPath"`
	}
)

func readManifest(t *testing.T) manifest {
	t.Helper()
	text, err := os.ReadFile("../../packaging/kubernetes/daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	parts := yaml.NewDecoder(bytes.NewReader(text))
	parts.SetStrict(true)
	for _, part := range []struct {
		into   any
		header *object
		want   string
	}{
		{&m.namespace, &m.namespace, "v1 Namespace"},
		{&m.configuration, &m.configuration.object, "v1 ConfigMap"},
		{&m.set, &m.set.object, "apps/v1 DaemonSet"},
	} {
		if err := parts.Decode(part.into); err != nil {
			t.Fatalf("%s: %v", part.want, err)
		}
		if got := part.header.Version + " " + part.header.Kind; got != part.want {
			t.Errorf("the manifest has %s where %s is wanted", got, part.want)
		}
	}
	if err := parts.Decode(new(object)); !errors.Is(err, io.EOF) {
		t.Errorf("the manifest goes on after the DaemonSet: %v", err)
	}
	return m
}
