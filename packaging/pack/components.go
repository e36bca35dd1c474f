package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// bom is a list of components, as CycloneDX 1.6 has it.
type bom struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// components writes which modules the programs were built of, as the programs themselves say.
func (r release) components() error {
	info, err := buildinfo.ReadFile(r.program())
	if err != nil {
		return fmt.Errorf("read modules: %w", err)
	}
	main := module("application", info.Main.Path, r.version, "")
	for _, s := range info.Settings {
		main.Properties = append(main.Properties, property{"go:build:" + s.Key, s.Value})
	}
	list := bom{
		Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{r.date.Format(time.RFC3339), main},
		Components: []component{module("library", "std", info.GoVersion, "")},
	}
	deps := info.Deps
	if !r.isHub() {
		agents, err := buildinfo.ReadFile(r.program() + "-mcp")
		if err != nil {
			return fmt.Errorf("read modules: %w", err)
		}
		deps = append(deps, agents.Deps...)
	}
	listed := make(map[string]bool)
	for _, m := range deps {
		for m.Replace != nil {
			m = m.Replace
		}
		if name := m.Path + "@" + m.Version; m.Version != "" && !listed[name] { // this tree has no version
			listed[name] = true
			list.Components = append(list.Components, module("library", m.Path, m.Version, m.Sum))
		}
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return fmt.Errorf("list components: %w", err)
	}
	return os.WriteFile(r.file(".cdx.json"), append(text, '\n'), 0o644)
}

func module(kind, path, version, sum string) component {
	c := component{Type: kind, Name: path, Version: version, PURL: "pkg:golang/" + path + "@" + version}
	if sum != "" {
		c.Properties = []property{{"go:sum", sum}}
	}
	return c
}
