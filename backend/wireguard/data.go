package wireguard

import (
	"encoding/json"
	"fmt"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// data is the backend data of a lease: where a node listens, and its public key.
type data struct {
	key  netstate.PublicKey
	port uint16 // 0 in those of old flannels
	// second is the key of the second tunnel that the node offers; zero if it offers none.
	second     netstate.PublicKey
	secondPort uint16
}

// wireData is data as flannel writes it, with a field that flannel ignores.
type wireData struct {
	PublicKey string
	Port      uint16
	Second    *wireData `json:",omitempty"`
}

func (d data) format() string {
	w := wireData{PublicKey: d.key.String(), Port: d.port}
	if !d.second.IsZero() {
		w.Second = &wireData{PublicKey: d.second.String(), Port: d.secondPort}
	}
	b, err := json.Marshal(w)
	if err != nil {
		panic(err) // a text and a number can always be encoded
	}
	return string(b)
}

func parseData(s string) (data, error) {
	var w wireData
	if err := json.Unmarshal([]byte(s), &w); err != nil {
		return data{}, fmt.Errorf("%w: %.100s", backend.ErrBackendData, err)
	}
	key, err := netstate.ParsePublicKey(w.PublicKey)
	if err != nil {
		return data{}, fmt.Errorf("%w: PublicKey %w", backend.ErrBackendData, err)
	}
	d := data{key: key, port: w.Port}
	if w.Second != nil {
		if d.second, err = netstate.ParsePublicKey(w.Second.PublicKey); err != nil {
			return data{}, fmt.Errorf("%w: Second.PublicKey %w", backend.ErrBackendData, err)
		}
		d.secondPort = w.Second.Port
	}
	return d, nil
}
