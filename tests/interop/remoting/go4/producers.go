package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const patience = 20 * time.Second

// sender is an ordinary producer, or one of transactions.
type sender struct {
	ordinary     rocketmq.Producer
	transactions rocketmq.TransactionProducer
}

func (d driver) startProducer(command line) (*sender, error) {
	options := []producer.Option{
		producer.WithNsResolver(d.servers),
		producer.WithGroupName(command.Get("group")),
		producer.WithInstanceName(command.Get("name")),
		producer.WithQueueSelector(producer.NewHashQueueSelector()),
		producer.WithSendMsgTimeout(30 * time.Second),
	}
	if command.Has("access_key") {
		options = append(options, producer.WithCredentials(credentials(command)))
	}
	if command.Has("transactions") {
		started, err := rocketmq.NewTransactionProducer(checker{}, options...)
		if err != nil {
			return nil, err
		}
		return &sender{transactions: started}, started.Start()
	}
	started, err := rocketmq.NewProducer(options...)
	if err != nil {
		return nil, err
	}
	return &sender{ordinary: started}, started.Start()
}

// checker decides by what the body begins with; what begins with "check-" is decided by a check.
type checker struct{}

func (checker) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	return decide(string(message.Body))
}

func (checker) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	checked := newLine("checked")
	checked.Set("body", string(message.Body))
	checked.print()
	return decide(strings.TrimPrefix(string(message.Body), "check-"))
}

func decide(body string) primitive.LocalTransactionState {
	switch {
	case strings.HasPrefix(body, "commit"):
		return primitive.CommitMessageState
	case strings.HasPrefix(body, "rollback"):
		return primitive.RollbackMessageState
	default:
		return primitive.UnknowState
	}
}

func messageOf(command line, body string) *primitive.Message {
	message := primitive.NewMessage(command.Get("topic"), []byte(body))
	message.Flag = int32(command.number("flag", 0))
	message.WithProperties(command.beginningWith("p."))
	if command.Has("tag") {
		message.WithTag(command.Get("tag"))
	}
	if command.Has("keys") {
		message.WithKeys(strings.Fields(command.Get("keys")))
	}
	if command.Has("delay") {
		message.WithDelayTimeLevel(command.number("delay", 0))
	}
	if command.Has("order") {
		message.WithShardingKey(command.Get("order"))
	}
	return message
}

func (s *sender) send(command, answer line) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, body := range command.Values["body"] {
		message := messageOf(command, body)
		var err error
		switch mode := command.Get("mode"); mode {
		case "", "sync", "ordered":
			var result *primitive.SendResult
			result, err = s.ordinary.SendSync(ctx, message)
			describe(result, answer)
		case "oneway":
			err = s.ordinary.SendOneWay(ctx, message)
		case "async":
			err = s.sendAsynchronously(ctx, message, answer)
		default:
			err = fmt.Errorf("no such mode: %s", mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *sender) sendAsynchronously(ctx context.Context, message *primitive.Message, answer line) error {
	sent := make(chan error, 1)
	err := s.ordinary.SendAsync(ctx, func(_ context.Context, result *primitive.SendResult, err error) {
		describe(result, answer)
		sent <- err
	}, message)
	if err != nil {
		return err
	}
	select {
	case err := <-sent:
		return err
	case <-ctx.Done():
		return errors.New("no callback came")
	}
}

func (s *sender) sendBatch(command, answer line) error {
	var messages []*primitive.Message
	for _, body := range command.Values["body"] {
		messages = append(messages, messageOf(command, body))
	}
	result, err := s.ordinary.SendSync(context.Background(), messages...)
	describe(result, answer)
	return err
}

func (s *sender) sendInTransaction(command, answer line) error {
	result, err := s.transactions.SendMessageInTransaction(context.Background(), messageOf(command, command.Get("body")))
	if err != nil {
		return err
	}
	describe(result.SendResult, answer)
	answer.Set("state", fmt.Sprint(result.State))
	return nil
}

func (s *sender) request(command, answer line) error {
	timeout := time.Duration(command.number("timeout_ms", 10_000)) * time.Millisecond
	reply, err := s.ordinary.Request(context.Background(), timeout, messageOf(command, command.Get("body")))
	if err != nil {
		return err
	}
	answer.Set("body", string(reply.Body))
	return nil
}

func describe(result *primitive.SendResult, answer line) {
	if result == nil {
		return
	}
	answer.Set("status", map[primitive.SendStatus]string{primitive.SendOK: "SEND_OK"}[result.Status])
	answer.Set("id", result.MsgID)
	answer.Set("offset_id", result.OffsetMsgID)
	answer.Set("offset", fmt.Sprint(result.QueueOffset))
	if result.MessageQueue != nil {
		answer.Set("queue", fmt.Sprint(result.MessageQueue.QueueId))
		answer.Set("broker", result.MessageQueue.BrokerName)
	}
}

func (s *sender) stop() error {
	if s.transactions != nil {
		return s.transactions.Shutdown()
	}
	return s.ordinary.Shutdown()
}
