package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// object is an object of Kubernetes, as far as it matters here.
type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct {
		Name, Namespace string
		Labels          map[string]string
	}
	Spec struct {
		Replicas int
		Selector yaml.Node
		Ports    []struct {
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				ServiceAccountName string `yaml:"serviceAccountName"`
				Containers         []container
				Volumes            []struct{ Name string }
			}
		}
	}
}

type container struct {
	Args            []string
	Ports           []struct{ Name string }
	SecurityContext struct {
		RunAsNonRoot             bool `yaml:"runAsNonRoot"`
		RunAsUser                int  `yaml:"runAsUser"`
		ReadOnlyRootFilesystem   bool `yaml:"readOnlyRootFilesystem"`
		AllowPrivilegeEscalation bool `yaml:"allowPrivilegeEscalation"`
		Capabilities             struct{ Drop, Add []string }
		SeccompProfile           struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

// TestKubernetesOfHub: the objects fit each other, the hub has no rights, and its program takes the flags.
func TestKubernetesOfHub(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../hub/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects := make(map[string]object)
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || o.APIVersion == "" || o.Kind == "" || o.Metadata.Name == "" || o.Kind != "Namespace" && o.Metadata.Namespace != "ccmapd-hub" {
			t.Fatalf("%+v, error %v", o, err)
		}
		objects[o.Kind] = o
	}
	pod := objects["Deployment"].Spec.Template
	if len(pod.Spec.Containers) != 1 || pod.Spec.ServiceAccountName != objects["ServiceAccount"].Metadata.Name {
		t.Fatalf("pod %+v", pod)
	}
	var selector struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
	}
	of, service := objects["Deployment"].Spec.Selector, objects["Service"].Spec
	var labels map[string]string
	if err := errors.Join(of.Decode(&selector), service.Selector.Decode(&labels)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(selector.MatchLabels, pod.Metadata.Labels) || !reflect.DeepEqual(labels, pod.Metadata.Labels) {
		t.Errorf("selectors %v and %v, labels of pods %v", selector.MatchLabels, labels, pod.Metadata.Labels)
	}
	c := pod.Spec.Containers[0]
	if service.Ports[0].TargetPort != c.Ports[0].Name {
		t.Errorf("the service leads to port %q, the container has %q", service.Ports[0].TargetPort, c.Ports[0].Name)
	}
	s := c.SecurityContext
	if !s.RunAsNonRoot || s.RunAsUser != user || !s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation || len(s.Capabilities.Add) > 0 ||
		!reflect.DeepEqual(s.Capabilities.Drop, []string{"ALL"}) || s.SeccompProfile.Type != "RuntimeDefault" {
		t.Errorf("the hub's rights: %+v", s)
	}
	volumes := make(map[string]bool)
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("%s is mounted, and is no volume", m.Name)
		}
	}
	help := exec.Command("go", "-C", "../../hub", "run", "./cmd/ccmapd-hub", "--help")
	flags, err := help.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, flags)
	}
	for _, arg := range c.Args {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if !strings.Contains(string(flags), "  "+name+" ") {
			t.Errorf("the hub has no flag %s", arg)
		}
	}
}

// TestPolicyOfHub: the store's policy permits what a hub does in one bucket, and no more.
func TestPolicyOfHub(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../hub/policy.json")
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Statement []struct {
			Effect           string
			Action, Resource []string
		}
	}
	if err := json.Unmarshal(text, &policy); err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, s := range policy.Statement {
		actions = append(actions, s.Action...)
		for _, r := range s.Resource {
			if s.Effect != "Allow" || !strings.HasPrefix(r, "arn:aws:s3:::profiles") {
				t.Errorf("%s of %s", s.Effect, r)
			}
		}
	}
	if got := strings.Join(actions, " "); got != "s3:GetObject s3:PutObject s3:DeleteObject s3:ListBucket" {
		t.Errorf("actions %s", got)
	}
}
