package azure

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

var (
	subscriptionID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	// resourceName is the name of a machine, an interface or another resource.
	resourceName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	// groupName is the name of a resource group. Azure allows other letters, too.
	groupName  = regexp.MustCompile(`^[\p{L}\p{Nd}_().-]{1,90}$`)
	setIndex   = regexp.MustCompile(`^[0-9]{1,10}$`)
	labelValue = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`)
	hostName   = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
)

// scheme begins the provider ID of a machine.
const scheme = "azure://"

// The types of machines, as they are in IDs.
const (
	machineType = "virtualMachines"
	setType     = "virtualMachineScaleSets"
)

// machineID names a virtual machine, or an instance of a scale set with uniform
// orchestration.
type machineID struct {
	subscription, group string
	set                 string // the scale set; "" for a virtual machine
	name                string // of the machine, or the number of the instance
}

// exampleID shows what a provider ID looks like.
const exampleID = "azure:///subscriptions/UUID/resourceGroups/GROUP/providers/Microsoft.Compute/virtualMachines/NAME"

// parseID reads a provider ID. Azure's names differ in case from answer to answer.
func parseID(text string) (id machineID, err error) {
	rest, ok := strings.CutPrefix(text, scheme)
	if !ok {
		return id, fmt.Errorf("%.120q is not a provider ID of Azure; the Node is of another cloud, or its ID must be one like %s", text, exampleID)
	}
	if id, ok = parsePath(rest); !ok {
		return id, fmt.Errorf("%.200q names no machine; use one like %s", text, exampleID)
	}
	return id, nil
}

// parsePath reads the resource ID of a machine.
func parsePath(path string) (id machineID, ok bool) {
	p := strings.Split(path, "/")
	is := func(at int, word string) bool { return strings.EqualFold(p[at], word) }
	if len(p) < 9 || p[0] != "" || !is(1, "subscriptions") || !is(3, "resourceGroups") || !is(5, "providers") || !is(6, "Microsoft.Compute") {
		return id, false
	}
	id.subscription, id.group = strings.ToLower(p[2]), strings.ToLower(p[4])
	switch {
	case len(p) == 9 && is(7, machineType):
		id.name = p[8]
		ok = resourceName.MatchString(id.name)
	case len(p) == 11 && is(7, setType) && is(9, machineType):
		id.set, id.name = p[8], p[10]
		ok = resourceName.MatchString(id.set) && setIndex.MatchString(id.name)
	}
	return id, ok && subscriptionID.MatchString(id.subscription) && groupName.MatchString(id.group)
}

// path returns the resource ID. Like Azure's own controller, it has the resource group in
// small letters.
func (id machineID) path() string {
	text := "/subscriptions/" + id.subscription + "/resourceGroups/" + id.group + "/providers/Microsoft.Compute/"
	if id.set != "" {
		return text + setType + "/" + id.set + "/" + machineType + "/" + id.name
	}
	return text + machineType + "/" + id.name
}

// key returns what is the same for every spelling of the ID.
func (id machineID) key() string { return strings.ToLower(id.path()) }

// providerID returns the ID as a Node's providerID has it.
func (id machineID) providerID() string { return scheme + id.path() }

// text returns the machine's name for people.
func (id machineID) text() string {
	if id.set != "" {
		return id.set + "/" + id.name
	}
	return id.name
}

// interfaceID names a network interface.
type interfaceID struct {
	subscription, group string
	set, index          string // of the instance of a scale set that has it; "" without
	name                string
}

// parseInterface reads the resource ID of a network interface.
func parseInterface(path string) (id interfaceID, ok bool) {
	p := strings.Split(path, "/")
	is := func(at int, word string) bool { return strings.EqualFold(p[at], word) }
	if len(p) < 9 || p[0] != "" || !is(1, "subscriptions") || !is(3, "resourceGroups") || !is(5, "providers") {
		return id, false
	}
	id.subscription, id.group = strings.ToLower(p[2]), strings.ToLower(p[4])
	switch {
	case len(p) == 9 && is(6, "Microsoft.Network") && is(7, "networkInterfaces"):
		id.name, ok = p[8], true
	case len(p) == 13 && is(6, "Microsoft.Compute") && is(7, setType) && is(9, machineType) && is(11, "networkInterfaces"):
		id.set, id.index, id.name = p[8], p[10], p[12]
		ok = resourceName.MatchString(id.set) && setIndex.MatchString(id.index)
	}
	return id, ok && subscriptionID.MatchString(id.subscription) && groupName.MatchString(id.group) && resourceName.MatchString(id.name)
}

// path returns the path of a request.
func path(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(p))
	}
	return b.String()
}

// inGroup returns the path of what a resource provider has in a resource group.
func inGroup(subscription, group, provider string, rest ...string) string {
	return path(append([]string{"subscriptions", subscription, "resourceGroups", group, "providers", provider}, rest...)...)
}
