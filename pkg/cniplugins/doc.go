// Package cniplugins puts CNI plugins where container runtimes look for them, and
// leaves alone what others put there.
//
// What it installed it knows again by a list of checksums beside the plugins: a
// plugin that is still as it was installed is replaced by the one of another
// version, and one that another program wrote, whatever its version, is not.
package cniplugins
