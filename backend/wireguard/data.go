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
}

// wireData is data as flannel writes it.
type wireData struct {
	PublicKey string
	Port      uint16
}

func (d data) format() string {
	b, err := json.Marshal(wireData{d.key.String(), d.port})
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
	return data{key, w.Port}, nil
}
