package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

const (
	consumerConnections = 1
	consumerPolls       = 4
	graceful            = 15 * time.Second
	// A broker lets 1,024 receives of a group wait, and refuses the others.
	idleOfGroup = 500
)

// endToEnd sends -rate messages a second, and takes the time from the begin of a send until its message is received.
func endToEnd(ctx context.Context, o *options, begin func()) (*figures, error) {
	return throughServer(ctx, o, begin, func(message *pb.Message, t *tally) { t.latency.add(time.Since(stampOf(message.Body))) })
}

// delayed sends -rate messages a second that are due -delay later, and takes how late they come.
func delayed(ctx context.Context, o *options, begin func()) (*figures, error) {
	o.messageType = "DELAY"
	return throughServer(ctx, o, begin, func(message *pb.Message, t *tally) {
		late := time.Since(message.SystemProperties.DeliveryTimestamp.AsTime())
		if late < 0 {
			t.early++
		}
		t.latency.add(late)
	})
}

// throughServer has a producer and a waiting consumer in this process, so that one clock has both times.
func throughServer(
	ctx context.Context, o *options, begin func(), arrived func(*pb.Message, *tally),
) (*figures, error) {
	producers, err := connectAll(ctx, o, same(""), o.connections)
	if err != nil {
		return nil, err
	}
	defer closeAll(producers)
	consumers, err := connectAll(ctx, o, same(o.group), consumerConnections)
	if err != nil {
		return nil, err
	}
	defer closeAll(consumers)
	consuming, stop := context.WithCancel(ctx)
	defer stop()
	var outstanding, sent atomic.Int64
	outstanding.Store(1) // while messages are sent
	var received []*tally
	var running sync.WaitGroup
	running.Add(1)
	settle := func(c *client, topic string, messages []*pb.Message, t *tally) {
		acknowledge(consuming, c, &options{}, topic, messages, &tally{})
		if outstanding.Add(-int64(len(messages))) <= 0 {
			stop()
		}
	}
	polling := *o
	polling.inFlight = consumerPolls
	begin()
	go func() {
		defer running.Done()
		received = receiving(consuming, consumers, &polling, settle, arrived)
	}()
	maker := newMaker(o)
	found := byTheClock(ctx, o, func(t *tally, number int64) {
		c := producers[number%int64(len(producers))]
		call, cancel := context.WithTimeout(c.signed(ctx), callTimeout)
		defer cancel()
		outstanding.Add(1)
		answer, err := c.stub.SendMessage(call, &pb.SendMessageRequest{Messages: []*pb.Message{maker.stamped(number, c.host)}})
		t.Lock()
		defer t.Unlock()
		if code := failure(answer, err); code != "" {
			t.fail(code)
			outstanding.Add(-1)
			return
		}
		sent.Add(1)
	})
	grace := time.AfterFunc(graceful+o.delay, stop)
	defer grace.Stop()
	if outstanding.Add(-1) <= 0 {
		stop()
	}
	running.Wait()
	all := summed(received, time.Duration(found.Seconds*float64(time.Second)))
	all.Sent, all.ScheduleLag = sent.Load(), found.ScheduleLag
	for code, count := range found.Errors {
		all.Errors[code] += count
	}
	return all, nil
}

// transactions sends half messages and commits each; the time is that of both calls.
func transactions(ctx context.Context, o *options, begin func()) (*figures, error) {
	o.messageType, o.perRequest = "TRANSACTION", 1
	clients, err := connectAll(ctx, o, same(""), o.connections)
	if err != nil {
		return nil, err
	}
	defer closeAll(clients)
	maker := newMaker(o)
	begin()
	return asAnswersCome(ctx, o, func(t *tally, number int64) {
		c := clients[number%int64(len(clients))]
		began := time.Now()
		code := transaction(ctx, c, maker.batch(number, c.host))
		if code != "" {
			t.fail(code)
			return
		}
		t.sent++
		t.latency.add(time.Since(began))
	}), nil
}

func transaction(ctx context.Context, c *client, messages []*pb.Message) string {
	call, cancel := context.WithTimeout(c.signed(ctx), callTimeout)
	defer cancel()
	half, err := c.stub.SendMessage(call, &pb.SendMessageRequest{Messages: messages})
	if code := failure(half, err); code != "" {
		return code
	}
	ending, cancelEnding := context.WithTimeout(c.signed(ctx), callTimeout)
	defer cancelEnding()
	ended, err := c.stub.EndTransaction(ending, &pb.EndTransactionRequest{
		Topic:         messages[0].Topic,
		MessageId:     half.Entries[0].MessageId,
		TransactionId: half.Entries[0].TransactionId,
		Resolution:    pb.TransactionResolution_COMMIT,
		Source:        pb.TransactionSource_SOURCE_CLIENT,
	})
	return failure(ended, err)
}

// same is one group for all clients.
func same(group string) func(int) string { return func(int) string { return group } }

// spread is a group for each few hundred clients; the first is the one that was named.
func spread(group string) func(int) string {
	return func(number int) string {
		if number < idleOfGroup {
			return group
		}
		return fmt.Sprintf("%s-%d", group, number/idleOfGroup)
	}
}

// idle connects -clients consumers that receive nothing, and keeps them connected for -seconds after the begin signal.
func idle(ctx context.Context, o *options, begin func()) (*figures, error) {
	clients, err := connectAll(ctx, o, spread(o.group), o.clients)
	if err != nil {
		return nil, err
	}
	defer closeAll(clients)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	polling := *o
	polling.inFlight = len(clients)
	received := make(chan []*tally, 1)
	if o.polling {
		ignore := func(*client, string, []*pb.Message, *tally) {}
		go func() { received <- receiving(ctx, clients, &polling, ignore, nil) }()
	} else {
		received <- nil
	}
	begin()
	began := time.Now()
	sleepUntil(ctx, began.Add(time.Duration(o.seconds*float64(time.Second))))
	took := time.Since(began)
	stop()
	return summed(<-received, took), nil
}
