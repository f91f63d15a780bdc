package kube

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
)

// SecretFiles returns the files with secrets that a kubeconfig names: private keys and
// tokens. It returns nothing for a kubeconfig that cannot be read; NewClient reports
// why.
func SecretFiles(kubeconfig string) (paths []string) {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil || clientcmd.ResolveLocalPaths(config) != nil {
		return nil
	}
	for _, user := range config.AuthInfos {
		for _, path := range []string{user.ClientKey, user.TokenFile} {
			if path != "" {
				paths = append(paths, path)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// describe returns an error of a kubeconfig with its path and the fix.
func describe(path string, err error) error {
	var file *fs.PathError
	switch {
	case err == nil || path == "":
		return err
	case errors.As(err, &file):
		return fmt.Errorf("kubeconfig %q: %w; name a file that this program may read", path, file.Err)
	case clientcmd.IsEmptyConfig(err):
		return fmt.Errorf("kubeconfig %q: has no cluster; name the file of an admin, or write one with kubectl config", path)
	}
	return fmt.Errorf("kubeconfig %q: %w", path, err)
}
