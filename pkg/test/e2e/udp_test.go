package e2e

import "testing"

const udpDual = `{"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48", "Backend": {"Type": "udp"}}`

// TestUDP runs a network of both families on the backend udp.
func TestUDP(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3, 1, udpDual)
	w.Matrix()
}
