// Command example sends messages, receives and acks them with a simple consumer, then has more of them pushed to a
// listener.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

const (
	deadline  = 60 * time.Second
	await     = 5 * time.Second
	invisible = 30 * time.Second
	batch     = 32
)

type example struct {
	endpoint, topic, group string
	count                  int
}

// ids are the message ids that are still waited for.
type ids map[string]bool

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: example ENDPOINT TOPIC GROUP COUNT")
	}
	count, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatalf("COUNT: %v", err)
	}
	time.AfterFunc(deadline, func() { log.Fatalf("not done within %v", deadline) })
	// The client encrypts by default.
	rocketmq.EnableSsl = false
	if err := (example{os.Args[1], os.Args[2], os.Args[3], count}).run(); err != nil {
		log.Fatal(err)
	}
}

func (e example) run() error {
	producer, err := rocketmq.NewProducer(e.config(""), rocketmq.WithTopics(e.topic))
	if err != nil {
		return fmt.Errorf("new producer: %w", err)
	}
	if err := producer.Start(); err != nil {
		return fmt.Errorf("start producer: %w", err)
	}
	sent, err := e.send(producer)
	if err != nil {
		return err
	}
	received, err := e.receive(sent)
	if err != nil {
		return err
	}
	pushed, err := e.push(producer)
	if err != nil {
		return err
	}
	if err := producer.GracefulStop(); err != nil {
		return fmt.Errorf("stop producer: %w", err)
	}
	fmt.Printf("sent %d\nreceived %d\nacked %d\npushed %d\n", e.count, received, received, pushed)
	return nil
}

func (e example) config(group string) *rocketmq.Config {
	return &rocketmq.Config{Endpoint: e.endpoint, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{}}
}

func (e example) subscription() map[string]*rocketmq.FilterExpression {
	return map[string]*rocketmq.FilterExpression{e.topic: rocketmq.SUB_ALL}
}

func (e example) send(producer rocketmq.Producer) (ids, error) {
	sent := ids{}
	for n := 1; n <= e.count; n++ {
		message := &rocketmq.Message{Topic: e.topic, Body: fmt.Appendf(nil, "hello %d from go", n)}
		message.SetTag("example")
		message.SetKeys(fmt.Sprintf("go-%d", n))
		message.AddProperty("n", strconv.Itoa(n))
		receipts, err := producer.Send(context.Background(), message)
		if err != nil {
			return nil, fmt.Errorf("send: %w", err)
		}
		sent[receipts[0].MessageID] = true
	}
	return sent, nil
}

// receive receives and acks until all of missing were there, and tells how many that were.
func (e example) receive(missing ids) (int, error) {
	consumer, err := rocketmq.NewSimpleConsumer(e.config(e.group),
		rocketmq.WithSimpleAwaitDuration(await),
		rocketmq.WithSimpleSubscriptionExpressions(e.subscription()))
	if err != nil {
		return 0, fmt.Errorf("new simple consumer: %w", err)
	}
	if err := consumer.Start(); err != nil {
		return 0, fmt.Errorf("start simple consumer: %w", err)
	}
	wanted := len(missing)
	for len(missing) > 0 {
		messages, err := consumer.Receive(context.Background(), batch, invisible)
		if err != nil && !nothingThere(err) {
			return 0, fmt.Errorf("receive: %w", err)
		}
		for _, message := range messages {
			if err := consumer.Ack(context.Background(), message); err != nil {
				return 0, fmt.Errorf("ack: %w", err)
			}
			delete(missing, message.GetMessageId())
		}
	}
	if err := consumer.GracefulStop(); err != nil {
		return 0, fmt.Errorf("stop simple consumer: %w", err)
	}
	return wanted, nil
}

// push sends once more and waits until the listener had all of these messages.
func (e example) push(producer rocketmq.Producer) (int, error) {
	pushed := make(chan string, 1024)
	consumer, err := rocketmq.NewPushConsumer(e.config(e.group+"-push"),
		rocketmq.WithPushAwaitDuration(await),
		rocketmq.WithPushSubscriptionExpressions(e.subscription()),
		rocketmq.WithPushMessageListener(&rocketmq.FuncMessageListener{
			Consume: func(message *rocketmq.MessageView) rocketmq.ConsumerResult {
				pushed <- message.GetMessageId()
				return rocketmq.SUCCESS
			},
		}))
	if err != nil {
		return 0, fmt.Errorf("new push consumer: %w", err)
	}
	if err := consumer.Start(); err != nil {
		return 0, fmt.Errorf("start push consumer: %w", err)
	}
	missing, err := e.send(producer)
	if err != nil {
		return 0, err
	}
	wanted := len(missing)
	for len(missing) > 0 {
		delete(missing, <-pushed)
	}
	if err := consumer.GracefulStop(); err != nil {
		return 0, fmt.Errorf("stop push consumer: %w", err)
	}
	return wanted, nil
}

// nothingThere tells whether a receive ended without a message; the client reports that as an error.
func nothingThere(err error) bool {
	var status *rocketmq.ErrRpcStatus
	return errors.As(err, &status) && status.GetCode() == int32(v2.Code_MESSAGE_NOT_FOUND)
}
