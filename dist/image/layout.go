package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"time"
)

// OCI's names for the kinds of blobs.
const (
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
	configType   = "application/vnd.oci.image.config.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
)

// descriptor is how one blob names another.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations"`
}

type index struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Manifests     []descriptor      `json:"manifests"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type config struct {
	Created time.Time `json:"created"`
	platform
	Config  process   `json:"config"`
	RootFS  rootFS    `json:"rootfs"`
	History []history `json:"history"`
}

type process struct {
	User       string
	Env        []string
	Entrypoint []string
	WorkingDir string
	Labels     map[string]string
	StopSignal string
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type history struct {
	Created   time.Time `json:"created"`
	CreatedBy string    `json:"created_by"`
}

// about describes an image.
type about struct {
	version, revision string
	created           time.Time
}

func (a about) labels() map[string]string {
	const prefix, home = "org.opencontainers.image.", "https://github.com/tulle-net/tulle"
	labels := map[string]string{
		prefix + "title":         "tulle",
		prefix + "description":   "a container network across hosts",
		prefix + "version":       a.version,
		prefix + "created":       a.created.Format(time.RFC3339),
		prefix + "licenses":      "Apache-2.0",
		prefix + "url":           home,
		prefix + "source":        home,
		prefix + "documentation": home + "/tree/main/Documentation",
	}
	if a.revision != "" {
		labels[prefix+"revision"] = a.revision
	}
	return labels
}

// layout is the folder of an OCI image layout.
type layout string

// image writes the image for one platform.
func (l layout) image(p platform, files []file, a about) (descriptor, error) {
	unzipped, err := pack(files, a.created)
	if err != nil {
		return descriptor{}, err
	}
	zipped, err := zip(unzipped)
	if err != nil {
		return descriptor{}, err
	}
	layer, err := l.blob(layerType, zipped)
	if err != nil {
		return descriptor{}, err
	}
	c, err := l.document(configType, config{
		Created: a.created, platform: p,
		Config: process{
			User: "0:0", Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
			Entrypoint: []string{"/tulled"}, WorkingDir: "/", Labels: a.labels(), StopSignal: "SIGTERM",
		},
		RootFS:  rootFS{"layers", []string{digest(unzipped)}},
		History: []history{{a.created, "dist/image"}},
	})
	if err != nil {
		return descriptor{}, err
	}
	d, err := l.document(manifestType, manifest{2, manifestType, c, []descriptor{layer}, a.labels()})
	d.Platform = &p
	return d, err
}

// index writes the indices of the images. The layout's own index names one that names
// them all, because that is what tools copy to a registry.
func (l layout) index(images []descriptor, a about) error {
	all, err := l.document(indexType, index{2, indexType, images, a.labels()})
	if err != nil {
		return err
	}
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": a.version}
	text, err := json.Marshal(index{SchemaVersion: 2, MediaType: indexType, Manifests: []descriptor{all}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(string(l), "index.json"), text, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(string(l), "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644)
}

func (l layout) document(mediaType string, v any) (descriptor, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	return l.blob(mediaType, text)
}

func (l layout) blob(mediaType string, text []byte) (descriptor, error) {
	d := descriptor{MediaType: mediaType, Digest: digest(text), Size: len(text)}
	folder := filepath.Join(string(l), "blobs", "sha256")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return d, err
	}
	return d, os.WriteFile(filepath.Join(folder, d.Digest[len("sha256:"):]), text, 0o644)
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// pack returns a tar of files, all with one time and owned by root.
func pack(files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	folder := "."
	for _, f := range files {
		// Some tools create a folder that has no entry with permissions that let only
		// root in.
		if dir := path.Dir(f.name); dir != folder {
			folder = dir
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: at, Format: tar.FormatUSTAR}); err != nil {
				return nil, err
			}
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.text)), ModTime: at, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func zip(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}
