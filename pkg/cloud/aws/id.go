package aws

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	// AWS interprets wildcards in a filter's value, so each ID is validated before it
	// becomes one.
	instanceID = regexp.MustCompile(`^i-[0-9a-f]{1,40}$`)
	resourceID = regexp.MustCompile(`^[a-z]+-[0-9a-f]{1,40}$`)
	zoneName   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,58}[a-z0-9])?$`)
	labelValue = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`)
	hostName   = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
)

// longestCluster is the maximum length of a cluster's name. With its prefix, the name is the
// key of a tag, which has at most 128 characters.
const longestCluster = 106

// isClusterName reports whether an AWS tag can hold a cluster's name. A regular expression
// for this would need 2 MiB of memory.
func isClusterName(name string) bool {
	unfit := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune(" _.:/=+@-", r)
	}
	n := utf8.RuneCountInString(name)
	return n > 0 && n <= longestCluster && strings.IndexFunc(name, unfit) < 0
}

// scheme is the prefix of the provider ID of an instance.
const scheme = "aws://"

// providerID returns the providerID of the Node of an instance.
func providerID(zone, id string) string { return scheme + "/" + zone + "/" + id }

// parseID returns the instance ID in a provider ID: aws:///ZONE/ID, aws:////ID or ID.
func parseID(text, region string) (string, error) {
	rest, full := strings.CutPrefix(text, scheme)
	if !full && strings.Contains(text, "://") {
		return "", fmt.Errorf("%.80q is not a provider ID of AWS; the Node is in another cloud", text)
	}
	zone, id := "", rest
	if full {
		parts := strings.Split(rest, "/")
		if len(parts) != 3 || parts[0] != "" {
			return "", fmt.Errorf("%.80q is not a provider ID of AWS; use one like aws:///eu-west-1a/i-0123456789abcdef0", text)
		}
		zone, id = parts[1], parts[2]
	}
	switch {
	case strings.HasPrefix(id, "fargate-"):
		return "", fmt.Errorf("%.80q is a Fargate Node, which has no instance; label such Nodes so that no controller of instances takes them", text)
	case !instanceID.MatchString(id):
		return "", fmt.Errorf("%.80q has no valid instance ID; use one like aws:///eu-west-1a/i-0123456789abcdef0", text)
	case zone != "" && !zoneName.MatchString(zone):
		return "", fmt.Errorf("%.80q has no valid zone; use one like aws:///eu-west-1a/i-0123456789abcdef0", text)
	case zone != "" && !strings.HasPrefix(zone, region):
		return "", fmt.Errorf("zone %s is not in region %s, which this program reads; run it for the region of the Nodes", zone, region)
	}
	return id, nil
}

// resourceName matches a Node's name that begins with its instance's ID. EC2 gives hosts such
// names with the hostname type resource-name.
var resourceName = regexp.MustCompile(`^(i-[0-9a-f]{8,40})(\.[a-z0-9.-]+)?$`)
