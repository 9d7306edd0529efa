// Command loader puts one load on one server and prints its figures as one line of JSON.
//
//	loader WORK -endpoint HOST:PORT [OPTIONS]
//	loader floor -endpoint HOST:PORT
//
// The second is a server: what it costs is the floor of any server of this protocol.
//
// With -paced it prints a line `ready` once it is connected, begins when it reads a line, and stays connected after its
// figures until its input ends: its parent process can take marks in between. It does as official clients do: their
// metadata and a deadline with each call, a Telemetry stream whose settings were answered, a heartbeat every 10 s.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
)

type options struct {
	endpoint    string
	topic       string
	group       string
	connections int
	inFlight    int
	bodyBytes   int
	perRequest  int
	messageType string
	groups      int
	topics      int
	count       int64
	seconds     float64
	rate        float64
	delay       time.Duration
	ackEach     bool
	clients     int
	polling     bool
	paced       bool
	tlsCA       string
	accessKey   string
}

// A work connects, calls begin once it is ready to load, and returns its figures.
type work func(ctx context.Context, o *options, begin func()) (*figures, error)

var works = map[string]work{
	"send":             send,
	"consume":          consume,
	"e2e":              endToEnd,
	"delayed":          delayed,
	"transactions":     transactions,
	"idle":             idle,
	"nats-send":        natsSend,
	"nats-consume":     natsConsume,
	"nats-e2e":         natsEndToEnd,
	"remoting-send":    remotingSend,
	"remoting-consume": remotingConsume,
	"remoting-e2e":     remotingEndToEnd,
}

// floorWork serves instead of loading.
const floorWork = "floor"

func main() {
	log.SetFlags(0)
	log.SetPrefix("loader: ")
	// What is measured is the server, and memory is cheap here.
	debug.SetGCPercent(400)
	// Otherwise each request id is a call of the kernel.
	uuid.EnableRandPool()
	if len(os.Args) > 1 && os.Args[1] == floorWork {
		if err := serveFloor(parse(floorWork, os.Args[2:])); err != nil {
			log.Fatal(err)
		}
		return
	}
	if len(os.Args) < 2 || works[os.Args[1]] == nil {
		log.Fatalf("usage: loader WORK -endpoint HOST:PORT [OPTIONS]; works: %s", strings.Join(names(), ", "))
	}
	o := parse(os.Args[1], os.Args[2:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	input := bufio.NewReader(os.Stdin)
	found, err := works[os.Args[1]](ctx, o, func() { waitForStart(o, input) })
	if err != nil {
		log.Fatal(err)
	}
	found.LoaderCPUSeconds = usedCPU()
	line, err := json.Marshal(found)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(line))
	if o.paced {
		_, _ = input.ReadString(0) // until the input ends
	}
}

func names() []string {
	var all []string
	for name := range works {
		all = append(all, name)
	}
	sort.Strings(all)
	return all
}

func parse(work string, arguments []string) *options {
	o := &options{}
	set := flag.NewFlagSet(work, flag.ExitOnError)
	set.StringVar(&o.endpoint, "endpoint", "127.0.0.1:8081", "the server's address")
	set.StringVar(&o.topic, "topic", "bench", "the topic; of NATS, the stream and its subject")
	set.StringVar(&o.group, "group", "bench", "the consumer group; of NATS, the durable consumer")
	set.IntVar(&o.connections, "connections", 4, "connections, each of a client of its own")
	set.IntVar(&o.inFlight, "in-flight", 32, "requests in flight on all connections together")
	set.IntVar(&o.bodyBytes, "body", 256, "bytes of a body")
	set.IntVar(&o.perRequest, "batch", 1, "messages in a request")
	set.StringVar(&o.messageType, "type", "NORMAL", "NORMAL, FIFO, DELAY or TRANSACTION")
	set.IntVar(&o.groups, "message-groups", 64, "message groups that FIFO messages are spread over")
	set.IntVar(&o.topics, "topics", 1, "topics to spread over: TOPIC-0, TOPIC-1, ... when more than one")
	set.Int64Var(&o.count, "count", 0, "messages; 0: as many as come in -seconds")
	set.Float64Var(&o.seconds, "seconds", 5, "how long, when no count is given")
	set.Float64Var(&o.rate, "rate", 0, "messages a second, whether or not earlier ones were answered; 0: as fast as answers come")
	set.DurationVar(&o.delay, "delay", 2*time.Second, "how far ahead delayed messages are due")
	set.BoolVar(&o.ackEach, "ack-each", false, "one call to acknowledge each message, instead of one for all received")
	set.IntVar(&o.clients, "clients", 100, "clients that are idle")
	set.BoolVar(&o.polling, "polling", true, "each idle client has a receive that waits")
	set.BoolVar(&o.paced, "paced", false, "print `ready`, wait for a line, and stay until the input ends")
	set.StringVar(&o.tlsCA, "tls-ca", "", "TLS, with the authority of this file; not of NATS")
	set.StringVar(&o.accessKey, "access-key", "", "the user that signs each call, with the secret in "+secretVariable+"; not of NATS")
	if err := set.Parse(arguments); err != nil {
		log.Fatal(err)
	}
	if o.connections > o.inFlight {
		o.connections = o.inFlight
	}
	return o
}

func waitForStart(o *options, input *bufio.Reader) {
	if !o.paced {
		return
	}
	fmt.Println("ready")
	if _, err := input.ReadString('\n'); err != nil {
		log.Fatalf("no line to start at: %v", err)
	}
}

func usedCPU() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
