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
	Row       string // of the table; "" for the work of Kills and Redrive
	Queue     string
	Directory string        // of the journal
	Window    time.Duration // of the work of Redrive; 0: another work
}

const orderVariable = "RETRY_JOBTEST_ORDER"

// obey follows the order that this process was started with, and does not
// return. It returns at once if there is no order.
func obey(e Engine) {
	text, ordered := os.LookupEnv(orderVariable)
	if !ordered {
		return
	}
	go func() { // the input ends when the process that gave the order ends
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

// follow works until ctx ends, or the process does.
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
	end    func() error // as kill -9 does
	exited chan struct{}
}

// A starter starts a worker that follows an order.
type starter func(ctx context.Context, o order) (*process, error)

// starterOf returns the starter of a test. A worker is this program again, with
// this test selected.
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
	output, err := os.OpenFile(filepath.Join(o.Directory, "output"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	command := exec.CommandContext(ctx, program, "-test.run=^"+test+"$", "-test.count=1", "-test.timeout=10m")
	command.Env = append(os.Environ(), orderVariable+"="+string(text))
	command.Stdout, command.Stderr = output, output
	if _, err := command.StdinPipe(); err != nil { // it stays open until one of the two processes ends
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &process{command.Process.Pid, command.Process.Kill, make(chan struct{})}
	go func() {
		_ = command.Wait() // it was killed, or panicked: its error says nothing more
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
