// Package reconcile drives a kernel to a desired state and keeps it there. It knows
// of the kernel only what Kernel offers, and of the desired state only which owner
// wants which objects.
package reconcile
