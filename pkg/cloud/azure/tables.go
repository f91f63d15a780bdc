package azure

import (
	"context"
	"fmt"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// tableID returns the resource ID of the route table.
func (c *Client) tableID() string {
	return "/subscriptions/" + c.config.TableSubscription + "/resourceGroups/" + c.config.TableGroup + "/providers/Microsoft.Network/routeTables/" + c.config.Table
}

func (c *Client) tablePath() string {
	return inGroup(c.config.TableSubscription, c.config.TableGroup, "Microsoft.Network", "routeTables", c.config.Table)
}

// tableKey is what the ledger calls the table.
func (c *Client) tableKey() string { return strings.ToLower(c.tableID()) }

// Tables returns the route table of the cloud config. Azure has no networks that tables are
// of: a table is used by the subnets that name it.
func (c *Client) Tables(ctx context.Context) ([]cloud.Table, error) {
	t, err := c.readTable(ctx)
	if err != nil {
		return nil, err
	}
	v := cloud.Table{ID: c.tableKey(), Name: c.config.Table, Ours: "routeTableName of the cloud config", Quota: c.most.get(ctx, c)}
	for _, r := range t.rows {
		v.Routes = append(v.Routes, r.route)
	}
	return []cloud.Table{v}, nil
}

// readTable reads the route table.
func (c *Client) readTable(ctx context.Context) (t routeTable, err error) {
	missing := func(format string, args ...any) error {
		return &cloud.Error{Kind: cloud.Missing, Action: readTable, Text: fmt.Sprintf(format, args...)}
	}
	if c.config.Table == "" {
		return t, missing("the cloud config names no route table; set routeTableName to the one that the Nodes' subnet uses")
	}
	whole, err := get[document](ctx, c, readTable, c.tablePath(), networkVersion)
	if cloud.KindOf(err) == cloud.Missing {
		return t, missing("resource group %s has no route table %s; create it, and associate it with the Nodes' subnet (az network route-table create, az network vnet subnet update --route-table), or correct routeTableName", c.config.TableGroup, c.config.Table)
	}
	if err != nil {
		return t, err
	}
	return tableOf(whole, c.tableID())
}
