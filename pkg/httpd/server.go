package httpd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/trouble"
)

// Options are where to serve, and what.
type Options struct {
	Address netip.Addr
	Port    uint16
	Pprof   bool // also serve profiles of the process
	// AddressSetting and PortSetting name Address and Port in errors, like --healthz-ip.
	AddressSetting, PortSetting string
}

const (
	// listenAgain is the pause between attempts to listen. At boot, the daemon may start
	// before its address appears.
	listenAgain = 2 * time.Second
	// mostConnections, mostWaiting and the time limits bound the cost of clients that
	// open connections and send little, or slowly. The connections beyond mostWaiting
	// are reserved for complete requests.
	mostConnections = 128
	mostWaiting     = 96
	headerLimit     = 5 * time.Second
	writeLimit      = 15 * time.Second
	idleLimit       = time.Minute
	mostHeader      = 1 << 14
	// endLimit is how long unfinished answers may delay the server's end.
	endLimit = time.Second
)

// Serve answers requests with mux until ctx ends. While it cannot listen, it logs the reason
// once, and retries.
func Serve(ctx context.Context, o Options, mux *http.ServeMux) error {
	listening := trouble.Outcome{Failed: "Failed to serve health and metrics; retrying"}
	for {
		l, err := listen(ctx, o)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				l.Close()
			}
			return nil
		case err == nil:
			klog.InfoS("Serving health, metrics and the status page", "address", l.Addr().String(), "pprof", o.Pprof)
			return serve(ctx, l, Handler(o, mux))
		}
		listening.Was(err)
		retry.Sleep(ctx, listenAgain)
	}
}

func listen(ctx context.Context, o Options) (net.Listener, error) {
	at := net.JoinHostPort(o.Address.String(), strconv.Itoa(int(o.Port)))
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("port %d of %s is in use; free it, or set another %s", o.Port, o.Address, o.PortSetting)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s is not an address of this host; set %s to one that is", o.Address, o.AddressSetting)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("port %d of %s is not permitted for this user; set another %s", o.Port, o.Address, o.PortSetting)
	case err != nil:
		return nil, fmt.Errorf("listen on %s (%s, %s): %w", at, o.AddressSetting, o.PortSetting, err)
	}
	return l, nil
}

func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerLimit, ReadTimeout: headerLimit, WriteTimeout: writeLimit, IdleTimeout: idleLimit,
		MaxHeaderBytes: mostHeader,
		ErrorLog:       klog.NewStandardLogger("ERROR"),
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
	newWaiting(mostWaiting).guard(server)
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		late, cancel := context.WithTimeout(context.Background(), endLimit)
		defer cancel()
		if server.Shutdown(late) != nil {
			server.Close()
		}
	})
	err := server.Serve(netutil.LimitListener(l, mostConnections))
	if stop() {
		server.Close()
		return fmt.Errorf("serve at %s: %w", l.Addr(), err)
	}
	<-ended
	return nil
}
