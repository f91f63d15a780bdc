package main

import (
	"bytes"
	"maps"
	"net"
	"sync"

	"golang.zx2c4.com/wireguard/device"
)

// peers knows a device's peers, which the device does not list. Clients of its sockets add and remove
// them.
type peers struct {
	mu  sync.Mutex
	all map[device.NoisePublicKey]*device.Peer
}

func newPeers() *peers { return &peers{all: make(map[device.NoisePublicKey]*device.Peer)} }

// drop drops the packets that wait for sessions. Only the goroutine that reads packets for the device
// may call it: packets to a peer with a session wait, too, but only until that goroutine reads again.
func (p *peers) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, peer := range p.all {
		peer.FlushStagedPackets()
	}
}

// changed records peers that were added, changed or removed.
func (p *peers) changed(d *device.Device, keys []device.NoisePublicKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range keys {
		if peer := d.LookupPeer(key); peer != nil {
			p.all[key] = peer
		} else {
			delete(p.all, key)
		}
	}
}

// replaced records that all peers may have been removed.
func (p *peers) replaced(d *device.Device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.all, func(key device.NoisePublicKey, peer *device.Peer) bool { return d.LookupPeer(key) != peer })
}

// client is a client of a socket, whose requests change peers. It waits for each answer.
type client struct {
	net.Conn
	device *device.Device
	peers  *peers

	line     []byte // the beginning of one that has not ended
	named    []device.NoisePublicKey
	replaces bool
}

// longest is the longest line that matters.
const longest = len("public_key=") + 2*device.NoisePublicKeySize

// Read implements net.Conn for a device that reads requests.
func (c *client) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for rest := b[:n]; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte{'\n'})
		c.line = append(c.line, line[:min(len(line), longest+1-len(c.line))]...)
		if ended {
			c.note(c.line)
			clear(c.line) // it may be a secret
			c.line = c.line[:0]
		}
		rest = after
	}
	return n, err
}

// note records what a line says of a request.
func (c *client) note(line []byte) {
	if string(line) == "replace_peers=true" {
		c.replaces = true
	}
	var key device.NoisePublicKey
	if text, ok := bytes.CutPrefix(line, []byte("public_key=")); ok && key.FromHex(string(text)) == nil {
		c.named = append(c.named, key)
	}
}

// Write implements net.Conn for a device that answers, and so has done what was asked.
func (c *client) Write(b []byte) (int, error) {
	if c.replaces {
		c.peers.replaced(c.device)
	}
	c.peers.changed(c.device, c.named)
	c.named, c.replaces = nil, false
	return c.Conn.Write(b)
}
