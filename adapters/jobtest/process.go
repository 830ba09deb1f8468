package jobtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/goretry/retry"
)

// An order says what a process that is started to be killed has to do.
type order struct {
	Row       string        // the row of the table; "": the process works for Kills or Redrive
	Queue     string        // the name of the queue
	Directory string        // the directory of the journal
	Window    time.Duration // the window of Redrive; 0: the process works for another test
}

// output returns what the processes that follow o have printed, "" if none was started.
func (o order) output() string {
	text, _ := os.ReadFile(filepath.Join(o.Directory, outputFile))
	return string(text)
}

// outputFile is the name of the file with the output of the processes.
const outputFile = "output"

// orderVariable is the environment variable that has the order of a process, as JSON.
const orderVariable = "RETRY_JOBTEST_ORDER"

// obey follows the order that this process was started with, and never returns. If there
// is no order, obey returns at once.
func obey(e Engine) {
	text, ordered := os.LookupEnv(orderVariable)
	if !ordered {
		return
	}
	go func() { // the standard input ends when the process that gave the order ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.follow(context.Background(), e)
	}
	fmt.Println("the worker ended:", err)
	os.Exit(1)
}

// follow works until ctx or the process ends.
func (o order) follow(ctx context.Context, e Engine) error {
	j, err := openJournal(o.Directory)
	if err != nil {
		return err
	}
	p, do := faultPolicy(e), faultDo(j)
	if o.Row != "" {
		r, err := rowOf(e, o.Row)
		if err != nil {
			return err
		}
		p, do = r.policy, r.do(j)
	}
	p.OnEvent = j.events.OnEvent
	q, err := e.Open(ctx, o.Queue)
	if err != nil {
		return err
	}
	if o.Window > 0 {
		return o.redrive(ctx, q.(Redriver), j)
	}
	return q.Work(ctx, p, do)
}

// A process is a worker that can be killed.
type process struct {
	id     int
	end    func() error  // ends the process as kill -9 does
	exited chan struct{} // closed when the process has ended
}

// A starter starts a worker that follows an order.
type starter func(ctx context.Context, o order) (*process, error)

// starterOf returns the starter of a test. The starter starts a worker by running this test
// program again, with only that test selected.
func starterOf(test string) starter {
	return func(ctx context.Context, o order) (*process, error) { return start(ctx, test, o) }
}

func start(ctx context.Context, test string, o order) (*process, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	output, err := openToAppend(filepath.Join(o.Directory, outputFile))
	if err != nil {
		return nil, err
	}
	defer output.Close()
	command := exec.CommandContext(ctx, program,
		"-test.run=^"+test+"$", "-test.count=1", "-test.timeout=10m")
	command.Env = append(os.Environ(), orderVariable+"="+string(text))
	command.Stdout, command.Stderr = output, output
	if _, err := command.StdinPipe(); err != nil { // the pipe is open until either process ends
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &process{command.Process.Pid, command.Process.Kill, make(chan struct{})}
	go func() {
		_ = command.Wait() // the error only says that the process was killed, or panicked
		close(p.exited)
	}()
	return p, nil
}

// kill ends the process and waits until it has ended.
func (p *process) kill() error {
	err := p.end()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-p.exited
	return err
}

// until waits until done returns true or an error.
func until(ctx context.Context, done func() (bool, error)) error {
	return retry.Do(ctx, retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Fixed(20 * time.Millisecond),
		RetryIf:     func(err error) bool { return err == errNotYet },
	}, func(context.Context) error {
		switch ok, err := done(); {
		case err != nil:
			return err
		case !ok:
			return errNotYet
		default:
			return nil
		}
	})
}

var errNotYet = errors.New("not yet")
