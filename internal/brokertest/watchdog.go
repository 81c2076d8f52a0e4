package brokertest

import (
	"errors"
	"io"
	"os/exec"
	"strconv"
	"syscall"
)

// A watchdog ends a process group and removes its directory when this process ends without having done so, by whatever
// signal. Such an end closes the pipe that the watchdog reads.
type watchdog struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

const watchdogScript = `
read -r done && exit
kill -s KILL -- "-$1"
for try in 1 2 3 4 5; do
	rm -rf -- "$2" && exit
	sleep 1
done
`

func startWatchdog(group int, dir string) (*watchdog, error) {
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "sh", strconv.Itoa(group), dir)
	cmd.Dir = "/"
	// In its own group it outlives a ^C in the terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return &watchdog{cmd, pipe}, cmd.Start()
}

// dismiss ends the watchdog, with nothing left to do for it or with all of it.
func (w *watchdog) dismiss(done bool) error {
	var err error
	if done {
		_, err = io.WriteString(w.pipe, "done\n")
	}
	return errors.Join(err, w.pipe.Close(), w.cmd.Wait())
}
