package etcdtest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
)

// variable is the environment variable that holds the config of a process that becomes
// a server.
const variable = "TULLE_ETCDTEST"

// config is the config of a server.
type config struct {
	Name, Dir, Client, Peer, Cluster string
	CertFile, KeyFile, CAFile        string
	Quota                            int64
}

// Main is what TestMain calls first. In a process that has the variable, it runs the
// server and does not return.
func Main() {
	text, ok := os.LookupEnv(variable)
	if !ok {
		return
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs a server until a signal stops it.
func serve(text string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	var o config
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	client, err := url.Parse(o.Client)
	if err != nil {
		return err
	}
	peer, err := url.Parse(o.Peer)
	if err != nil {
		return err
	}
	c := embed.NewConfig()
	c.Name, c.Dir, c.InitialCluster = o.Name, o.Dir, o.Cluster
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	if o.CertFile != "" {
		// If HTTP has a listener of its own, etcd does not serve gRPC through net/http,
		// where with TLS grpc.Server.Stop can wait forever for a client that watches.
		// Without TLS, etcd serves metrics on the listener of gRPC, where tests read
		// them.
		c.ListenClientHttpUrls = []url.URL{{Scheme: "unix", Host: o.Dir + ".http"}}
	}
	c.ClientTLSInfo = transport.TLSInfo{CertFile: o.CertFile, KeyFile: o.KeyFile, TrustedCAFile: o.CAFile, ClientCertAuth: o.CAFile != ""}
	c.QuotaBackendBytes = o.Quota
	c.LogLevel = "error"
	c.UnsafeNoFsync = true // only this process dies, not the machine
	c.TickMs, c.ElectionMs = 50, 500
	c.BcryptCost = 4 // the smallest allowed
	serving := make(chan *grpc.Server, 1)
	c.ServiceRegister = func(s *grpc.Server) { serving <- s }
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	select {
	case err = <-e.Err():
	case <-stop:
	case s := <-serving:
		select {
		case err = <-e.Err():
		case <-stop:
		}
		s.Stop() // Close would wait for the clients' streams
	}
	e.Close()
	return err
}
