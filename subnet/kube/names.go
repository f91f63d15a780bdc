package kube

import "cmp"

// Names are what errors call the settings of Options, like --kube-api-url. Plain words
// stand for an empty one.
type Names struct {
	Server, Kubeconfig, Prefix, ConfigFile string
}

// orWords returns n without empty names.
func (n Names) orWords() Names {
	return Names{
		Server: cmp.Or(n.Server, "the API server's URL"), Kubeconfig: cmp.Or(n.Kubeconfig, "a kubeconfig file"),
		Prefix: cmp.Or(n.Prefix, "the annotation prefix"), ConfigFile: cmp.Or(n.ConfigFile, "the config file"),
	}
}
