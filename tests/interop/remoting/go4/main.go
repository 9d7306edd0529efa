// Command driver does what the lines of its input say with the client of RocketMQ 4, and prints what happens; see the
// README beside the languages.
package main

import (
	"bufio"
	"fmt"
	"log"
	"net/url"
	"os"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type driver struct {
	servers   primitive.NsResolver
	producers map[string]*sender
	consumers map[string]interface{ Shutdown() error }
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: driver ADDRESS")
	}
	rlog.SetLogLevel("warn")
	rlog.SetOutputPath("client.log")
	d := driver{
		primitive.NewPassthroughResolver([]string{os.Args[1]}),
		map[string]*sender{},
		map[string]interface{ Shutdown() error }{},
	}
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<24)
	for input.Scan() {
		values, err := url.ParseQuery(input.Text())
		if err != nil {
			log.Fatal(err)
		}
		command, answer := line{values}, newLine("done")
		answer.Set("number", command.Get("number"))
		if err := d.carryOut(command, answer); err != nil {
			answer.Set("error", err.Error())
		}
		answer.print()
	}
}

func (d driver) carryOut(command, answer line) error {
	name := command.Get("name")
	switch op := command.Get("op"); op {
	case "producer":
		started, err := d.startProducer(command)
		d.producers[name] = started
		return err
	case "send":
		return d.producers[name].send(command, answer)
	case "batch":
		return d.producers[name].sendBatch(command, answer)
	case "transaction":
		return d.producers[name].sendInTransaction(command, answer)
	case "request":
		return d.producers[name].request(command, answer)
	case "push":
		started, err := d.startPush(command)
		d.consumers[name] = started
		return err
	case "lite":
		started, err := d.startPull(command)
		d.consumers[name] = started
		return err
	case "stop":
		if stopping, ok := d.producers[name]; ok {
			delete(d.producers, name)
			return stopping.stop()
		}
		defer delete(d.consumers, name)
		return d.consumers[name].Shutdown()
	default:
		return fmt.Errorf("no such command: %s", op)
	}
}

func credentials(command line) primitive.Credentials {
	return primitive.Credentials{AccessKey: command.Get("access_key"), SecretKey: command.Get("secret_key")}
}
