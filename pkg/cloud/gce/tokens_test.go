package gce

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/gce/gcetest"
)

// key writes the key file of a service account, whose tokens come from uri.
func key(t *testing.T, uri string) (file, secret string) {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	secret = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": gcetest.Project, "private_key_id": "1", "private_key": secret,
		"client_email": "tulle@my-project-1.iam.gserviceaccount.com", "token_uri": uri,
	})
	file = filepath.Join(t.TempDir(), "key.json")
	if err := errors.Join(err, os.WriteFile(file, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	return file, secret
}

func TestTokenFromAKeyFile(t *testing.T) {
	s := gcetest.New(t)
	s.Add(zone, "worker-1", "pods")
	file, _ := key(t, s.URL+"/token")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	c, err := New(t.Context(), Options{Endpoint: s.Endpoint()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		if i := one(t, c, id1); i.Name != "worker-1" {
			t.Errorf("%+v", i)
		}
	}
	if c.Project() != gcetest.Project || s.Tokens != 1 {
		t.Errorf("project %s, %d tokens for three requests", c.Project(), s.Tokens)
	}
}

func TestTokenFromTheMetadataServer(t *testing.T) {
	s := gcetest.New(t)
	s.Add(zone, "worker-1", "pods")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(s.URL, "http://"))
	c, err := New(t.Context(), Options{Endpoint: s.Endpoint()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if i := one(t, c, id1); i.Name != "worker-1" || c.Project() != gcetest.Project {
		t.Errorf("%+v in %s", i, c.Project())
	}
}

// The token server repeats what it was sent. None of that is in the error.
func TestNoSecretIsInAnError(t *testing.T) {
	s := gcetest.New(t)
	file, secret := key(t, s.URL+"/nowhere")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	c, err := New(t.Context(), Options{Endpoint: s.Endpoint()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Instances(within(t, 10*time.Second), []string{id1})
	if err == nil || !strings.Contains(err.Error(), "token server answers 404") || strings.Contains(err.Error(), secret[40:80]) || strings.Contains(err.Error(), "eyJ") {
		t.Errorf("%v", err)
	}
	for call := range c.Calls() {
		if call.Outcome != cloud.Denied.String() {
			t.Errorf("%v", call)
		}
	}
	if err := os.WriteFile(file, []byte(`{"type":"service_account","private_key":"SECRET`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), Options{}); err == nil || strings.Contains(err.Error(), "SECRET") || !strings.Contains(err.Error(), "GOOGLE_APPLICATION_CREDENTIALS") {
		t.Errorf("%v", err)
	}
}

// hanging is a source of tokens that never answers.
type hanging struct{ end chan struct{} }

func (h hanging) Token() (*oauth2.Token, error) {
	<-h.end
	return nil, errors.New("ended")
}

func TestAHangingTokenServerHoldsUpNoCaller(t *testing.T) {
	s := gcetest.New(t)
	h := hanging{make(chan struct{})}
	defer close(h.end)
	c, err := NewWith(Options{Project: gcetest.Project, Endpoint: s.Endpoint()}, h)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.Instances(within(t, 50*time.Millisecond), []string{id1}); err == nil || s.Asked("") > 0 {
			t.Errorf("%v", err)
		}
	}
}

func TestProjects(t *testing.T) {
	source := oauth2.StaticTokenSource(&oauth2.Token{})
	for _, good := range []string{"my-project-1", "example.com:my-project"} {
		if _, err := NewWith(Options{Project: good}, source); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "x", "My-Project", "a/b/c/d/e", "project-"} {
		if _, err := NewWith(Options{Project: bad}, source); err == nil {
			t.Errorf("%q is no project", bad)
		}
	}
}
