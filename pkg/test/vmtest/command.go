package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
)

// output returns the output of a command. Its error includes that output.
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
