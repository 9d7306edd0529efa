// Command example sends messages with the client of RocketMQ 4, and has them pushed to a listener.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const deadline = 60 * time.Second

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: example ADDRESS TOPIC GROUP COUNT")
	}
	count, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatalf("COUNT: %v", err)
	}
	rlog.SetLogLevel("error")
	if err := run(os.Args[1], os.Args[2], os.Args[3], count); err != nil {
		log.Fatal(err)
	}
}

func run(address, topic, group string, count int) error {
	servers := primitive.NewPassthroughResolver([]string{address})
	sender, err := rocketmq.NewProducer(producer.WithNsResolver(servers), producer.WithGroupName(group+"-producers"))
	if err != nil {
		return fmt.Errorf("new producer: %w", err)
	}
	if err := sender.Start(); err != nil {
		return fmt.Errorf("start producer: %w", err)
	}
	defer sender.Shutdown()
	for n := 1; n <= count; n++ {
		message := primitive.NewMessage(topic, fmt.Appendf(nil, "hello %d from go", n)).WithTag("example")
		message.WithKeys([]string{fmt.Sprintf("go-%d", n)})
		if _, err := sender.SendSync(context.Background(), message); err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
	fmt.Printf("sent %d\n", count)

	pushed := make(chan string, 1024)
	receiver, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(servers), consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return fmt.Errorf("new push consumer: %w", err)
	}
	err = receiver.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "example"},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, message := range messages {
				pushed <- message.MsgId
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	if err := receiver.Start(); err != nil {
		return fmt.Errorf("start push consumer: %w", err)
	}
	defer receiver.Shutdown()
	seen := map[string]bool{}
	for end := time.After(deadline); len(seen) < count; {
		select {
		case id := <-pushed:
			seen[id] = true
		case <-end:
			return fmt.Errorf("%d of %d messages came", len(seen), count)
		}
	}
	fmt.Printf("pushed %d\n", len(seen))
	return nil
}
