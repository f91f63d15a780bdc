package daemon

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/httpd"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/web"
)

// State implements web.Source.
func (r reporter) State(ctx context.Context) web.State {
	v := r.FullView(ctx)
	return web.State{Report: r.report(v), Resyncs: v.Kernel.Resyncs}
}

// serveWeb serves HTTP until ctx ends, if it is enabled. The network works without
// it.
func serveWeb(ctx context.Context, o options.Health, s web.Source) {
	if o.Port == 0 {
		return
	}
	if err := web.Serve(ctx, web.Options{Program: options.Program, Peers: o.Peers, Options: httpd.Options{
		Address: o.Address, Port: o.Port, Pprof: o.Pprof, AddressSetting: "--healthz-ip", PortSetting: "--healthz-port",
	}}, s); err != nil {
		klog.ErrorS(err, "Stopped serving health and metrics")
	}
}
