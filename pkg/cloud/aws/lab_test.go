package aws

import (
	"context"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// tag marks the cluster's objects.
const tag = "kubernetes.io/cluster/prod"

var tagged = map[string]string{tag: "owned"}

// newClient returns a Client of the account, with settings of a cloud config.
func newClient(t testing.TB, config string) *Client {
	t.Helper()
	parsed, _, err := ParseConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(t.Context(), Options{Config: parsed, Cluster: "prod", Agent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newAccount returns an account and its Client.
func newAccount(t *testing.T) (*awstest.Server, *Client) {
	t.Helper()
	f := awstest.New(t)
	f.Setenv(t)
	return f, newClient(t, "")
}

// idOf returns an instance's ID as a Node's providerID has it.
func idOf(i awstest.Instance) string { return providerID(i.Zone, i.ID) }

func idsOf(all []awstest.Instance) (ids []string) {
	for _, i := range all {
		ids = append(ids, idOf(i))
	}
	return ids
}

// within returns a context that ends after a time.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// wantKind reports an error of another kind.
func wantKind(t testing.TB, err error, want cloud.Kind) {
	t.Helper()
	if err == nil || cloud.KindOf(err) != want {
		t.Errorf("%v, want one that is %s", err, want)
	}
}
