package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/cloud/gce"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/nodeipam"
	"github.com/tulle-net/tulle/pkg/controller/route"
	"github.com/tulle-net/tulle/pkg/controller/service"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/httpd"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/page"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/systemd"
	"github.com/tulle-net/tulle/subnet"
	"github.com/tulle-net/tulle/subnet/etcd"
)

const (
	// mostWrite is how long a write may take. A leader that renews in time always has
	// more time left.
	mostWrite = 5 * time.Second
	// firstAttempt is how long to wait for the first attempt to lead before reading. A
	// leader that reads after it reads everything once.
	firstAttempt = time.Second
	// garbagePart is how much garbage the heap may have, in percent of the memory in use. With
	// 5,000 Nodes, 50 needs 3 MiB more than 20, and an eighth less of processor time.
	garbagePart = 50
)

// process is a running tulle-controller.
type process struct {
	settings settings
	client   *kube.Client  // nil with etcd
	store    *etcd.Store   // nil without etcd
	network  subnet.Config // in etcd
	engine   *controller.Engine
	ipam     allocator            // nil without node IPAM
	pools    *nodeipam.Controller // takes the pools of --node-pools; nil without it
	google   *gce.Client          // nil without Google's alias ranges
	cloud    cloudClient          // of --cloud-provider; nil without it
	services *service.Controller  // nil without it
	region   string               // of the cloud, if services is set
	routes   *route.Controller    // nil without routes
	accounts *accounts            // of clusters' networks; nil without their controller
	reports  []report
	elector  elector // nil without leader election
	started  time.Time
	changed  retry.Wakeup // for systemd
	name     string       // of the host
	policy   string       // of the status page
}

// connect returns a process that has not begun to read.
func (s settings) connect() (*process, error) {
	p := &process{settings: s, started: time.Now(), changed: retry.NewWakeup(), policy: page.Policy(style)}
	var err error
	if p.name, err = os.Hostname(); err != nil {
		return nil, fmt.Errorf("name this replica: %w", err)
	}
	if s.inEtcd() {
		err = p.connectEtcd()
	} else {
		err = p.connectCluster()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	o := controller.Options{Mode: s.mode, WriteTimeout: s.writeTimeout(), Changed: p.changed.Wake}
	if p.client != nil {
		o.Send = p.send
	}
	p.engine = controller.New(o)
	if err = p.addParts(); err != nil {
		p.close()
		return nil, err
	}
	return p, p.makeElector()
}

// connectCluster sets the client of the API server.
func (p *process) connectCluster() (err error) {
	s := p.settings
	if p.client, err = kube.NewClient(kube.Options{Server: s.master, Kubeconfig: s.kubeconfig, Name: "tulle-controller", OwnWatches: true}); err != nil {
		if s.master == "" && s.kubeconfig == "" {
			return fmt.Errorf("find the API server of this pod: %w; outside a pod use --kubeconfig", err)
		}
		return err
	}
	return nil
}

// close ends the connections.
func (p *process) close() {
	if p.client != nil {
		p.client.Close()
	}
	if p.store != nil {
		_ = p.store.Close()
	}
}

// elector elects a leader among the replicas.
type elector interface {
	Status() election.Status
	Run(ctx context.Context, lead func(ctx context.Context, t election.Term) (clean bool))
}

// report sets a controller's report: all of it, or only its progress, which costs the same
// in a cluster of any size. The loop calls it.
type report func(r *reading, all bool)

// addParts adds the controllers that have work. The command ipam only needs node IPAM.
func (p *process) addParts() error {
	s := &p.settings
	only := s.command == showIPAM
	if s.cloud.provider != "" && !only {
		if err := p.connectCloud(); err != nil {
			return err
		}
	}
	for _, part := range parts() {
		if s.runs(part) && (!only || part.name == nodeIPAMPart.name) {
			if err := part.add(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeTimeout returns how long a write may take. After a renewal, more time is left
// until the next one is due.
func (s settings) writeTimeout() time.Duration {
	if !s.elect.On {
		return mostWrite
	}
	return min(mostWrite, (s.elect.RenewDeadline-s.elect.RetryPeriod)/2)
}

// send creates an event.
func (p *process) send(ctx context.Context, ev controller.Event) error {
	return kube.Create(ctx, p.client, kube.Events(ev.Object.Namespace), kube.EventFormat, newEvent(ev, time.Now()))
}

// serve runs the controllers until SIGTERM or SIGINT.
func (s settings) serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	signal.Ignore(syscall.SIGHUP)
	klog.InfoS("Starting tulle-controller", "version", version, "options", strings.Join(s.given, " "))
	for _, warning := range s.cloud.warnings {
		klog.InfoS("Cloud config needs attention", "file", s.cloud.file, "warning", warning)
	}
	for _, warning := range s.exposed() {
		klog.InfoS("Secret is open to other users", "warning", warning)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePart)
	}
	p, err := s.connect()
	if err != nil {
		return err
	}
	defer p.close()
	if p.google != nil {
		defer p.google.Close()
	}
	p.run(ctx)
	return nil
}

// run runs the controllers until ctx ends.
func (p *process) run(ctx context.Context) {
	// The loop and its reports outlive ctx, until the last write has ended.
	loop, end := context.WithCancel(context.Background())
	defer end()
	var running sync.WaitGroup
	defer running.Wait()
	defer end()
	running.Go(func() { p.engine.Run(loop) })
	if p.settings.health.Port != 0 {
		running.Go(func() { p.serveHTTP(loop) })
	}
	if p.pools != nil {
		running.Go(func() { p.followPools(loop) })
	}
	service := systemd.New(condition{p})
	running.Go(func() { service.Run(loop, p.changed) })
	p.lead(ctx)
	klog.InfoS("Stopping; the cluster keeps what was written")
	service.Stop()
}

func (p *process) serveHTTP(ctx context.Context) {
	o := p.settings.health
	o.AddressSetting, o.PortSetting = "--healthz-ip", "--healthz-port"
	if err := httpd.Serve(ctx, o, p.mux()); err != nil && err != http.ErrServerClosed {
		klog.ErrorS(err, "Stopped serving health and metrics")
	}
}

// makeElector sets the elector, unless this process writes nothing or leads without one.
func (p *process) makeElector() (err error) {
	e := p.settings.elect
	if !e.On || p.settings.mode != controller.WriteMode {
		return nil
	}
	if s := p.settings; s.inEtcd() {
		p.elector = p.etcdElector()
		return nil
	}
	made, err := election.New(election.Options{
		Client: p.client, Namespace: e.Namespace, Name: e.Name, Identity: p.name,
		LeaseDuration: e.LeaseDuration, RenewDeadline: e.RenewDeadline, RetryPeriod: e.RetryPeriod,
		Changed: p.elected,
	})
	if err == nil {
		p.elector = made
	}
	return err
}

// elected handles a change of the election. A replica that stands by reads, too.
func (p *process) elected() {
	if s := p.elector.Status(); s.Leader != "" && !s.Leading {
		p.engine.Follow()
	}
	p.changed.Wake()
}

// lead makes writes whenever this process leads, until ctx ends.
func (p *process) lead(ctx context.Context) {
	switch {
	case p.settings.mode != controller.WriteMode:
		p.engine.Follow()
		<-ctx.Done()
	case p.elector == nil:
		// The last process may have ended in the middle of a write.
		p.engine.Lead(ctx, election.Term{})
	default:
		late := time.AfterFunc(firstAttempt, p.engine.Follow)
		defer late.Stop()
		p.elector.Run(ctx, p.engine.Lead)
	}
}
