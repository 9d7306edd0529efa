// Command producer sends, ends transactions and recalls as its input says, and prints what happens; see the README
// beside the languages.
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

type program struct {
	topic    string
	producer rocketmq.Producer

	mutex        sync.Mutex
	transactions map[string]rocketmq.Transaction
	asked        map[string]bool
}

func main() {
	if len(os.Args) != 3 && len(os.Args) != 4 {
		log.Fatal("usage: producer ENDPOINT TOPIC [NAMESPACE]")
	}
	// The client encrypts unless told otherwise.
	rocketmq.EnableSsl = false
	p := &program{
		topic:        os.Args[2],
		transactions: map[string]rocketmq.Transaction{},
		asked:        map[string]bool{},
	}
	if err := p.start(os.Args[1], strings.Join(os.Args[3:], "")); err != nil {
		log.Fatal(err)
	}
	show("ready", p.topic)
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		p.do(strings.Fields(input.Text()))
	}
	if err := p.producer.GracefulStop(); err != nil {
		log.Fatal(err)
	}
}

func (p *program) start(endpoint, namespace string) (err error) {
	p.producer, err = rocketmq.NewProducer(
		&rocketmq.Config{Endpoint: endpoint, NameSpace: namespace, Credentials: &credentials.SessionCredentials{}},
		rocketmq.WithTopics(p.topic),
		rocketmq.WithTransactionChecker(&rocketmq.TransactionChecker{Check: p.check}))
	if err != nil {
		return fmt.Errorf("new producer: %w", err)
	}
	return p.producer.Start()
}

// do carries out one command and prints its outcome.
func (p *program) do(words []string) {
	command, body := words[0], words[1]
	var outcome []string
	var err error
	switch command {
	case "send":
		outcome, err = p.send(p.message(body))
	case "half":
		outcome, err = p.half(body)
	case "commit":
		outcome, err = []string{"committed", body}, p.begun(body).Commit()
	case "rollback":
		outcome, err = []string{"rolled-back", body}, p.begun(body).RollBack()
	case "timed":
		outcome, err = p.timed(body, words[2])
	case "recall":
		outcome, err = p.recall(body, words[2])
	default:
		log.Fatalf("no command %s", command)
	}
	if err != nil {
		log.Printf("%s %s: %v", command, body, err)
		outcome = []string{"refused", body, code(err)}
	}
	show(outcome...)
}

func (p *program) half(body string) ([]string, error) {
	transaction := p.producer.BeginTransaction()
	// Before the send: the server may ask before its answer is here.
	p.mutex.Lock()
	p.transactions[body] = transaction
	p.mutex.Unlock()
	receipts, err := p.producer.SendWithTransaction(context.Background(), p.message(body), transaction)
	return sent(body, receipts, err)
}

func (p *program) timed(body, dueMs string) ([]string, error) {
	due, err := strconv.ParseInt(dueMs, 10, 64)
	if err != nil {
		return nil, err
	}
	message := p.message(body)
	message.SetDelayTimestamp(time.UnixMilli(due))
	return p.send(message)
}

func (p *program) send(message *rocketmq.Message) ([]string, error) {
	receipts, err := p.producer.Send(context.Background(), message)
	return sent(string(message.Body), receipts, err)
}

func (p *program) recall(body, handle string) ([]string, error) {
	id, err := p.producer.Recall(context.Background(), p.topic, handle)
	return []string{"recalled", body, id}, err
}

func (p *program) message(body string) *rocketmq.Message {
	return &rocketmq.Message{Topic: p.topic, Body: []byte(body)}
}

func (p *program) begun(body string) rocketmq.Transaction {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.transactions[body]
}

// check answers a transaction check of the server.
func (p *program) check(message *rocketmq.MessageView) rocketmq.TransactionResolution {
	body := string(message.GetBody())
	answer, resolution := "unknown", rocketmq.UNKNOWN
	switch {
	case p.commits(body):
		answer, resolution = "commit", rocketmq.COMMIT
	case strings.HasPrefix(body, "rollback-"):
		answer, resolution = "rollback", rocketmq.ROLLBACK
	}
	show("checked", body, answer)
	return resolution
}

func (p *program) commits(body string) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	again := p.asked[body]
	p.asked[body] = true
	kind, _, _ := strings.Cut(body, "-")
	return kind == "commit" || kind == "later" && again || kind == "elsewhere" && p.transactions[body] == nil
}

func sent(body string, receipts []*rocketmq.SendReceipt, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	handle := receipts[0].RecallHandle
	if handle == "" {
		handle = "-"
	}
	return []string{"sent", body, receipts[0].MessageID, handle}, nil
}

func code(err error) string {
	var status *rocketmq.ErrRpcStatus
	if errors.As(err, &status) {
		return strconv.Itoa(int(status.GetCode()))
	}
	return "-"
}

func show(words ...string) {
	fmt.Fprintf(os.Stdout, "%d %s\n", os.Getpid(), strings.Join(words, " "))
}
