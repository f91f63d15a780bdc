package gce

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// scheme begins the provider IDs of instances.
const scheme = "gce://"

// name is an instance, by its provider ID.
type name struct{ project, zone, instance string }

// place is a zone of a project, or a whole project.
type place struct{ project, zone string }

// path returns where the API has what is in the place.
func (p place) path() string {
	path := "projects/" + url.PathEscape(p.project) + "/"
	if p.zone != "" {
		path += "zones/" + url.PathEscape(p.zone) + "/"
	}
	return path
}

func (n name) place() place { return place{n.project, n.zone} }

var (
	// projectName also matches a project of a domain, like "example.com:worker".
	projectName   = regexp.MustCompile(`^([a-z][a-z0-9.-]{0,62}:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	zoneName      = regexp.MustCompile(`^[a-z]+(-[a-z0-9]+){1,4}$`)
	operationName = regexp.MustCompile(`^[a-z0-9-]{1,200}$`)
	instanceName  = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

// CheckProject returns what is wrong with the name of a project.
func CheckProject(project string) error {
	if !projectName.MatchString(project) {
		return fmt.Errorf("%.60q is not the ID of a project; use one like my-project-1", project)
	}
	return nil
}

// parse reads a provider ID. A kubelet chooses its own, so the instance must be in the
// project.
func parse(id, project string) (n name, err error) {
	rest, ok := strings.CutPrefix(id, scheme)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 || !projectName.MatchString(parts[0]) || !zoneName.MatchString(parts[1]) || !instanceName.MatchString(parts[2]) {
		return n, fmt.Errorf("providerID %.100q: not of the form %sPROJECT/ZONE/INSTANCE; delete and re-create the Node with the one of its instance", id, scheme)
	}
	n = name{parts[0], parts[1], parts[2]}
	if n.project != project {
		return n, fmt.Errorf("providerID %.100q: not in the project %s; use instances of one project", id, project)
	}
	return n, nil
}
