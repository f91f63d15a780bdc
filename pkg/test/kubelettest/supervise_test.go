//go:build kubelet

package kubelettest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// supervised is the environment variable that makes the test binary a node's first
// process.
const supervised = "TULLE_KUBELETTEST_RUNS"

// superviseMain does not return in a process that is a node's first.
func superviseMain() {
	if text, ok := os.LookupEnv(supervised); ok {
		fmt.Fprintln(os.Stderr, supervise(text))
		os.Exit(1)
	}
}

// supervise does for a node what systemd does: it runs services, restarts a service a
// second after it has ended, and reaps orphaned processes.
func supervise(text string) error {
	var services [][]string
	if err := json.Unmarshal([]byte(text), &services); err != nil {
		return err
	}
	pids := make(map[int]int)
	for i, command := range services {
		pid, err := startService(command)
		if err != nil {
			return err
		}
		pids[pid] = i
	}
	for {
		pid, err := syscall.Wait4(-1, nil, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if i, ours := pids[pid]; ours {
			delete(pids, pid)
			<-time.After(time.Second)
			if pid, err = startService(services[i]); err != nil {
				return err
			}
			pids[pid] = i
		}
	}
}

// startService starts a service. Its output goes to a file of its name in /var/log.
func startService(command []string) (int, error) {
	log, err := os.OpenFile(logOf(filepath.Base(command[0])), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	p, err := os.StartProcess(command[0], command, &os.ProcAttr{
		Env:   []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		Files: []*os.File{nil, log, log},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, err
	}
	return p.Pid, nil
}

func logOf(service string) string { return "/var/log/" + service + ".log" }
