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
)

// An order tells a worker process what to do. The test passes the order when it starts the process,
// and kills the process later.
type order struct {
	Row       string        // name of the row whose job the process runs; empty in Kills and Redrive
	Queue     string        // the name of the queue
	Directory string        // the directory with the files of the journal
	Window    time.Duration // above 0: the process calls Redrive with this Window; 0: it runs jobs
}

// The method `output` returns the output of all processes that were started with o.
func (o order) output() string {
	text, _ := os.ReadFile(filepath.Join(o.Directory, outputFile))
	return string(text)
}

// outputFile is the name of the file to which the worker processes print.
const outputFile = "output"

// orderVariable is the environment variable that tells a process what to do. Its value is an order
// as JSON.
const orderVariable = "RETRY_JOBTEST_ORDER"

// obey returns at once if this process was started without an order. If there is an order, `obey`
// follows the order, and ends the process.
func obey(e Engine) {
	text, ordered := os.LookupEnv(orderVariable)
	if !ordered {
		return
	}
	go func() { // the standard input ends when the parent process ends
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

// The method `follow` runs jobs, or calls Redrive, until ctx is done or the process is killed.
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

// A process is a worker process that the test can kill.
type process struct {
	id     int
	end    func() error  // kills the process as kill -9 does
	exited chan struct{} // closed when the process has ended
}

// A starter starts a worker process. The order o tells this process what to do.
type starter func(ctx context.Context, o order) (*process, error)

// starterOf returns a starter for the test with this name. The starter runs this test program
// as another process, with only that test selected.
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
	// The child exits when this pipe closes. The pipe closes when this process ends.
	if _, err := command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &process{command.Process.Pid, command.Process.Kill, make(chan struct{})}
	go func() {
		_ = command.Wait() // the error says only that the process was killed or panicked
		close(p.exited)
	}()
	return p, nil
}

// `kill` kills the process, and returns when the process has ended.
func (p *process) kill() error {
	err := p.end()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-p.exited
	return err
}
