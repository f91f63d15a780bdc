package kubetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
)

// adminToken is the admin's token. Only tests reach a server that accepts it.
const adminToken = "admin-of-a-test"

const rbac = "/apis/rbac.authorization.k8s.io/v1/"

// Rule is a rule of a role.
type Rule struct {
	APIGroups []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
	// ResourceNames limits the rule to these objects; none means all.
	ResourceNames []string `json:"resourceNames,omitempty"`
}

// ControllerRules are all RBAC rules that tulle-controller needs. It needs those of
// ClusterCIDRs only if podCIDRs come from ClusterCIDRs.
var ControllerRules = []Rule{
	{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch", "patch"}},
	{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"servicecidrs"}, Verbs: []string{"list", "watch"}},
	{APIGroups: []string{"networking.x-k8s.io"}, Resources: []string{"clustercidrs"}, Verbs: []string{"list", "watch", "patch"}},
	{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "update", "list", "watch"}, ResourceNames: []string{"tulle-controller"}},
}

// ServiceAccount creates a service account with the rules only. It returns the path of
// a kubeconfig with the account's token.
func (c *Cluster) ServiceAccount(namespace, name string, rules ...Rule) (kubeconfig string) {
	c.t.Helper()
	named := map[string]any{"name": name}
	// The API server creates its own namespaces some time after it is ready.
	c.await("the API server has the namespace "+namespace, func() error {
		return c.Try(http.MethodGet, "/api/v1/namespaces/"+namespace, nil, nil)
	})
	c.Do(http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts", map[string]any{"metadata": named}, nil)
	c.Do(http.MethodPost, rbac+"clusterroles", map[string]any{"metadata": named, "rules": rules}, nil)
	c.Do(http.MethodPost, rbac+"clusterrolebindings", map[string]any{
		"metadata": named, "roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": name, "namespace": namespace}},
	}, nil)
	return c.Kubeconfig(c.Token(namespace, name).Text)
}

// Allow replaces the rules of a service account. Without rules it may do nothing.
func (c *Cluster) Allow(name string, rules ...Rule) {
	c.t.Helper()
	if rules == nil {
		rules = []Rule{}
	}
	c.Do(http.MethodPatch, rbac+"clusterroles/"+name, map[string]any{"rules": rules}, nil)
}

// Token is a token of a service account.
type Token struct {
	Text string

	cluster *Cluster
	secret  string // the path of the Secret that it is bound to
}

// Token creates a token that is valid for a day, or until it is revoked.
func (c *Cluster) Token(namespace, account string) Token {
	c.t.Helper()
	secrets := "/api/v1/namespaces/" + namespace + "/secrets"
	name := fmt.Sprintf("token-%d", mathrand.Uint64())
	var secret struct{ Metadata struct{ UID string } }
	c.Do(http.MethodPost, secrets, map[string]any{"metadata": map[string]any{"name": name}}, &secret)
	var token struct{ Status struct{ Token string } }
	c.Do(http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+account+"/token", map[string]any{"spec": map[string]any{
		"expirationSeconds": 86400,
		"boundObjectRef":    map[string]any{"apiVersion": "v1", "kind": "Secret", "name": name, "uid": secret.Metadata.UID},
	}}, &token)
	return Token{token.Status.Token, c, secrets + "/" + name}
}

// Revoke makes a token invalid. The API server caches valid tokens for up to ten
// seconds, and continues the watches that it began.
func (k Token) Revoke() {
	k.cluster.t.Helper()
	k.cluster.Do(http.MethodDelete, k.secret, nil, nil)
}

// CAFile returns the path of the CA certificate that clients trust.
func (c *Cluster) CAFile() string { return c.files.CA }

// CAKey returns the private key of that certificate, in PEM.
func (c *Cluster) CAKey() []byte {
	c.t.Helper()
	return c.signer.Key()
}

// Admin writes a kubeconfig for an admin, and returns its path.
func (c *Cluster) Admin() string {
	c.t.Helper()
	return c.Kubeconfig(adminToken)
}

// Kubeconfig writes a kubeconfig with a token, and returns its path.
func (c *Cluster) Kubeconfig(token string) string {
	c.t.Helper()
	return c.kubeconfig(c.URL, map[string]any{"token": token})
}

// KubeconfigAt writes a kubeconfig with another URL, such as a proxy's, and the path of
// a file with a token.
func (c *Cluster) KubeconfigAt(url, tokenFile string) string {
	c.t.Helper()
	return c.kubeconfig(url, map[string]any{"tokenFile": tokenFile})
}

func (c *Cluster) kubeconfig(url string, user map[string]any) string {
	c.t.Helper()
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": []any{map[string]any{"name": "test", "cluster": map[string]any{"server": url, "certificate-authority": c.files.CA}}},
		"users":    []any{map[string]any{"name": "test", "user": user}},
		"contexts": []any{map[string]any{"name": "test", "context": map[string]any{"cluster": "test", "user": "test"}}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return c.write(fmt.Sprintf("kubeconfig-%d", mathrand.Uint64()), string(text))
}

func (c *Cluster) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// serviceAccountKey creates the key that signs the tokens of service accounts, and
// returns its path.
func (c *Cluster) serviceAccountKey() string {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.write("accounts.pem", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
}
