package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
)

// output runs a command; its error holds what the command said.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		return out, nil
	}
	err = fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	if said := bytes.TrimSpace(stderr.Bytes()); len(said) > 0 {
		err = fmt.Errorf("%w\n%s", err, said)
	}
	return nil, err
}
