// Command guarded sends, receives and acknowledges as its input says, with TLS and credentials as its environment says;
// see the README beside the languages.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
	"time"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

const (
	await     = 5 * time.Second
	invisible = 30 * time.Second
	batch     = 16
)

// The errors of a start have the status in their text only.
var statusCode = regexp.MustCompile(`CODE: (\w+)`)

type outcome struct {
	Step  string `json:"step"`
	Body  string `json:"body"`
	Code  string `json:"code"`
	Error string `json:"error"`
}

type program struct {
	config   *rocketmq.Config
	topic    string
	producer rocketmq.Producer
	consumer rocketmq.SimpleConsumer
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: guarded ENDPOINT TOPIC GROUP")
	}
	// The client encrypts unless told otherwise, and believes any certificate.
	rocketmq.EnableSsl = os.Getenv("TLS") == "on"
	p := &program{
		config: &rocketmq.Config{
			Endpoint: os.Args[1], ConsumerGroup: os.Args[3],
			// Without a key the client signs nothing; it takes no nil.
			Credentials: &credentials.SessionCredentials{
				AccessKey: os.Getenv("ACCESS_KEY"), AccessSecret: os.Getenv("ACCESS_SECRET"),
			},
		},
		topic: os.Args[2],
	}
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		p.do(strings.Fields(input.Text()))
	}
}

// do carries out one command and prints its outcomes.
func (p *program) do(words []string) {
	switch words[0] {
	case "producer":
		show("producer", "", p.startProducer())
	case "consumer":
		show("consumer", "", p.startConsumer())
	case "send":
		_, err := p.producer.Send(context.Background(), &rocketmq.Message{Topic: p.topic, Body: []byte(words[1])})
		show("send", words[1], err)
	case "receive":
		p.receive()
	default:
		log.Fatalf("no command %s", words[0])
	}
}

func (p *program) startProducer() (err error) {
	if p.producer, err = rocketmq.NewProducer(p.config, rocketmq.WithTopics(p.topic)); err != nil {
		return fmt.Errorf("new producer: %w", err)
	}
	return p.producer.Start()
}

func (p *program) startConsumer() (err error) {
	all := map[string]*rocketmq.FilterExpression{p.topic: rocketmq.SUB_ALL}
	p.consumer, err = rocketmq.NewSimpleConsumer(p.config,
		rocketmq.WithSimpleAwaitDuration(await), rocketmq.WithSimpleSubscriptionExpressions(all))
	if err != nil {
		return fmt.Errorf("new simple consumer: %w", err)
	}
	return p.consumer.Start()
}

func (p *program) receive() {
	messages, err := p.consumer.Receive(context.Background(), batch, invisible)
	if nothingThere(err) {
		messages, err = nil, nil
	}
	for _, message := range messages {
		show("ack", string(message.GetBody()), p.consumer.Ack(context.Background(), message))
	}
	show("receive", "", err)
}

func show(step, body string, err error) {
	found := outcome{Step: step, Body: body}
	if err != nil {
		found.Error = err.Error()
		if code := statusCode.FindStringSubmatch(found.Error); code != nil {
			found.Code = code[1]
		}
	}
	line, err := json.Marshal(found)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", line)
}

// nothingThere tells whether a receive ended without a message; the client reports that as an error.
func nothingThere(err error) bool {
	var status *rocketmq.ErrRpcStatus
	return errors.As(err, &status) && status.GetCode() == int32(v2.Code_MESSAGE_NOT_FOUND)
}
