//go:build unix

package servers

import (
	"cmp"
	"fmt"
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

// A Server runs until its test ends.
type Server struct {
	Address string // host and port
	Config  string // of RabbitMQ: the file that it reads when it starts

	t       testing.TB
	dir     string
	program string
	args    []string
	env     []string // beside the environment of the test
	owner   *syscall.SysProcAttr
	stop    os.Signal // ends it cleanly
	crash   os.Signal // ends it so that the next start has to recover
	ready   func() error
	command *exec.Cmd
}

// Redis starts a Redis that writes each change to disk before it answers.
func Redis(t testing.TB) *Server {
	t.Helper()
	s := create(t, "redis-server", "redis-server")
	_, port, _ := net.SplitHostPort(s.Address)
	s.args = []string{"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--appendonly", "yes", "--appendfsync", "always", "--save", ""}
	s.Start()
	return s
}

// NATS starts a nats-server with JetStream. If program is empty, it uses the
// nats-server that is installed.
func NATS(t testing.TB, program string) *Server {
	t.Helper()
	s := create(t, cmp.Or(program, "nats-server"), "nats-server")
	_, port, _ := net.SplitHostPort(s.Address)
	s.args = []string{"-js", "-a", "127.0.0.1", "-p", port, "-sd", s.dir}
	s.Start()
	return s
}

// Postgres starts a PostgreSQL whose user and database are both postgres.
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
		program = slices.MaxFunc(installed, func(a, b string) int { return cmp.Compare(version(a), version(b)) })
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
	s.ready = func() error { // it accepts connections before it is ready
		return exec.Command(filepath.Join(filepath.Dir(s.program), "pg_isready"), "-q", "-h", "127.0.0.1", "-p", port).Run()
	}
	// What a process has written survives its own crash without fsync.
	s.args = []string{"-D", data, "-p", port, "-k", s.dir, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"}
	s.Start()
	return s
}

// RabbitMQ starts a RabbitMQ whose only user, guest with the password guest, may do
// everything in the virtual host /. It takes some seconds, to start and to stop.
func RabbitMQ(t testing.TB) *Server {
	t.Helper()
	program := "/usr/lib/rabbitmq/bin/rabbitmq-server"
	if _, err := os.Stat(program); err != nil { // elsewhere than in Debian, the one in the PATH does not change the user
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
		"HOME=" + s.dir, // for its cookie
		"RABBITMQ_NODENAME=retry" + port + "@localhost", "RABBITMQ_DIST_PORT=" + nodes,
		"RABBITMQ_CONFIG_FILE=" + s.Config, "RABBITMQ_CONF_ENV_FILE=none", "RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(s.dir, "plugins"),
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(s.dir, "data"), "RABBITMQ_LOG_BASE=" + s.dir, "RABBITMQ_LOGS=-", "RABBITMQ_PID_FILE=" + filepath.Join(s.dir, "pid"),
		"ERL_EPMD_ADDRESS=127.0.0.1", "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		"RUNNING_UNDER_SYSTEMD=true", // the shell becomes the server, which then gets the signals
	}
	s.Start()
	return s
}

// Control runs rabbitmqctl for a RabbitMQ.
func (s *Server) Control(args ...string) {
	s.t.Helper()
	control := exec.Command(filepath.Join(filepath.Dir(s.program), "rabbitmqctl"), args...)
	control.Dir, control.Env = s.dir, append(os.Environ(), s.env...)
	if output, err := control.CombinedOutput(); err != nil {
		s.t.Fatalf("rabbitmqctl %s: %v\n%s", args, err, output)
	}
}

// create returns a server that is not running. If the program is not installed,
// it skips the test, or in CI fails it.
func create(t testing.TB, program, debian string) *Server {
	t.Helper()
	path, err := exec.LookPath(program)
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatalf("%s is not installed (Debian package %s)", program, debian)
	case err != nil:
		t.Skipf("%s is not installed (Debian package %s)", program, debian)
	}
	// Not t.TempDir, because only the owner can enter its parent directory.
	dir, err := os.MkdirTemp("", "retry-servers-")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, Address: freeAddress(t), dir: dir, program: path, stop: syscall.SIGTERM, crash: syscall.SIGKILL}
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

// ownedBy gives a directory to a user, and returns how to run programs as that
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
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(ids[0]), Gid: uint32(ids[1])}}
}

func freeAddress(t testing.TB) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	return free.Addr().String()
}

// Start starts s, and returns when it answers.
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

// Stop ends s cleanly.
func (s *Server) Stop() {
	s.t.Helper()
	s.end(s.stop)
}

// Crash ends s so that it has to recover at the next start.
func (s *Server) Crash() {
	s.t.Helper()
	s.end(s.crash)
}

func (s *Server) end(with os.Signal) {
	s.t.Helper()
	if err := s.command.Process.Signal(with); err != nil {
		s.t.Error(fmt.Errorf("%s: %w", s.program, err))
	}
	_ = s.command.Wait() // its status says how it was ended
	s.command = nil
}
