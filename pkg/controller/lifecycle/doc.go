// Package lifecycle follows what becomes of the instances of Nodes, as a cloud controller
// manager's cloud-node-lifecycle-controller does. A Node that is not ready gets the taint
// node.cloudprovider.kubernetes.io/shutdown while its instance is stopped, and is deleted
// when its instance is gone.
//
// Deletion is never a guess. A Node is deleted only
//   - if it is not ready, and its kubelet has not renewed its Lease meanwhile;
//   - after several complete answers over five minutes, all in this term, that this very
//     instance is terminated or absent. An error or a partial answer counts for nothing;
//   - if the last answer also showed that the cloud knows this cluster: instances of other
//     Nodes are there. After a change of account or region, the count begins again;
//   - if most Nodes are not gone at once, and few were deleted within the hour, all of
//     which this process has watched;
//   - if no kubelet worked under it after its instance was gone: another machine may have
//     got its name;
//   - if an instance that is absent, and was never shown as terminated, has been absent for
//     as long as the cloud shows terminated ones, and no ready Node is absent too.
//
// The judge decides, and has neither a clock nor a client. The Controller asks and writes.
package lifecycle
