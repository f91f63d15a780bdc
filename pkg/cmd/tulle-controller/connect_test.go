package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// Without a way to the API server, the program says so and ends.
func TestNoWayToTheAPIServer(t *testing.T) {
	var out bytes.Buffer
	missing := filepath.Join(t.TempDir(), "kubeconfig")
	for _, command := range [][]string{nil, {"plan"}, {"ipam"}} {
		args := append(command, "--kubeconfig="+missing, "--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/16")
		if err := run(args, nil, &out); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
