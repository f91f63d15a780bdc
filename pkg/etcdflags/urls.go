package etcdflags

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/flags"
)

// endpoints reads a list of URLs. A URL without a scheme begins with //; Finish adds the
// scheme.
func endpoints(value string) ([]string, error) {
	if err := noUser(value); err != nil {
		return nil, err
	}
	var all []string
	for item := range flags.Items(value) {
		e, err := endpoint(item)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		return nil, flags.Refuse(value, "no URL in it", "use one like http://192.0.2.7:2379")
	}
	return all, nil
}

func endpoint(item string) (string, error) {
	if scheme, path, ok := strings.Cut(item, "://"); ok && (scheme == "unix" || scheme == "unixs") {
		if path == "" || !flags.Printable(path) {
			return "", flags.Refuse(item, "no path after the scheme", "use one like unix:///run/etcd/client.sock")
		}
		return item, nil
	}
	text, bare := item, !strings.Contains(item, "://")
	if bare {
		text = "http://" + item
	}
	const schemes = "use http, https, unix or unixs, as in https://192.0.2.7:2379"
	u, err := hostURL(text, schemes)
	switch {
	case err != nil:
		return "", err
	case u.Port() == "0":
		return "", flags.Refuse(item, "port 0 is not valid", "use etcd's, like 2379")
	case bare:
		return (&url.URL{Host: u.Host}).String(), nil
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String(), nil
}

// hostURL reads a URL of http or https with a host and a port, and nothing more. An error
// hides any part that may hold a password.
func hostURL(text, schemes string) (*url.URL, error) {
	const likely = "use one like https://192.0.2.7:2379, with an IPv6 address in brackets"
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, flags.Refuse("", "not a URL with a host and a port", likely)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, flags.Refuse(text, "unknown URL scheme", schemes)
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return nil, flags.Refuse("", "URL with a query or fragment", likely)
	case strings.Trim(u.Path, "/") != "":
		return nil, flags.Refuse(text, "URL of etcd with a path", "remove the path")
	case !flags.IsHost(u.Host, u.Hostname()):
		return nil, flags.Refuse(text, "no valid host in the URL", likely)
	case u.Port() == "":
		return nil, flags.Refuse(text, "no port in the URL", "add one, like :2379")
	case !isPort(u.Port()):
		return nil, flags.Refuse("", "invalid port in the URL", "use one up to 65535, like 2379")
	}
	return u, nil
}

func isPort(port string) bool {
	_, err := netip.ParseAddrPort("0.0.0.0:" + port)
	return err == nil
}

// noUser rejects a value that may contain a password, before anything parses it.
func noUser(value string) error {
	if strings.ContainsRune(value, '@') {
		return flags.Refuse("", "URL with a user or password", "set --etcd-username and --etcd-password-file")
	}
	return nil
}

// Listen reads the URL on which an etcd listens.
func Listen(value string) (string, error) {
	if err := noUser(value); err != nil {
		return "", err
	}
	if scheme, path, ok := strings.Cut(value, "://"); ok && (scheme == "unix" || scheme == "unixs") {
		if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#%") || !flags.Printable(path) {
			return "", flags.Refuse(value, "no absolute path after the scheme", "use one like unix:///run/tulle/etcd.sock")
		}
		return value, nil
	}
	u, err := hostURL(value, "use http, https, unix or unixs")
	if err != nil {
		return "", err
	}
	if a, err := netip.ParseAddr(u.Hostname()); u.Hostname() != "localhost" && (err != nil || a.Zone() != "") {
		return "", flags.Refuse(value, "not an address to listen on", "use one of this host's addresses, or 0.0.0.0 or [::] for all")
	}
	if u.Port() == "0" {
		return "", flags.Refuse(value, "port 0 is another port at every start", "use etcd's, 2379")
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String(), nil
}

// Loopback reports whether only this host can reach a URL that Listen has read.
func Loopback(listen string) bool {
	u, err := url.Parse(listen)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// Encrypted reports whether the connection to one of urls is encrypted, or stays on this
// host in a socket.
func Encrypted(urls []string) bool {
	return slices.ContainsFunc(urls, func(u string) bool {
		return strings.HasPrefix(u, "https:") || strings.HasPrefix(u, "unix")
	})
}
