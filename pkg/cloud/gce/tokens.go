package gce

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"golang.org/x/oauth2"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// tokenLimit is how long a token server may take to answer.
const tokenLimit = 10 * time.Second

// tokens hands out tokens. A source of tokens takes no context, so it has a goroutine of
// its own: if the source hangs, only that goroutine does.
type tokens struct {
	source oauth2.TokenSource
	free   chan struct{} // holds what the goroutine takes that asks the source
}

func newTokens(source oauth2.TokenSource) tokens {
	t := tokens{oauth2.ReuseTokenSource(nil, source), make(chan struct{}, 1)}
	t.free <- struct{}{}
	return t
}

// get returns a token.
func (t tokens) get(ctx context.Context) (*oauth2.Token, error) {
	type answer struct {
		token *oauth2.Token
		err   error
	}
	select {
	case <-t.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	got := make(chan answer, 1)
	go func() {
		token, err := t.source.Token()
		got <- answer{token, err}
		t.free <- struct{}{}
	}()
	select {
	case a := <-got:
		return a.token, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// noToken returns the error of a request that got no token.
func noToken(action string, err error) error {
	e := &cloud.Error{Kind: cloud.Unavailable, Action: action, Text: "no token: " + hide(err).Error()}
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response != nil && refused.Response.StatusCode < 500 {
		e.Kind = cloud.Denied
	}
	return e
}

// hide returns err without what may be secret: the body of a token server's answer, and
// an address.
func hide(err error) error {
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok && e.Response != nil {
		return fmt.Errorf("the token server answers %s (%.60q); check the service account and its key", e.Response.Status, e.ErrorCode)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
