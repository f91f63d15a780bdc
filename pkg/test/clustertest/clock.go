package clustertest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// JumpClock makes the process's wall clock jump by whole seconds, forward or back, as a
// bad time server would. It does not change the machine's clock, the process's
// monotonic clock (nor would a real jump), or the clocks of programs that the process
// runs. The kernel has no clocks for one process alone. But every process reads them by
// a function that the kernel maps into it, the vDSO's clock_gettime, and JumpClock
// replaces the process's own copy of that function. This works on amd64, for all
// programs that read the clock in this way, as Go programs do.
func (d *Daemon) JumpClock(by time.Duration) {
	d.c.t.Helper()
	d.jump(unix.CLOCK_REALTIME, by)
}

// Age makes the process's monotonic clock jump forward by whole seconds, so that its
// timers are due as if that time had passed. Its wall clock does not change.
func (d *Daemon) Age(by time.Duration) {
	d.c.t.Helper()
	if by < 0 {
		d.c.t.Fatalf("a monotonic clock cannot jump by %v", by)
	}
	d.jump(unix.CLOCK_MONOTONIC, by)
}

// jump makes one clock of the process jump.
func (d *Daemon) jump(which int, by time.Duration) {
	d.c.t.Helper()
	if by%time.Second != 0 {
		d.c.t.Fatalf("a clock can jump by whole seconds, not by %v", by)
	}
	d.Freeze()
	err := d.moveClock(which, int64(by/time.Second))
	for errors.Is(err, errBusy) {
		d.Thaw()
		d.Freeze()
		err = d.moveClock(which, int64(by/time.Second))
	}
	d.Thaw()
	if err != nil {
		d.c.t.Fatalf("move the clock of %s: %v", d.Name, err)
	}
}

// errBusy is returned if a thread is executing the instructions to be replaced.
var errBusy = errors.New("a thread is reading the clock")

// clockCode makes the system call itself, and adds the seconds at its end to the first
// two clocks, CLOCK_REALTIME and CLOCK_MONOTONIC. It works at any address.
var clockCode = []byte{
	0xb8, 0xe4, 0, 0, 0, // mov eax, __NR_clock_gettime
	0x0f, 0x05, // syscall
	0x83, 0xff, clocks - 1, // cmp edi, the last of those clocks
	0x77, 0x10, // ja to ret
	0x89, 0xff, // mov edi, edi: clear the upper half
	0x48, 0x8d, 0x0d, 8, 0, 0, 0, // lea rcx, [seconds]
	0x48, 0x8b, 0x0c, 0xf9, // mov rcx, [rcx+8*rdi]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3, // ret
	// The seconds of each clock follow.
}

// clocks is how many clocks can be moved.
const clocks = 2

// clock is how a process's clocks were changed.
type clock struct {
	at      int64 // the address of the seconds in its memory; 0 before the first jump
	seconds [clocks]int64
}

// moveClock does what jump does, for a process whose threads are all stopped.
func (d *Daemon) moveClock(which int, seconds int64) error {
	memory, err := os.OpenFile(d.proc("mem"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	if d.clock.at == 0 {
		if d.clock.at, err = d.replaceClock(memory); err != nil {
			return err
		}
	}
	d.clock.seconds[which] += seconds
	_, err = memory.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(d.clock.seconds[which])), d.clock.at+int64(8*which))
	return err
}

// replaceClock puts clockCode after the last function of the vDSO, and a jump to it
// at the beginning of clock_gettime. It returns the address of the seconds.
func (d *Daemon) replaceClock(memory *os.File) (int64, error) {
	if runtime.GOARCH != "amd64" {
		return 0, fmt.Errorf("clocks can only be moved on amd64, not on %s", runtime.GOARCH)
	}
	start, image, err := d.vdso(memory)
	if err != nil {
		return 0, err
	}
	function, err := clockFunction(image)
	if err != nil {
		return 0, err
	}
	const jump = 5 // bytes of a jmp with an offset of four
	if err := d.notIn(start+function, jump); err != nil {
		return 0, err
	}
	code := append(bytes.Clone(clockCode), make([]byte, 8*clocks)...)
	free := int64(len(bytes.TrimRight(image, "\x00"))+15) &^ 15
	if free+int64(len(code)) > int64(len(image)) {
		return 0, errors.New("the vDSO has no room at its end")
	}
	if _, err := memory.WriteAt(code, start+free); err != nil {
		return 0, err
	}
	instruction := binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(free-function-jump))
	if _, err := memory.WriteAt(instruction, start+function); err != nil {
		return 0, err
	}
	return start + free + int64(len(clockCode)), nil
}

// vdso returns the address of the process's vDSO, and its contents.
func (d *Daemon) vdso(memory *os.File) (start int64, image []byte, err error) {
	maps, err := os.ReadFile(d.proc("maps"))
	if err != nil {
		return 0, nil, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(line, "[vdso]\n") {
			continue
		}
		var end int64
		if _, err := fmt.Sscanf(line, "%x-%x", &start, &end); err != nil {
			return 0, nil, fmt.Errorf("memory map %q: %w", line, err)
		}
		image = make([]byte, end-start)
		_, err := memory.ReadAt(image, start)
		return start, image, err
	}
	return 0, nil, errors.New("it has no vDSO")
}

// clockFunction returns the offset in the image of the function that reads a clock.
func clockFunction(image []byte) (int64, error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, fmt.Errorf("vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("vDSO: %w", err)
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			return int64(s.Value), nil
		}
	}
	return 0, errors.New("the vDSO has no __vdso_clock_gettime")
}

// notIn returns an error if a thread is inside the code at an address, other than at
// its first instruction.
func (d *Daemon) notIn(address, length int64) error {
	threads, err := filepath.Glob(d.proc("task/*/syscall"))
	if err != nil {
		return err
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			return err
		}
		// The last field is the program counter.
		fields := strings.Fields(string(text))
		var at int64
		if _, err := fmt.Sscanf(fields[len(fields)-1], "0x%x", &at); err != nil {
			return fmt.Errorf("a thread's program counter in %q: %w", text, err)
		}
		if at > address && at < address+length {
			return errBusy
		}
	}
	return nil
}
