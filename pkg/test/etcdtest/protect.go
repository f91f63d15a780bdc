package etcdtest

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// rootPassword is root's, once authentication is on.
const rootPassword = "a root's secret"

// Protect turns on authentication. The cluster's own calls, and clients made from now
// on, are root's. Each user has a password and the permissions under prefix that a node
// needs according to Documentation/security.md: to read everything, and to write
// leases.
func (c *Cluster) Protect(prefix string, users map[string]string) {
	c.t.Helper()
	c.do("ask for names", func(ctx context.Context, client *clientv3.Client) error {
		var all []error
		tried := func(_ any, err error) { all = append(all, err) }
		add := func(name, password, role string) {
			tried(client.UserAdd(ctx, name, password))
			tried(client.UserGrantRole(ctx, name, role))
		}
		const role = "node"
		leases := prefix + "/subnets/"
		end := clientv3.GetPrefixRangeEnd(leases)
		tried(client.RoleAdd(ctx, role))
		tried(client.RoleGrantPermission(ctx, role, prefix+"/config", end, clientv3.PermissionType(clientv3.PermRead)))
		tried(client.RoleGrantPermission(ctx, role, leases, end, clientv3.PermissionType(clientv3.PermReadWrite)))
		for name, password := range users {
			add(name, password, role)
		}
		tried(client.RoleAdd(ctx, "root"))
		add("root", rootPassword, "root")
		tried(client.AuthEnable(ctx))
		return errors.Join(all...)
	})
	c.username, c.password = "root", rootPassword
}
