package e2e

import (
	"bufio"
	"fmt"
	"io"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

// nftShell is a running nft, which runs commands without starting a program for each.
type nftShell struct {
	in  io.Writer
	out *bufio.Scanner // the errors of failed commands
}

// newNFTShell starts nft on a host for as long as the test runs.
func newNFTShell(t testing.TB, h *clustertest.Host) *nftShell {
	nft := h.NS.Command("nft", "-i")
	in, err := nft.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := nft.StderrPipe()
	if err == nil {
		err = nft.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = nft.Wait() // fails, because its last line is end-of-command
	})
	return &nftShell{in, bufio.NewScanner(out)}
}

// run runs a command, and returns after it has taken effect or failed.
func (n *nftShell) run(command string) error {
	// nft quotes an invalid line, but only after it has run the previous one.
	const end = "end-of-command"
	if _, err := fmt.Fprintf(n.in, "%s\n%s\n", command, end); err != nil {
		return err
	}
	for n.out.Scan() {
		if n.out.Text() == end {
			return nil
		}
	}
	return fmt.Errorf("nft ended: %w", n.out.Err())
}
