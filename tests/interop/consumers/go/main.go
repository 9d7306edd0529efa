// Command consumer consumes as the bodies of the messages say, and prints what happens; see the README beside the
// languages.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

const (
	await     = 5 * time.Second
	invisible = 10 * time.Second
	again     = time.Second
	batch     = 32
)

type outcome string

const (
	ok     outcome = "ok"
	failed outcome = "failed"
	forgot outcome = "forgot"
)

type consumer struct {
	config       *rocketmq.Config
	subscription map[string]*rocketmq.FilterExpression
	released     chan struct{}

	mutex      sync.Mutex
	deliveries map[string]int
}

func main() {
	if len(os.Args) != 6 && len(os.Args) != 7 {
		log.Fatal("usage: consumer ENDPOINT KIND TOPIC GROUP FILTER [NAMESPACE]")
	}
	endpoint, kind, topic, group, filter := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	// The client encrypts unless told otherwise.
	rocketmq.EnableSsl = false
	c := &consumer{
		config: &rocketmq.Config{
			Endpoint: endpoint, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{},
			NameSpace: strings.Join(os.Args[6:], ""),
		},
		subscription: map[string]*rocketmq.FilterExpression{topic: expression(filter)},
		released:     make(chan struct{}),
		deliveries:   map[string]int{},
	}
	go func() {
		if err := c.consume(kind); err != nil {
			log.Fatal(err)
		}
	}()
	c.watchInput()
}

func (c *consumer) consume(kind string) error {
	switch kind {
	case "simple":
		return c.receive()
	default:
		return c.listen()
	}
}

func expression(filter string) *rocketmq.FilterExpression {
	language, text, _ := strings.Cut(filter, ":")
	if language == "sql" {
		return rocketmq.NewFilterExpressionWithType(text, rocketmq.SQL92)
	}
	return rocketmq.NewFilterExpression(text)
}

// watchInput lets the held handlers go on when a line comes, and returns at the end of the input.
func (c *consumer) watchInput() {
	release := sync.OnceFunc(func() { close(c.released) })
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		release()
	}
}

func (c *consumer) listen() error {
	listener := &rocketmq.FuncMessageListener{
		Consume: func(message *rocketmq.MessageView) rocketmq.ConsumerResult {
			result := c.handle(message)
			show(string(result), string(message.GetBody()))
			if result == ok {
				return rocketmq.SUCCESS
			}
			return rocketmq.FAILURE
		},
	}
	push, err := rocketmq.NewPushConsumer(c.config,
		rocketmq.WithPushAwaitDuration(await),
		rocketmq.WithPushSubscriptionExpressions(c.subscription),
		// Without it the message groups of one batch wait for each other.
		rocketmq.WithPushEnableFifoConsumeAccelerator(true),
		rocketmq.WithPushMessageListener(listener))
	if err != nil {
		return fmt.Errorf("new push consumer: %w", err)
	}
	return push.Start()
}

func (c *consumer) receive() error {
	simple, err := rocketmq.NewSimpleConsumer(c.config,
		rocketmq.WithSimpleAwaitDuration(await),
		rocketmq.WithSimpleSubscriptionExpressions(c.subscription))
	if err != nil {
		return fmt.Errorf("new simple consumer: %w", err)
	}
	if err := simple.Start(); err != nil {
		return fmt.Errorf("start simple consumer: %w", err)
	}
	for {
		messages, err := simple.Receive(context.Background(), batch, invisible)
		if err != nil && !nothingThere(err) {
			return fmt.Errorf("receive: %w", err)
		}
		for _, message := range messages {
			if err := c.settle(simple, message); err != nil {
				return err
			}
		}
	}
}

func (c *consumer) settle(simple rocketmq.SimpleConsumer, message *rocketmq.MessageView) (err error) {
	result := c.handle(message)
	switch result {
	case ok:
		err = simple.Ack(context.Background(), message)
	case failed:
		err = simple.ChangeInvisibleDuration(message, again)
	}
	if err != nil {
		return fmt.Errorf("settle %s: %w", message.GetBody(), err)
	}
	show(string(result), string(message.GetBody()))
	return nil
}

func (c *consumer) handle(message *rocketmq.MessageView) outcome {
	body := string(message.GetBody())
	show("got", body, strconv.Itoa(int(message.GetDeliveryAttempt())), orDash(message.GetTag()),
		orDash(message.GetMessageGroup()), properties(message), due(message),
		strconv.FormatInt(time.Now().UnixMilli(), 10))
	delivery := c.count(body)
	if strings.Contains(body, "-held-") {
		<-c.released
	}
	if strings.HasPrefix(body, "forget-") && delivery == 1 {
		return forgot
	}
	if strings.HasPrefix(body, "poison-") || delivery <= failures(body) {
		return failed
	}
	return ok
}

func (c *consumer) count(body string) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.deliveries[body]++
	return c.deliveries[body]
}

// failures is the N of a body fail-N-…, and 0 for any other.
func failures(body string) int {
	words := strings.Split(body, "-")
	if words[0] != "fail" {
		return 0
	}
	count, err := strconv.Atoi(words[1])
	if err != nil {
		log.Fatalf("%s: %v", body, err)
	}
	return count
}

func properties(message *rocketmq.MessageView) string {
	var pairs []string
	for key, value := range message.GetProperties() {
		pairs = append(pairs, key+"="+value)
	}
	if pairs == nil {
		return "-"
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

func due(message *rocketmq.MessageView) string {
	timestamp := message.GetDeliveryTimestamp()
	if timestamp == nil {
		return "-"
	}
	return strconv.FormatInt(timestamp.UnixMilli(), 10)
}

func orDash(text *string) string {
	if text == nil || *text == "" {
		return "-"
	}
	return *text
}

func show(words ...string) {
	fmt.Fprintf(os.Stdout, "%d %s\n", os.Getpid(), strings.Join(words, " "))
}

// nothingThere tells whether a receive ended without a message; the client reports that as an error.
func nothingThere(err error) bool {
	var status *rocketmq.ErrRpcStatus
	return errors.As(err, &status) && status.GetCode() == int32(v2.Code_MESSAGE_NOT_FOUND)
}
