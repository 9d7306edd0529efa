// Command lite subscribes lite topics and sends to them as its input says, handles messages as their bodies say, and
// prints what happens; see the README beside the languages.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	await = 5 * time.Second
	// This client does not have the server renew what it holds.
	invisible = 30 * time.Second
	pause     = 3 * time.Second
)

type program struct {
	config   *rocketmq.Config
	topic    string
	released chan struct{}
	consumer rocketmq.LitePushConsumer
	producer rocketmq.Producer

	mutex      sync.Mutex
	deliveries map[string]int
}

func main() {
	if len(os.Args) != 5 || os.Args[2] != "push" {
		log.Fatal("usage: lite ENDPOINT push TOPIC GROUP")
	}
	// The client encrypts unless told otherwise.
	rocketmq.EnableSsl = false
	p := &program{
		config: &rocketmq.Config{
			Endpoint: os.Args[1], ConsumerGroup: os.Args[4], Credentials: &credentials.SessionCredentials{},
		},
		topic:      os.Args[3],
		released:   make(chan struct{}),
		deliveries: map[string]int{},
	}
	if err := p.listen(); err != nil {
		log.Fatal(err)
	}
	show("ready")
	release := sync.OnceFunc(func() { close(p.released) })
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		words := strings.Split(input.Text(), "\t")
		if words[0] == "release" {
			release()
			continue
		}
		if err := p.do(words); err != nil {
			show("refused", words[0], errorName(err), errorCode(err))
		} else {
			show("done", words[0])
		}
	}
}

func (p *program) listen() (err error) {
	listener := &rocketmq.FuncMessageListener{Consume: p.consume}
	p.consumer, err = rocketmq.NewLitePushConsumer(p.config, rocketmq.NewLitePushConsumerConfig(p.topic, invisible),
		rocketmq.WithPushAwaitDuration(await),
		// Without it the lite topics of one batch wait for each other.
		rocketmq.WithPushEnableFifoConsumeAccelerator(true),
		rocketmq.WithPushMessageListener(listener))
	if err != nil {
		return fmt.Errorf("new lite push consumer: %w", err)
	}
	return p.consumer.Start()
}

func (p *program) do(words []string) error {
	switch words[0] {
	case "subscribe":
		return p.consumer.SubscribeLite(words[1])
	case "unsubscribe":
		return p.consumer.UnSubscribeLite(words[1])
	case "send":
		return p.send(words[1], words[2])
	default:
		return fmt.Errorf("no command %s", words[0])
	}
}

func (p *program) send(liteTopic, body string) (err error) {
	if p.producer == nil {
		if p.producer, err = rocketmq.NewProducer(p.config, rocketmq.WithTopics(p.topic)); err != nil {
			return err
		}
		if err = p.producer.Start(); err != nil {
			return err
		}
	}
	message := &rocketmq.Message{Topic: p.topic, Body: []byte(body)}
	message.SetLiteTopic(liteTopic)
	_, err = p.producer.Send(context.Background(), message)
	return err
}

func (p *program) consume(message *rocketmq.MessageView) rocketmq.ConsumerResult {
	body := string(message.GetBody())
	show("got", message.GetLiteTopic(), body, strconv.Itoa(int(message.GetDeliveryAttempt())))
	delivery := p.count(body)
	if strings.Contains(body, "-held-") {
		<-p.released
	}
	switch words := strings.Split(body, "-"); {
	case words[0] == "poison", words[0] == "fail" && delivery <= number(words[1]):
		show("failed", message.GetLiteTopic(), body)
		return rocketmq.FAILURE
	case words[0] == "suspend" && delivery <= number(words[1]):
		show("suspended", message.GetLiteTopic(), body)
		return rocketmq.NewConsumerResultSuspend(pause)
	default:
		show("ok", message.GetLiteTopic(), body)
		return rocketmq.SUCCESS
	}
}

func (p *program) count(body string) int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.deliveries[body]++
	return p.deliveries[body]
}

func number(text string) int {
	found, err := strconv.Atoi(text)
	if err != nil {
		log.Fatal(err)
	}
	return found
}

func errorName(err error) string {
	name := fmt.Sprintf("%T", err)
	return name[strings.LastIndex(name, ".")+1:]
}

func errorCode(err error) string {
	var status *rocketmq.ErrRpcStatus
	if errors.As(err, &status) {
		return strconv.Itoa(int(status.GetCode()))
	}
	fmt.Fprintln(os.Stderr, err)
	return "-"
}

func show(words ...string) {
	fmt.Fprintf(os.Stdout, "%d\t%s\n", os.Getpid(), strings.Join(words, "\t"))
}
