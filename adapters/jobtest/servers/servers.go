//go:build unix

package servers

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A Server is a server that runs as a process of its own. It runs until the end of the test that
// has started it.
type Server struct {
	Address string // the host and the port of the server
	Config  string // the path of the configuration file, which Start reads; "" except for RabbitMQ

	t       testing.TB
	dir     string
	program string
	args    []string
	env     []string             // variables to add to the environment of the test
	owner   *syscall.SysProcAttr // another user that runs the server; nil: the user of the test
	stop    os.Signal            // the signal that ends the server cleanly
	crash   os.Signal            // the signal that ends the server without a clean shutdown
	ready   func() error         // returns nil if the server is ready
	command *exec.Cmd            // the running process; nil if the server does not run
}

// Redis starts a Redis server that writes each change to disk before it answers the client.
func Redis(t testing.TB) *Server {
	t.Helper()
	s := create(t, "redis-server", "redis-server")
	_, port, _ := net.SplitHostPort(s.Address)
	s.args = []string{
		"--port", port, "--bind", "127.0.0.1", "--dir", s.dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "",
	}
	s.Start()
	return s
}

// NATS starts a nats-server with JetStream. If `program` is empty, NATS starts the
// nats-server in the PATH.
func NATS(t testing.TB, program string) *Server {
	t.Helper()
	s := create(t, cmp.Or(program, "nats-server"), "nats-server")
	_, port, _ := net.SplitHostPort(s.Address)
	s.args = []string{"-js", "-a", "127.0.0.1", "-p", port, "-sd", s.dir}
	s.Start()
	return s
}

// Postgres starts a PostgreSQL with the user postgres and the database postgres. It uses the newest
// PostgreSQL in /usr/lib/postgresql, where Debian's packages install it. If no PostgreSQL is there,
// it uses the postgres in the PATH.
func Postgres(t testing.TB) *Server {
	t.Helper()
	installed, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		t.Fatal(err)
	}
	version := func(path string) float64 { // "9.6" is older than "15"
		n, _ := strconv.ParseFloat(strings.Split(path, "/")[4], 64)
		return n
	}
	program := "postgres"
	if len(installed) > 0 {
		program = slices.MaxFunc(installed, func(a, b string) int {
			return cmp.Compare(version(a), version(b))
		})
	}
	s := create(t, program, "postgresql")
	s.stop, s.crash = syscall.SIGINT, syscall.SIGQUIT
	if os.Getuid() == 0 {
		s.owner = ownedBy(t, "postgres", s.dir) // PostgreSQL refuses to run as root
	}
	data := filepath.Join(s.dir, "data")
	initdb := exec.Command(filepath.Join(filepath.Dir(s.program), "initdb"),
		"-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = s.dir, s.owner
	if output, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, output)
	}
	_, port, _ := net.SplitHostPort(s.Address)
	isReady := filepath.Join(filepath.Dir(s.program), "pg_isready")
	s.ready = func() error { // a successful connection does not show that PostgreSQL is ready
		return exec.Command(isReady, "-q", "-h", "127.0.0.1", "-p", port).Run()
	}
	// Without fsync, writes can be lost if the machine crashes, but not if only PostgreSQL
	// crashes.
	s.args = []string{
		"-D", data, "-p", port, "-k", s.dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=off",
	}
	s.Start()
	return s
}

// RabbitMQ starts a RabbitMQ server. Its only user is guest with the password guest, who has
// all permissions in the virtual host "/". RabbitMQ takes some seconds to start and to stop.
func RabbitMQ(t testing.TB) *Server {
	t.Helper()
	program := "/usr/lib/rabbitmq/bin/rabbitmq-server"
	if _, err := os.Stat(program); err != nil {
		// The program above is preferred, because Debian's script in /usr/sbin runs the server as
		// another user.
		program = "rabbitmq-server"
	}
	s := create(t, program, "rabbitmq-server")
	s.Config = filepath.Join(s.dir, "rabbitmq.conf")
	if err := os.WriteFile(s.Config, []byte("listeners.tcp.1 = "+s.Address+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(s.Address)
	_, nodes, _ := net.SplitHostPort(freeAddress(t))
	s.env = []string{
		"HOME=" + s.dir, // RabbitMQ stores its Erlang cookie here
		"RABBITMQ_NODENAME=retry" + port + "@localhost",
		"RABBITMQ_DIST_PORT=" + nodes,
		"RABBITMQ_CONFIG_FILE=" + s.Config,
		"RABBITMQ_CONF_ENV_FILE=none",
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(s.dir, "plugins"),
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(s.dir, "data"),
		"RABBITMQ_LOG_BASE=" + s.dir,
		"RABBITMQ_LOGS=-",
		"RABBITMQ_PID_FILE=" + filepath.Join(s.dir, "pid"),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		// With RUNNING_UNDER_SYSTEMD, the script that starts RabbitMQ replaces its own process with
		// the server, so the server gets the signals.
		"RUNNING_UNDER_SYSTEMD=true",
	}
	answers := s.ready
	s.ready = func() error { // RabbitMQ accepts connections before its virtual hosts are ready
		if err := answers(); err != nil {
			return err
		}
		return s.control("await_startup").Run()
	}
	s.Start()
	return s
}

// Control runs rabbitmqctl with args. It fails the test if rabbitmqctl fails. Call Control only for
// a Server that [RabbitMQ] has returned.
func (s *Server) Control(args ...string) {
	s.t.Helper()
	if output, err := s.control(args...).CombinedOutput(); err != nil {
		s.t.Fatalf("rabbitmqctl %s: %v\n%s", args, err, output)
	}
}

// The method `control` returns a command that runs rabbitmqctl with args for s.
func (s *Server) control(args ...string) *exec.Cmd {
	control := exec.Command(filepath.Join(filepath.Dir(s.program), "rabbitmqctl"), args...)
	control.Dir, control.Env = s.dir, append(os.Environ(), s.env...)
	return control
}

// The function `create` returns a Server that is not running yet. If the program is not installed,
// `create` skips the test. If the environment variable CI is "true", `create` fails the test
// instead.
func create(t testing.TB, program, debian string) *Server {
	t.Helper()
	path, err := exec.LookPath(program)
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatalf("%s is not installed (Debian package %s)", program, debian)
	case err != nil:
		t.Skipf("%s is not installed (Debian package %s)", program, debian)
	}
	// A server that runs as another user could not enter t.TempDir.
	dir, err := os.MkdirTemp("", "retry-servers-")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		t: t, Address: freeAddress(t), dir: dir, program: path,
		stop: syscall.SIGTERM, crash: syscall.SIGKILL,
	}
	s.ready = func() error {
		c, err := net.Dial("tcp", s.Address)
		if err == nil {
			err = c.Close()
		}
		return err
	}
	t.Cleanup(func() {
		if s.command != nil {
			s.end(s.crash)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ownedBy makes a user the owner of dir. It returns attributes that make a process run as this
// user.
func ownedBy(t testing.TB, name, dir string) *syscall.SysProcAttr {
	t.Helper()
	owner, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	var ids [2]int
	for i, text := range []string{owner.Uid, owner.Gid} {
		if ids[i], err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, ids[0], ids[1]); err != nil {
		t.Fatal(err)
	}
	credential := &syscall.Credential{Uid: uint32(ids[0]), Gid: uint32(ids[1])}
	return &syscall.SysProcAttr{Credential: credential}
}

// freeAddress returns an address with a free port. The port is below the ports that Linux gives to
// outgoing connections and to listeners on port 0. Such a connection or listener could otherwise
// take the port while the server is stopped.
func freeAddress(t testing.TB) string {
	t.Helper()
	var taken error
	for range 100 {
		free, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if err == nil {
			defer free.Close()
			return free.Addr().String()
		}
		taken = err
	}
	t.Fatal(taken)
	return ""
}

// Start starts the server again after Stop or Crash, and returns when the server is ready. It fails
// the test if the server is not ready within about two minutes.
func (s *Server) Start() {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.command = exec.Command(s.program, s.args...)
	s.command.Dir, s.command.SysProcAttr = s.dir, s.owner
	s.command.Env = append(os.Environ(), s.env...)
	s.command.Stdout, s.command.Stderr = log, log
	if err := s.command.Start(); err != nil {
		s.t.Fatal(err)
	}
	for range 6000 {
		if s.ready() == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	said, _ := os.ReadFile(log.Name())
	s.t.Fatalf("%s does not answer: %s", s.program, said)
}

// Stop ends the server cleanly.
func (s *Server) Stop() {
	s.t.Helper()
	s.end(s.stop)
}

// Crash ends the server without a clean shutdown, so that the server must recover at its next
// Start.
func (s *Server) Crash() {
	s.t.Helper()
	s.end(s.crash)
}

func (s *Server) end(with os.Signal) {
	s.t.Helper()
	if err := s.command.Process.Signal(with); err != nil {
		s.t.Error(fmt.Errorf("%s: %w", s.program, err))
	}
	_ = s.command.Wait() // the error says only which signal ended the server
	s.command = nil
}
