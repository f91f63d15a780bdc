package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
)

// client speaks to an API server. What is said is little enough to be said here.
type client struct {
	options   Options
	streaming streaming

	mu   sync.Mutex
	line line
}

// line is a way to an API server. Client-go says who we are and whom we believe,
// from what a pod has mounted or a kubeconfig says, and reads tokens and client
// certificates again when their files change, but not whom we believe.
type line struct {
	http *http.Client
	base *url.URL
	by   []file // the kubeconfig, and the authorities' certificates
}

const (
	protobuf = "application/vnd.kubernetes.protobuf"
	asJSON   = "application/json"
	patching = "application/merge-patch+json"
	merging  = "application/strategic-merge-patch+json"
)

func newClient(o Options) (*client, error) {
	l, err := newLine(o)
	return &client{options: o, line: l}, err
}

// now is the way to the server as files have it now: who runs outside a pod has a
// new kubeconfig put in its place, and clusters get other authorities. One that is
// of no use changes nothing.
func (c *client) now() line {
	c.mu.Lock()
	defer c.mu.Unlock()
	path := changed(c.line.by)
	if path == "" {
		return c.line
	}
	l, err := newLine(c.options)
	if err != nil {
		klog.ErrorS(err, "A file that leads to the API server has changed, and is of no use; going on with what it said before", "path", path)
		return c.line
	}
	klog.InfoS("Read a file again that leads to the API server and has changed", "path", path)
	c.line.http.CloseIdleConnections()
	c.line = l
	c.streaming.forget()
	return l
}

func newLine(o Options) (line, error) {
	var c *rest.Config
	var err error
	by := fileAt(o.Kubeconfig)
	if o.Kubeconfig == "" && o.Server == "" {
		if c, err = rest.InClusterConfig(); err != nil {
			return line{}, fmt.Errorf("%w; outside a pod give --kubeconfig-file or --kube-api-url", err)
		}
	} else if c, err = clientcmd.BuildConfigFromFlags(o.Server, o.Kubeconfig); err != nil {
		return line{}, err
	}
	c.UserAgent = "tulled"
	if c.BearerTokenFile != "" {
		// Where the server does not believe a token, the file may have another already:
		// by itself client-go looks once a minute.
		c.Wrap(transport.ResettableTokenSourceWrapTransport(transport.NewCachedFileTokenSource(c.BearerTokenFile)))
		c.BearerToken, c.BearerTokenFile = "", ""
	}
	by = append(by, fileAt(c.CAFile)...)
	if c.CAFile != "" && len(c.CAData) == 0 {
		// The path alone would be client-go's to follow: it looks every five minutes.
		if c.CAData, err = os.ReadFile(c.CAFile); err != nil {
			return line{}, fmt.Errorf("read the API server's authorities: %w", err)
		}
		c.CAFile = ""
	}
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		return line{}, err
	}
	base, _, err := rest.DefaultServerUrlFor(c)
	return line{h, base, by}, err
}

// Server is the API server's URL.
func (s *Store) Server() string { return s.client.now().base.String() }

func (c *client) close() { c.now().http.CloseIdleConnections() }

// apiError is an answer other than the one that was asked for.
type apiError struct {
	Code    int
	Message string
	After   time.Duration // for which it is not to be asked again
	Lost    bool          // what was seen last is not known there
}

func (e *apiError) Error() string {
	return fmt.Sprintf("the API server answers %d (%s): %.300q", e.Code, http.StatusText(e.Code), e.Message)
}

func code(err error) int {
	var e *apiError
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// do makes a request. The caller closes what it is answered.
func (c *client) do(ctx context.Context, method string, path []string, query url.Values, content string, body []byte, accept string) (*http.Response, error) {
	l := c.now()
	to := l.base.JoinPath(path...)
	to.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	if body != nil {
		request.Header.Set("Content-Type", content)
	}
	r, err := roundTrip(l.http, request)
	if err != nil {
		return nil, err
	}
	if r.StatusCode == http.StatusOK || r.StatusCode == http.StatusCreated {
		wanted, _, _ := strings.Cut(accept, ";")
		if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != wanted {
			r.Body.Close()
			return nil, fmt.Errorf("%w: it is %q", errMessage, kind)
		}
		return r, nil
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(r.Body, 64<<10)) // what is missing is missing from an error's text
	return nil, refusal(r, text)
}

// refusal is what an answer that is not OK says.
func refusal(r *http.Response, text []byte) error {
	e := &apiError{Code: r.StatusCode, Message: string(bytes.TrimSpace(text))}
	if seconds, err := strconv.ParseUint(r.Header.Get("Retry-After"), 10, 16); err == nil {
		e.After = time.Duration(seconds) * time.Second
	}
	// Who is asked for metadata alone refuses in JSON.
	var s status
	kind, object, err := unwrap(text)
	if err == nil && kind == "Status" && s.look(object) == nil || s.readJSON(text) {
		e.take(s)
		e.Code = r.StatusCode
	}
	return e
}

func (e *apiError) take(s status) {
	e.Code, e.Message, e.Lost = int(min(s.code, 999)), s.message, s.tooNew
	e.After = max(e.After, time.Duration(min(s.after, 1<<16))*time.Second)
}

var nodesPath = []string{"api", "v1", "nodes"}

// list lists Nodes of one form.
func (c *client) list(ctx context.Context, f form, query url.Values, to func(node []byte) error) (revision, more string, err error) {
	r, err := c.do(ctx, http.MethodGet, nodesPath, query, "", nil, f.acceptList)
	if err != nil {
		return "", "", err
	}
	defer r.Body.Close()
	return readList(r.Body, f.list, to)
}

// watch begins a watch of Nodes of one form.
func (c *client) watch(ctx context.Context, f form, query url.Values) (io.ReadCloser, error) {
	r, err := c.do(ctx, http.MethodGet, nodesPath, query, "", nil, f.accept+";stream=watch")
	if err != nil {
		return nil, err
	}
	return r.Body, nil
}

// get fetches one Node whole.
func (c *client) get(ctx context.Context, node string) (*view, error) {
	r, err := c.do(ctx, http.MethodGet, append(nodesPath[:len(nodesPath):len(nodesPath)], url.PathEscape(node)), nil, "", nil, protobuf)
	if err != nil {
		return nil, err
	}
	return readNode(r, node)
}

// patch changes a Node by what else than its spec there is, and returns what it
// has come to be.
func (c *client) patch(ctx context.Context, node, content string, change []byte) (*view, error) {
	// To change its status is all that a kubelet may do to its Node, and flannel.
	path := append(nodesPath[:len(nodesPath):len(nodesPath)], url.PathEscape(node), "status")
	r, err := c.do(ctx, http.MethodPatch, path, url.Values{"fieldManager": {"tulled"}}, content, change, protobuf)
	if err != nil {
		return nil, err
	}
	return readNode(r, node)
}

// readNode reads an answer that is the Node of that name.
func readNode(r *http.Response, name string) (*view, error) {
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, largest))
	if err != nil {
		return nil, err
	}
	kind, object, err := unwrap(text)
	if err == nil && kind != "Node" {
		err = fmt.Errorf("%w: a %.50q in a Node's place", errMessage, kind)
	}
	if err != nil {
		return nil, err
	}
	v := &view{}
	if err = v.look(object); err == nil && string(v.name) != name {
		err = fmt.Errorf("%w: Node %.50q in the place of %s", errMessage, v.name, name)
	}
	return v, err
}

// create makes an object.
func (c *client) create(ctx context.Context, path []string, object []byte) error {
	r, err := c.do(ctx, http.MethodPost, path, url.Values{"fieldManager": {"tulled"}}, asJSON, object, asJSON)
	if err != nil {
		return err
	}
	return r.Body.Close()
}

// nodeOf is the name of the Node that a pod runs on.
func (c *client) nodeOf(ctx context.Context, namespace, pod string) (string, error) {
	path := []string{"api", "v1", "namespaces", url.PathEscape(namespace), "pods", url.PathEscape(pod)}
	r, err := c.do(ctx, http.MethodGet, path, nil, "", nil, asJSON)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	var doc struct{ Spec struct{ NodeName string } }
	if err := json.NewDecoder(io.LimitReader(r.Body, largest)).Decode(&doc); err != nil {
		return "", err
	}
	if doc.Spec.NodeName == "" {
		return "", fmt.Errorf("pod %s/%s is on no Node", namespace, pod)
	}
	return doc.Spec.NodeName, nil
}
