package kube

import (
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
