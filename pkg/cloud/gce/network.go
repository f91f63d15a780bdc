package gce

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"

	"cloud.google.com/go/compute/metadata"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// network is the VPC network whose routes are ours.
type network struct {
	project string

	mu   sync.Mutex
	name string // "" is that of the instance that the program runs on
}

// id returns the ID of a network: its project and its name.
func networkID(project, name string) string { return project + "/" + name }

// networkOf returns the ID of the network that a URL of the API names, or "".
func networkOf(link string) string {
	rest, name, ok := strings.Cut(link, "/global/networks/")
	project := path.Base(rest)
	if !ok || !strings.HasSuffix(rest, "projects/"+project) || !projectName.MatchString(project) || !instanceName.MatchString(name) {
		return ""
	}
	return networkID(project, name)
}

// networkName returns the name of the network. If no setting has it, the metadata server
// does.
func (c *Client) networkName(ctx context.Context) (string, error) {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	if c.network.name != "" {
		return c.network.name, nil
	}
	const fix = "set network-name in the cloud config"
	ctx, cancel := context.WithTimeout(ctx, tokenLimit)
	defer cancel()
	text, err := metadata.GetWithContext(ctx, "instance/network-interfaces/0/network")
	if err != nil {
		return "", &cloud.Error{Kind: cloud.Unavailable, Action: listRoutes, Text: fmt.Sprintf("no network is named, and the metadata server does not tell: %.200s; %s", hide(err), fix)}
	}
	name := path.Base(strings.TrimSpace(text))
	if !instanceName.MatchString(name) {
		return "", &cloud.Error{Kind: cloud.Unavailable, Action: listRoutes, Text: fmt.Sprintf("the metadata server names the network %.80q; %s", text, fix)}
	}
	c.network.name = name
	return name, nil
}
