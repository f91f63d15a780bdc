package options

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestExposed names each setting whose file or folder every user may read.
func TestExposed(t *testing.T) {
	dir := t.TempDir()
	state, file := filepath.Join(dir, "state"), filepath.Join(dir, "secret")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`{"users": [{"name": "a", "user": {"client-key": "secret"}}, {"name": "b", "user": {"tokenFile": "secret"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string][]string{
		"--etcd-certfile=" + file + " --etcd-keyfile=" + file + " --etcd-endpoints=https://192.0.2.1:2379 --state-dir=" + state: {"--etcd-keyfile", "--state-dir"},
		"--etcd-username=u --etcd-password-file=" + file + " --state-dir=/nowhere":                                              {"--etcd-password-file"},
		"--kube-subnet-mgr --kubeconfig-file=" + file + " --node-name=one --state-dir=" + state:                                 {"--kubeconfig-file", "--state-dir"},
		"--kube-subnet-mgr --node-name=one --state-dir=" + state:                                                                nil, // in a pod
		"--kube-subnet-mgr --kubeconfig-file=" + kubeconfig + " --node-name=one":                                                {"--kubeconfig-file"},
	} {
		for _, mode := range []os.FileMode{0o700, 0o755} {
			for _, path := range []string{state, file} {
				if err := os.Chmod(path, mode); err != nil {
					t.Fatal(err)
				}
			}
			o, err := Parse(strings.Fields(args), nil, backends)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range o.Exposed() {
				name, _, _ := strings.Cut(w, ":")
				got = append(got, name)
			}
			slices.Sort(got)
			if mode == 0o755 && !slices.Equal(got, want) || mode == 0o700 && got != nil {
				t.Errorf("%q with mode %o: %q, want %q", args, mode, got, want)
			}
		}
	}
}
