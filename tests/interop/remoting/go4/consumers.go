package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

var starts = map[string]consumer.ConsumeFromWhere{
	"":                          consumer.ConsumeFromFirstOffset,
	"CONSUME_FROM_FIRST_OFFSET": consumer.ConsumeFromFirstOffset,
	"CONSUME_FROM_LAST_OFFSET":  consumer.ConsumeFromLastOffset,
	"CONSUME_FROM_TIMESTAMP":    consumer.ConsumeFromTimestamp,
}

func (d driver) options(command line) []consumer.Option {
	options := []consumer.Option{
		consumer.WithNsResolver(d.servers),
		consumer.WithGroupName(command.Get("group")),
		consumer.WithInstance(command.Get("name")),
		consumer.WithConsumeFromWhere(starts[command.Get("from")]),
	}
	if command.Has("timestamp") {
		options = append(options, consumer.WithConsumeTimestamp(command.Get("timestamp")))
	}
	if command.Has("access_key") {
		options = append(options, consumer.WithCredentials(credentials(command)))
	}
	if command.Has("max_times") {
		options = append(options, consumer.WithMaxReconsumeTimes(int32(command.number("max_times", 16))))
	}
	if command.Get("model") == "BROADCASTING" {
		options = append(options, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	if command.Has("orderly") {
		options = append(options, consumer.WithConsumerOrder(true))
	}
	return options
}

func selector(command line) consumer.MessageSelector {
	if command.Has("sql") {
		return consumer.MessageSelector{Type: consumer.SQL92, Expression: command.Get("sql")}
	}
	if command.Has("tags") {
		return consumer.MessageSelector{Type: consumer.TAG, Expression: command.Get("tags")}
	}
	return consumer.MessageSelector{}
}

func (d driver) startPush(command line) (rocketmq.PushConsumer, error) {
	started, err := rocketmq.NewPushConsumer(d.options(command)...)
	if err != nil {
		return nil, err
	}
	name, level := command.Get("name"), command.number("delay_level", 0)
	pause := time.Duration(command.number("sleep_ms", 0)) * time.Millisecond
	isOrderly := command.Has("orderly")
	listen := func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		if concurrent, ok := primitive.GetConcurrentlyCtx(ctx); ok {
			concurrent.DelayLevelWhenNextConsume = level
		}
		failed := false
		for _, message := range messages {
			printGot(name, message)
			failed = failed || fails(message)
		}
		time.Sleep(pause)
		switch {
		case failed && isOrderly:
			return consumer.SuspendCurrentQueueAMoment, nil
		case failed:
			return consumer.ConsumeRetryLater, nil
		default:
			return consumer.ConsumeSuccess, nil
		}
	}
	for _, topic := range command.Values["topic"] {
		if err := started.Subscribe(topic, selector(command), listen); err != nil {
			return nil, err
		}
	}
	return started, started.Start()
}

func (d driver) startPull(command line) (rocketmq.PullConsumer, error) {
	started, err := rocketmq.NewPullConsumer(d.options(command)...)
	if err != nil {
		return nil, err
	}
	if err := started.Subscribe(command.Get("topic"), selector(command)); err != nil {
		return nil, err
	}
	if err := started.Start(); err != nil {
		return nil, err
	}
	go func() {
		for {
			polled, err := started.Poll(context.Background(), 500*time.Millisecond)
			if err != nil || polled == nil {
				continue
			}
			for _, message := range polled.GetMsgList() {
				printGot(command.Get("name"), message)
			}
			started.ACK(context.Background(), polled, consumer.ConsumeSuccess)
		}
	}()
	return started, nil
}

// fails tells whether the listener fails: on bodies that begin with "fail-N-" N times, with "poison-" always.
func fails(message *primitive.MessageExt) bool {
	parts := strings.Split(string(message.Body), "-")
	times := 0
	if parts[0] == "fail" {
		times, _ = strconv.Atoi(parts[1])
	}
	return parts[0] == "poison" || int(message.ReconsumeTimes) < times
}

func printGot(name string, message *primitive.MessageExt) {
	got := newLine("got")
	for key, value := range map[string]any{
		"name": name, "topic": message.Topic, "body": string(message.Body), "id": message.MsgId,
		"queue": message.Queue.QueueId, "offset": message.QueueOffset, "times": message.ReconsumeTimes,
		"flag": message.Flag, "born": message.BornTimestamp, "stored": message.StoreTimestamp,
		"clock": time.Now().UnixMilli(),
	} {
		got.Set(key, fmt.Sprint(value))
	}
	for key, value := range message.GetProperties() {
		got.Set("p."+key, value)
	}
	got.Set("tag", message.GetTags())
	got.Set("keys", message.GetKeys())
	got.print()
}
