package kube

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
)

// dialLimit is how long connecting may take, and the interval of probes of a silent
// connection, as in client-go.
const dialLimit = 30 * time.Second

// Options select an API server, and name the program that uses it.
type Options struct {
	// Server is the API server's URL, Kubeconfig the path of a kubeconfig. Without
	// either it is the API server of the pod that the program runs in.
	Server, Kubeconfig string
	// Name is the user agent, and the field manager of writes.
	Name string
	// OwnWatches gives watches a connection that no other request uses. An API server
	// that answers many writes on the same connection falls behind with a watch, and
	// ends it.
	OwnWatches bool
}

// Client makes requests to an API server.
type Client struct {
	options   Options
	streaming streaming

	mu         sync.Mutex
	connection connection
	wrap       func(http.RoundTripper) http.RoundTripper
}

// connection is an HTTP client of the API server. client-go authenticates, and re-reads
// tokens and client certificates when their files change. It does not re-read the
// trusted authorities, nor the kubeconfig.
type connection struct {
	http, watches *http.Client // the same, without OwnWatches
	base          *url.URL
	files         []file // the kubeconfig, and the authorities' certificates
}

// close closes idle connections.
func (c connection) close() {
	c.http.CloseIdleConnections()
	c.watches.CloseIdleConnections()
}

// wrap wraps the transports.
func (c connection) wrap(wrap func(http.RoundTripper) http.RoundTripper) {
	c.http.Transport = wrap(c.http.Transport)
	if c.watches != c.http {
		c.watches.Transport = wrap(c.watches.Transport)
	}
}

// NewClient returns a client. It does not wait for the API server.
func NewClient(o Options) (*Client, error) {
	c := &Client{options: o}
	var err error
	if c.connection, err = c.connect(); err != nil {
		return nil, err
	}
	return c, nil
}

// Server returns the API server's URL.
func (c *Client) Server() string { return c.current().base.String() }

// Close closes idle connections.
func (c *Client) Close() { c.current().close() }

// Wrap wraps the client's transport, also after the client re-reads its files.
// Callers count or trace requests with it.
func (c *Client) Wrap(wrap func(http.RoundTripper) http.RoundTripper) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrap = wrap
	c.connection.wrap(wrap)
}

// current returns the connection for the present content of the files: an operator may
// replace a kubeconfig, and a cluster may get other authorities. It ignores an unusable
// change.
func (c *Client) current() connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	path := changed(c.connection.files)
	if path == "" {
		return c.connection
	}
	next, err := c.connect()
	if err != nil {
		klog.ErrorS(err, "Ignored an unusable change of the kubeconfig or of the API server's CA file", "path", path)
		return c.connection
	}
	klog.InfoS("Re-read the kubeconfig or the API server's CA file", "path", path)
	c.connection.close()
	c.connection = next
	c.streaming.reset()
	return next
}

// connect returns a connection according to the files.
func (c *Client) connect() (connection, error) {
	o := c.options
	files := fileAt(o.Kubeconfig)
	var config *rest.Config
	var err error
	if o.Kubeconfig == "" && o.Server == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags(o.Server, o.Kubeconfig)
		err = describe(o.Kubeconfig, err)
	}
	if err != nil {
		return connection{}, err
	}
	config.UserAgent = o.Name
	if config.BearerTokenFile != "" {
		// When the server rejects a token, the file may already hold the next one. By
		// itself, client-go re-reads it only once a minute.
		config.Wrap(transport.ResettableTokenSourceWrapTransport(transport.NewCachedFileTokenSource(config.BearerTokenFile)))
		config.BearerToken, config.BearerTokenFile = "", ""
	}
	files = append(files, fileAt(config.CAFile)...)
	if config.CAFile != "" && len(config.CAData) == 0 {
		// With the path alone, client-go would re-read the file, but only every five
		// minutes.
		if config.CAData, err = os.ReadFile(config.CAFile); err != nil {
			return connection{}, fmt.Errorf("read the API server's authorities: %w", err)
		}
		config.CAFile = ""
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return connection{}, err
	}
	watches := client
	if o.OwnWatches {
		// client-go shares the connections of all clients that dial in the same way.
		config.Dial = (&net.Dialer{Timeout: dialLimit, KeepAlive: dialLimit}).DialContext
		if watches, err = rest.HTTPClientFor(config); err != nil {
			return connection{}, err
		}
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return connection{}, fmt.Errorf("the API server's URL: %w", err)
	}
	next := connection{client, watches, base, files}
	if c.wrap != nil {
		next.wrap(c.wrap)
	}
	return next, nil
}
