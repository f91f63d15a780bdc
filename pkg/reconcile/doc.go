// Package reconcile drives a kernel to a desired state and keeps it there. It
// knows of the kernel only what Kernel says, and of the desired state only who
// wants which objects.
package reconcile
