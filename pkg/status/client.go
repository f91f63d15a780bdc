package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// ErrNoDaemon is a socket that no daemon serves.
var ErrNoDaemon = errors.New("no daemon answers")

// Client asks a daemon on this host.
type Client struct {
	path    string
	setting string // the name of path's setting
	http    http.Client
	now     time.Time // by the daemon's clock, at its last answer; zero before
}

// Dial returns a client of the socket at path. It does nothing until it is asked.
// Errors call the path's setting by its name, like --status-socket.
func Dial(path, setting string) *Client {
	c := &Client{path: path, setting: named(setting)}
	c.http.Timeout = 2 * answerLimit
	c.http.Transport = &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}
	return c
}

// Report asks for the daemon's state.
func (c *Client) Report(ctx context.Context) (r Report, err error) {
	return r, c.ask(ctx, "status", &r)
}

// Peers asks for all peers.
func (c *Client) Peers(ctx context.Context) (p []Peer, err error) {
	return p, c.ask(ctx, "peers", &p)
}

// Leases asks for the config in force and all leases.
func (c *Client) Leases(ctx context.Context) (l Leases, err error) {
	return l, c.ask(ctx, "leases", &l)
}

// Explain asks what the network makes of an address.
func (c *Client) Explain(ctx context.Context, a netip.Addr) (e Explanation, err error) {
	return e, c.ask(ctx, "explain?ip="+url.QueryEscape(a.String()), &e)
}

// Now returns the daemon's time at its last answer, to which the times in that answer
// refer. A clock that is set between two looks at it makes no age wrong.
func (c *Client) Now() time.Time {
	if c.now.IsZero() {
		return time.Now()
	}
	return c.now
}

// mostRead is more than the answer of any network.
const mostRead = 256 << 20

func (c *Client) ask(ctx context.Context, what string, to any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://daemon/"+what, nil)
	if err != nil {
		return err
	}
	answer, err := c.http.Do(request)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w at %s; start it, or set %s as for the daemon", ErrNoDaemon, c.path, c.setting)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("only root may use %s; run as root", c.path)
	case err != nil:
		return fmt.Errorf("ask the daemon at %s: %w", c.path, c.inWords(err))
	}
	defer answer.Body.Close()
	if c.now, err = http.ParseTime(answer.Header.Get("Date")); err != nil {
		c.now = time.Time{}
	}
	body := io.LimitReader(answer.Body, mostRead)
	if answer.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(body, 1<<12))
		return fmt.Errorf("the daemon answers: %s", strings.TrimSpace(string(why)))
	}
	if err := json.NewDecoder(body).Decode(to); err != nil {
		return fmt.Errorf("read the daemon's answer: %w", c.inWords(err))
	}
	return nil
}

// inWords returns an error of HTTP without the request's URL, or what it means that
// the time is over.
func (c *Client) inWords(err error) error {
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return fmt.Errorf("no answer within %s: it is frozen or hangs; see its log, and restart it", c.http.Timeout)
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
