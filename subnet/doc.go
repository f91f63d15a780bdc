// Package subnet is the domain: what a network is (Config), what a node holds
// of it (Lease), how both are written where flannel reads them, which subnet a
// node tries for (Candidates), which leases of others may be believed (Table),
// and what is asked of the place that keeps them (Store). It knows neither a
// kernel nor a datastore.
package subnet
