package snapshot

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// Why a snapshot is not used. One that is not there is fs.ErrNotExist.
var (
	// errCorrupt is one that is cut off or garbled; nothing of it is used.
	errCorrupt = errors.New("the file is damaged")
	// errVersion is a snapshot in the format of a later version.
	errVersion = errors.New("a newer version wrote it")
	// errSource is one of another network.
	errSource = errors.New("the file is of another network")
)

// Head is what there is once in a snapshot.
type Head struct {
	// Source says where the network is kept, like the store's prefix: the
	// snapshot of another is not used.
	Source string
	Saved  time.Time // by the clock of the day
	Config subnet.Config
	Own    subnet.Lease
	// ChecksumsBroken says that the host's interface was found to put wrong checksums
	// into tunnels.
	ChecksumsBroken bool
	// Former are the backends that the host moves away from, the latest first.
	Former [MostFormer]subnet.Backend
}

// MostFormer is how many former backends a snapshot has.
const MostFormer = 4

// Snapshot is a network as it was known once. Of leases all but the Revision is
// kept.
type Snapshot struct {
	Head
	Peers []subnet.Lease
}

const (
	magic   = "tulle-snapshot"
	version = 1

	// Limits on what is read, with room to spare: no file fills the memory.
	maxConfig = 4 << 20   // bytes of the config's line; etcd takes 1.5 MiB
	maxLine   = 64 << 10  // of any other; a lease's value has 16 KiB at most
	maxFile   = 256 << 20 // of all; 50,000 peers take some 12 MiB
)

// The first words of the lines.
const (
	sourceTag = "source"
	configTag = "config"
	givenTag  = "given" // before a config by which others give the subnets
	ownTag    = "own"
	brokenTag = "broken" // before checksums, if they are
	formerTag = "former" // before a backend, if there is one
	peerTag   = "peer"
	endTag    = "end"

	checksums = "checksums"
)

// Path is the snapshot's file in a daemon's folder for state.
func Path(dir string) string { return filepath.Join(dir, "snapshot") }

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errCorrupt, fmt.Sprintf(format, args...))
}
