// Package links is a kernel some of whose links are moved by programs in user space.
// What only such a program holds goes to it, and everything else to the real kernel. So
// the loop that heals the kernel heals these programs as well.
package links
