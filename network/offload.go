package network

import (
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/status"
)

// offload is what the agent knows of the checksums that its host's interface puts into
// tunnels. They are part of the desired state: with Backend.Offload auto, broken ones
// disable the tunnel devices' checksum offload, and a trial enables it for a moment.
type offload struct {
	checksums backend.Checksums
	since     time.Time   // when they were found broken
	timer     *time.Timer // of the next trial
	next      time.Time   // when it is due
	trials    int         // failed trials: each enabled offload, and did not find the checksums sound
	trying    task
}

// trialPause is the pause before a trial. Each trial costs the containers of a host that
// is still broken what they send for up to a second.
var trialPause = retry.Backoff{First: 10 * time.Minute, Last: 24 * time.Hour}

const (
	// applyLimit is how long the kernel may take to enable offload.
	applyLimit = time.Second
	applyPoll  = 20 * time.Millisecond
)

// checksumsBreak handles the proof that this host's checksums are broken.
func (a *Agent) checksumsBreak() {
	if a.offload.checksums != backend.ChecksumsSound {
		return
	}
	klog.InfoS("Tunnel breaks checksums; disabling its checksum offload where Backend.Offload is auto")
	a.remainDisabled()
	a.refresh()
}

// remainDisabled makes the checksums count as broken until a trial finds them sound.
func (a *Agent) remainDisabled() {
	a.offload.checksums, a.offload.since = backend.ChecksumsBroken, time.Now()
	a.awaitTrial()
}

// awaitTrial sets the time of the next trial. The pauses grow with every failed trial.
// A success does not reset them, because checksums may break only now and then.
func (a *Agent) awaitTrial() {
	pause := trialPause.After(a.offload.trials + 1)
	a.offload.next = time.Now().Add(pause)
	a.offload.timer.Reset(pause)
}

// trialSettings returns the settings that a trial changes. There are none if the
// config does not leave offload to the probes, or has no tunnel.
func (a *Agent) trialSettings() (settings []netstate.Object) {
	if a.Prober == nil || a.peers == nil || !a.hasUplinks() {
		return nil
	}
	disabled, err := a.makeBackendFor(a.config, backend.ChecksumsBroken)
	if err != nil {
		return nil
	}
	enabled, err := a.makeBackendFor(a.config, backend.ChecksumsOnTrial)
	if err != nil {
		return nil
	}
	before := disabled.Host(a.own)
	for _, o := range enabled.Host(a.own) {
		if !slices.Contains(before, o) {
			settings = append(settings, o)
		}
	}
	return settings
}

// tryOffload starts a trial.
func (a *Agent) tryOffload() {
	if a.offload.checksums != backend.ChecksumsBroken {
		return
	}
	if a.trialSettings() == nil {
		a.awaitTrial()
		return
	}
	a.restart(&a.offload.trying, func(ctx context.Context) {
		var on []netstate.Object
		verdict := a.Prober.Try(ctx, probed{a}, func(ctx context.Context) bool {
			on, _ = callAndWait(ctx, a, a.enableOffload)
			return a.awaitSettings(ctx, on)
		})
		// Without them, the config or another program has disabled offload meanwhile.
		if verdict == probe.Sound && !a.hasSettings(ctx, on) {
			verdict = probe.NoVerdict
		}
		a.call(ctx, func() { a.tried(verdict) })
	})
}

// enableOffload enables offload for a trial, and returns the settings that it needs.
func (a *Agent) enableOffload() []netstate.Object {
	settings := a.trialSettings()
	if settings != nil {
		klog.InfoS("Trying the tunnel's checksum offload again", "trial", a.offload.trials+1)
		a.offload.checksums = backend.ChecksumsOnTrial
		a.refresh()
	}
	return settings
}

// awaitSettings waits until the kernel has all settings, and reports whether it has.
func (a *Agent) awaitSettings(ctx context.Context, settings []netstate.Object) bool {
	ctx, cancel := context.WithTimeout(ctx, applyLimit)
	defer cancel()
	for len(settings) > 0 && !a.hasSettings(ctx, settings) {
		if retry.Sleep(ctx, applyPoll) != nil {
			return false
		}
	}
	return len(settings) > 0
}

// hasSettings reports whether the kernel has all settings.
func (a *Agent) hasSettings(ctx context.Context, settings []netstate.Object) bool {
	var scope netstate.Scope
	for _, o := range settings {
		scope.Sysctls = append(scope.Sysctls, o.Key().Name)
	}
	has, err := a.Kernel.Dump(ctx, scope)
	return err == nil && !slices.ContainsFunc(settings, func(o netstate.Object) bool { return !slices.Contains(has, o) })
}

// tried ends a trial: only if it found the checksums sound does offload stay enabled.
func (a *Agent) tried(verdict probe.Verdict) {
	enabled := a.offload.checksums == backend.ChecksumsOnTrial
	if enabled && verdict == probe.Sound {
		klog.InfoS("Checksums in the tunnel are right again; leaving its checksum offload enabled")
		a.offload.checksums, a.offload.next = backend.ChecksumsSound, time.Time{}
		a.refresh()
		return
	}
	if enabled {
		a.offload.checksums = backend.ChecksumsBroken
		a.offload.trials++
		a.refresh()
	}
	a.awaitTrial()
	next := a.offload.next.Round(time.Second)
	switch {
	case !enabled: // no peer answered, so nothing was tried
	case verdict == probe.Broken:
		klog.InfoS("Tunnel still breaks checksums; disabled its checksum offload again", "nextTrial", next)
	default:
		klog.InfoS("Trial of the tunnel's checksum offload shows nothing; disabled it again", "nextTrial", next)
	}
}

// abortTrial disables offload again when the daemon ends during a trial, and waits
// until the kernel has done so.
func (a *Agent) abortTrial() {
	if a.offload.checksums != backend.ChecksumsOnTrial {
		return
	}
	a.offload.checksums = backend.ChecksumsBroken
	b, err := a.makeBackends()
	if err != nil {
		return
	}
	a.peers.rehost(a.config, a.own, b)
	var off []netstate.Object
	for _, o := range b.Target().Host(a.own) {
		if _, is := netstate.TxChecksumOf(o.Key().Name); is {
			off = append(off, o)
		}
	}
	a.awaitSettings(context.WithoutCancel(a.ctx), off)
}

// offloadReport reports on offload; it returns nil while the checksums are sound.
func (a *Agent) offloadReport() *status.Offload {
	if a.offload.checksums == backend.ChecksumsSound {
		return nil
	}
	o := &status.Offload{Since: a.offload.since, Trials: a.offload.trials, Trial: a.offload.checksums == backend.ChecksumsOnTrial}
	if next := a.offload.next; !o.Trial && a.trialSettings() != nil {
		o.Next = &next
	}
	return o
}
