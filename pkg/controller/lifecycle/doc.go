// Package lifecycle follows the instances of Nodes, like the cloud-node-lifecycle-controller
// of a cloud controller manager. An unready Node gets the taint
// node.cloudprovider.kubernetes.io/shutdown while its instance is stopped. The controller
// deletes the Node when its instance is gone.
//
// Deletion is never a guess. A Node is deleted only if all of these conditions hold:
//   - The Node is unready, and its kubelet has not renewed its Lease meanwhile.
//   - Several complete answers over five minutes, all in this term, show this instance as
//     terminated or absent. An error or a partial answer does not count.
//   - The last answer also shows instances of other Nodes of this cluster. After a change of
//     account or region, the count restarts.
//   - At most half of the Nodes are gone.
//   - Few Nodes were deleted within the hour, and this process has watched the whole hour.
//   - No kubelet has used the Node after its instance was gone: another machine may have the
//     same name.
//   - If the cloud never showed the instance as terminated, the instance has been absent for
//     as long as the cloud shows terminated ones, and no ready Node's instance is absent.
//
// The judge decides, and has neither a clock nor a client. The Controller reads and writes.
package lifecycle
