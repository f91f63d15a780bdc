package status

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
)

// Report is how a node is. Its JSON is what programs read: fields are added, and
// never change their meaning.
type Report struct {
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	NodeID  string    `json:"nodeID"`
	Name    string    `json:"nodeName,omitempty"`
	// Clone is set while another machine has this machine's ID.
	Clone *Clone `json:"clone,omitempty"`
	// Ready says that the network works here, as far as it can be seen from here;
	// Missing says what is missing for that, and Failing names the checks that miss
	// it. All sum up Checks.
	Ready   bool     `json:"ready"`
	Missing []string `json:"missing,omitempty"`
	Failing []string `json:"failingChecks,omitempty"`
	Checks  Checks   `json:"checks"`
	// Stuck is why the daemon's main loop does not answer. Then what only the loop
	// knows is missing.
	Stuck string `json:"stuck,omitempty"`
	// Remembered is when what the node goes by was saved, while its store cannot
	// be asked.
	Remembered *time.Time `json:"remembered,omitempty"`

	// Flags are the daemon's own, as they were given, without secrets.
	Flags []string `json:"flags,omitempty"`
	// Exposed are the daemon's files with secrets that every user of the host may read or
	// write, each with the command that ends that.
	Exposed []string `json:"exposed,omitempty"`

	Network    Network     `json:"network"`
	Lease      *Lease      `json:"lease,omitempty"`
	Interfaces []Interface `json:"interfaces,omitempty"`
	Peers      Count       `json:"peers"`
	Rejected   []Rejection `json:"rejectedLeases,omitempty"` // the first ten
	// RejectedCount is how many there are in all.
	RejectedCount int    `json:"rejectedCount"`
	Reserved      int    `json:"reservedLeases,omitempty"` // reservations that no node uses
	Store         Store  `json:"store"`
	Kernel        Kernel `json:"kernel"`
	// Commands is nil where none was run.
	Commands *Commands `json:"commands,omitempty"`
	Firewall Firewall  `json:"firewall"`
	Probes   *Probes   `json:"probes,omitempty"` // nil where there are none
	// WireGuard is nil with other backends.
	WireGuard *WireGuard `json:"wireguard,omitempty"`
	Files     []Problem  `json:"files,omitempty"`  // that do not hold what is wanted
	Fights    []Fight    `json:"fights,omitempty"` // what others keep changing
}

// Clone is another machine with this machine's ID, as copies of one image have.
// This machine uses an ID of its own meanwhile.
type Clone struct {
	ID        string       `json:"id"` // the shared one
	Name      string       `json:"nodeName,omitempty"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	Since     time.Time    `json:"since"` // when this machine found out
	// Fix is the command that gives a machine an ID of its own.
	Fix string `json:"fix"`
}

// String names the other machine and the fix.
func (c Clone) String() string {
	who := c.Name
	if len(c.Addresses) > 0 {
		who = strings.TrimSpace(who + " (" + join(c.Addresses) + ")")
	}
	return "another machine has this machine's ID: " + who + "; to fix: " + c.Fix
}

// Network is the config in force.
type Network struct {
	Networks []netip.Prefix `json:"networks,omitempty"`
	Backend  string         `json:"backend,omitempty"`
	MTU      int            `json:"mtu,omitempty"`
	Devices  []string       `json:"devices,omitempty"` // tunnels; none without them
	// Move is set while the node moves to Backend from others.
	Move *Move `json:"move,omitempty"`
	// Offload is set while this host computes the checksums in tunnels itself, because
	// its interface was found to break them.
	Offload *Offload `json:"offload,omitempty"`
	// Moved are the tunnels whose packets the daemon itself moves.
	Moved []Moved `json:"moved,omitempty"`
}

// Moved is what the daemon has moved through a tunnel since it started.
type Moved struct {
	Device     string `json:"device"`
	PacketsOut uint64 `json:"packetsOut"`
	BytesOut   uint64 `json:"bytesOut"`
	PacketsIn  uint64 `json:"packetsIn"`
	BytesIn    uint64 `json:"bytesIn"`
	// Dropped has the packets that were not moved, by reason.
	Dropped map[string]uint64 `json:"dropped"`
}

// Offload is the checksum offload of tunnels, which is disabled and tried again from
// time to time.
type Offload struct {
	Since  time.Time  `json:"since"`          // when this daemon disabled it, or found it disabled by an earlier run
	Trial  bool       `json:"trial"`          // it is being tried
	Trials int        `json:"trials"`         // so far, each without success
	Next   *time.Time `json:"next,omitempty"` // trial; nil while Offload in the config is not auto
}

// Lease is a node's part of the network.
type Lease struct {
	Key         string         `json:"key"`
	Subnets     []netip.Prefix `json:"subnets"`
	Addresses   []netip.Addr   `json:"addresses"` // where the others send to
	Reservation bool           `json:"reservation,omitempty"`
	Since       *time.Time     `json:"since,omitempty"`   // held without a break, by this run
	Renewed     *time.Time     `json:"renewed,omitempty"` // last
}

// Interface is what faces the other hosts, in one family.
type Interface struct {
	Family  string     `json:"family"`
	Name    string     `json:"name"`
	Address netip.Addr `json:"address"`
	Public  netip.Addr `json:"public"`
	MTU     int        `json:"mtu"`
	Why     string     `json:"why"`
}

// Count is how many peers there are.
type Count struct {
	All int `json:"all"`
	// Unroutable counts those to which no working route leads in at least one family.
	// Whether the others answer is for the probes to say.
	Unroutable int `json:"unroutable"`
	// Native counts those that packets reach without the tunnel, with the backend cloud,
	// and Tunnelled the others by reason; both are nil with other backends.
	Native    *int           `json:"native,omitempty"`
	Tunnelled map[string]int `json:"tunnelled,omitempty"`
}

// Peer is another node of the network.
type Peer struct {
	Key       string         `json:"key"`
	Name      string         `json:"nodeName,omitempty"`
	Subnets   []netip.Prefix `json:"subnets"`
	Addresses []netip.Addr   `json:"addresses"`
	// By is how packets go: "tunnel", "direct" or, where there is no way, "".
	By string `json:"by,omitempty"`
	// Tunnelled is why packets take the tunnel, with the backend cloud.
	Tunnelled string    `json:"tunnelled,omitempty"`
	State     PeerState `json:"state"` // sums up what follows
	// InSync says that the kernel holds all that leads there. If not, Problem says
	// what is wrong, and Since when that began.
	InSync  bool       `json:"inSync"`
	Problem string     `json:"problem,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
	// Probes are what the last probes of it came to; nil as long as there are none.
	Probes *PeerProbes `json:"probes,omitempty"`
	// Sessions are the encrypted ones, one for each device, with the backend wireguard.
	Sessions []Session `json:"sessions,omitempty"`
}

// Probes are packets that are to come back from the peers, a few at a time.
type Probes struct {
	Known   int            `json:"known"`             // peers that were tried
	Failing map[string]int `json:"failing,omitempty"` // of them, by cause
	// Passed and Failed, by cause, are all that there were. MeanMillis is how long
	// those took that passed; Took are their round trips by length.
	Passed     uint64            `json:"passed"`
	Failed     map[string]uint64 `json:"failed,omitempty"`
	MeanMillis float64           `json:"meanMillis"`
	Took       []Took            `json:"took,omitempty"`
	// Examples are some of those that fail, and Problems what follows from all
	// of them, of this node itself.
	Examples []Problem `json:"examples,omitempty"`
	Problems []string  `json:"problems,omitempty"`
}

// Took is how many round trips took no longer.
type Took struct {
	Millis float64 `json:"millis"`
	Count  uint64  `json:"count"`
}

// PeerProbes are the last probes of a peer.
type PeerProbes struct {
	At time.Time `json:"at"`
	// Millis is how long a small packet took, there and back. Cause is why there is
	// none, or large ones fail, in a word; Problem is the same in a sentence, and
	// Since is when it began.
	Millis  float64    `json:"millis,omitempty"`
	Cause   string     `json:"cause,omitempty"`
	Problem string     `json:"problem,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
}

// Problem is one thing that is wrong.
type Problem struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Rejection is a lease in the store that the node rejects.
type Rejection struct {
	Key  string `json:"key"`
	Code string `json:"code"` // one of subnet.RejectionCodes
	Why  string `json:"why"`
}

// Store is where config and leases are kept.
type Store struct {
	Kind      string   `json:"kind"`
	Endpoints []string `json:"endpoints,omitempty"`
	Revision  int64    `json:"revision,omitempty"` // up to which its history is known
	// Watching is since when it reports changes without a break; nil when it does
	// not.
	Watching *time.Time `json:"watching,omitempty"`
	Failing  []Problem  `json:"failing,omitempty"`
	// Last is what did not work last, and LastAt when.
	Last   *Problem   `json:"last,omitempty"`
	LastAt *time.Time `json:"lastAt,omitempty"`
	Etcd   *Etcd      `json:"etcd,omitempty"` // with --etcd-embedded: the process on this host
}

// Etcd is the tulle-etcd that this daemon keeps running.
type Etcd struct {
	State   string     `json:"state"` // running, starting, stopping, failed or not running
	Problem string     `json:"problem,omitempty"`
	PID     int        `json:"pid,omitempty"`
	Version string     `json:"version,omitempty"`
	Started *time.Time `json:"started,omitempty"`
	// Ignored are the flags for an empty store that differ from the config in force.
	Ignored []string `json:"ignoredFlags,omitempty"`
}

// Kernel is how far the kernel is from what it should hold.
type Kernel struct {
	InSync       bool              `json:"inSync"`
	Since        time.Time         `json:"since"`
	Objects      int               `json:"objects"`
	Pending      int               `json:"pending"`
	Failing      []Failing         `json:"failing,omitempty"`
	Healed       map[string]uint64 `json:"healed"` // what others had changed, by kind
	LastResync   time.Time         `json:"lastResync"`
	ResyncMillis float64           `json:"resyncMillis"`
	Problems     []string          `json:"problems,omitempty"`
}

// Fight is something that another program changes again and again, and that is
// restored each time.
type Fight struct {
	Kind     string    `json:"kind"` // one of FightKinds
	What     string    `json:"what"`
	Owner    string    `json:"owner,omitempty"` // of an object of the kernel: "host" or a peer's key
	Since    time.Time `json:"since"`
	Restored int       `json:"restored"`  // how often
	Rate     float64   `json:"perSecond"` // restored a second, lately
	Wrong    float64   `json:"wrong"`     // the part of the time that it is wrong, lately
	Lost     bool      `json:"lost"`      // more often wrong than right
}

// The kinds of fights.
const (
	KernelFight   = "kernel"
	FirewallFight = "firewall"
	FileFight     = "file"
)

// FightKinds lists the kinds of fights.
func FightKinds() []string { return []string{KernelFight, FirewallFight, FileFight} }

// NewFight returns f as a Fight.
func NewFight(kind, what, owner string, f budget.Fight) Fight {
	return Fight{
		Kind: kind, What: what, Owner: owner, Since: f.Since, Restored: f.Healed, Rate: f.Rate, Wrong: f.Wrong, Lost: f.Lost(),
	}
}

// AddFiles adds, by path, files that are out of date and files that other programs
// keep changing.
func (r *Report) AddFiles(failing map[string]error, fights map[string]budget.Fight) {
	for _, path := range slices.Sorted(maps.Keys(failing)) {
		r.Files = append(r.Files, Problem{What: path, Why: failing[path].Error()})
	}
	for _, path := range slices.Sorted(maps.Keys(fights)) {
		r.Fights = append(r.Fights, NewFight(FileFight, path, "", fights[path]))
	}
}

// Why says in a sentence what goes on.
func (f Fight) Why() string {
	return fmt.Sprintf("another program keeps changing it, %s; restored %d times, wrong %.0f%% of the time", budget.Rate(f.Rate), f.Restored, 100*f.Wrong)
}

// Failing is something that the kernel refuses.
type Failing struct {
	What  string    `json:"what"`
	Owner string    `json:"owner"` // "host" or a peer's key
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
}

// Firewall is how the rules are.
type Firewall struct {
	Written bool   `json:"written"` // all that is wanted was tried
	Problem string `json:"problem,omitempty"`
	Healed  uint64 `json:"healed"`
	// Others is what others' rules do that rules of ours cannot help, and what can.
	Others []string `json:"others,omitempty"`
}
