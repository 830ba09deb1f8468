package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/goretry/retry/cmd/retry/internal/explore"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
)

var exploreCommand = &command{
	name: "explore", args: "[flags] [FILE [FILE]]", run: explorePolicies,
	summary: "show on a page what a policy does while you edit it, or compare two",
	doc: `
Explore serves a page at 127.0.0.1, for this machine only. While you edit a
policy, the page shows its faults, its schedule as a table and a picture, how
many retries a second hit a server when many clients fail at the same time, and
the load while attempts fail, with and without a budget. You can compare two
policies. The address of the page holds what you entered, to share it. A file
with a system of services, as retry simulate reads it, has a page of its own.

    retry explore policy.yaml
    retry explore system.yaml
    retry explore -at services.payments.retry old.yaml new.yaml
    retry explore -o page.html policy.yaml

With -o it writes the page as one file without scripts, to attach to a review.
Without a file the page starts with an example. Ctrl-C stops the server. A
policy has at most 128 KiB, and a page takes at most 2 seconds to compute.
`,
}

func explorePolicies(s *streams, c *command, args []string) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	var from source
	from.define(flags)
	begin := explore.NewInput()
	output := flags.String("o", "", "write the page to this `file` and exit")
	port := flags.Int("port", 0, "serve at this `port` (default: 7388, or any free port)")
	flags.DurationVar(&begin.Outage, "outage", begin.Outage, "`how long` the outage takes")
	flags.IntVar(&begin.Clients, "clients", begin.Clients, "`how many` clients fail at the same time")
	flags.IntVar(&begin.Size, "size", begin.Size, "how many `retries` the budget holds")
	flags.Float64Var(&begin.Ratio, "ratio", begin.Ratio, "the `share` of a retry that each success adds to the budget")
	args, status, done := c.parse(s, flags, args)
	if done {
		return status
	}
	begin.At, begin.From = from.at, from.from
	if len(args) > 2 {
		return c.misused(s, fmt.Sprintf("there are %d files: write one, or two to compare", len(args)))
	}
	if *output != "" && len(args) == 0 {
		return c.misused(s, "there is no file: write the one that -o shows")
	}
	for i, name := range args {
		title, data, err := s.read(name)
		if err != nil {
			return c.failed(s, err)
		}
		if len(data) > explore.MaxText {
			return c.failed(s, fmt.Errorf("%s is longer than %d KiB", title, explore.MaxText>>10))
		}
		begin.Names[i], begin.Texts[i] = title, string(data)
	}
	system, path := explore.NewSystemInput(), ""
	if len(args) == 1 && from == (source{}) && isSystem(begin.Names[0], begin.Texts[0]) {
		path, system.Name, system.Text = "system", begin.Names[0], begin.Texts[0]
		begin.Names[0], begin.Texts = "", explore.NewInput().Texts
	}
	switch {
	case *output == "":
		return c.serve(s, begin, system, path, *port)
	case path != "":
		return c.misused(s, "-o shows policies, and this file is a system: draw it with retry simulate -svg")
	}
	html, faults, err := explore.Static(begin)
	if err == nil {
		err = os.WriteFile(*output, html, 0o644)
	}
	if err != nil {
		return c.failed(s, err)
	}
	for _, fault := range faults {
		status = c.failed(s, fault)
	}
	return status
}

// isSystem reports whether a text is a system, and not a policy.
func isSystem(name, text string) bool {
	file, err := policyfile.Parse(name, []byte(text))
	if err != nil {
		return false
	}
	document, fault := file.Document()
	return fault == nil && document.IsSystem()
}

// usualPort is the default port: a link to a page is for others who have started
// this command, too.
const usualPort = 7388

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// serve serves the pages until it is interrupted, and prints the address of the one at
// path.
func (c *command) serve(s *streams, begin explore.Input, system explore.SystemInput, path string, port int) int {
	ctx, stop := signal.NotifyContext(s.ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := listen(cmp.Or(port, usualPort))
	if err != nil && port == 0 {
		listener, err = listen(0)
	}
	if err != nil {
		return c.failed(s, err)
	}
	server, err := explore.NewServer(listener, begin, system)
	if err != nil {
		return c.failed(s, err)
	}
	fmt.Fprintf(s.out, "http://%s/%s (Ctrl-C ends it)\n", listener.Addr(), path)
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		ended <- server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return c.failed(s, err)
	}
	if err := <-ended; err != nil {
		return c.failed(s, err)
	}
	return ok
}
