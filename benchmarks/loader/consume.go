package main

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/protobuf/types/known/durationpb"
)

// consume receives up to 32 messages at a time and acknowledges them, until -count were acknowledged or -seconds over.
func consume(ctx context.Context, o *options, begin func()) (*figures, error) {
	clients, err := connectAll(ctx, o, same(o.group), o.connections)
	if err != nil {
		return nil, err
	}
	defer closeAll(clients)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	begin()
	var acknowledged, ended atomic.Int64
	began := time.Now()
	if o.count == 0 {
		time.AfterFunc(time.Duration(o.seconds*float64(time.Second)), stop)
	}
	settle := func(c *client, topic string, messages []*pb.Message, t *tally) {
		done := acknowledge(ctx, c, o, topic, messages, t)
		if total := acknowledged.Add(done); o.count > 0 && total >= o.count {
			// The remaining waiters have nothing to wait for.
			ended.CompareAndSwap(0, int64(time.Since(began)))
			stop()
		}
	}
	all := receiving(ctx, clients, o, settle, nil)
	took := time.Duration(ended.Load())
	if took == 0 {
		took = time.Since(began)
	}
	return summed(all, took), nil
}

// receiving receives in -in-flight goroutines until ctx ends; `arrived` is called for each message as it comes.
func receiving(
	ctx context.Context, clients []*client, o *options,
	settle func(*client, string, []*pb.Message, *tally), arrived func(*pb.Message, *tally),
) []*tally {
	topics := topicsOf(o)
	all := make([]*tally, o.inFlight)
	var running sync.WaitGroup
	for worker := range all {
		all[worker] = &tally{}
		running.Add(1)
		go func() {
			defer running.Done()
			c, t := clients[worker%len(clients)], all[worker]
			for turn := worker; ctx.Err() == nil; turn++ {
				topic := topics[turn%len(topics)]
				if messages := receive(ctx, c, topic, t, arrived); len(messages) > 0 {
					settle(c, topic, messages, t)
				}
			}
		}()
	}
	running.Wait()
	return all
}

// receive makes one call, which waits until there is a message or its time is over.
func receive(ctx context.Context, c *client, topic string, t *tally, arrived func(*pb.Message, *tally)) []*pb.Message {
	call, cancel := context.WithTimeout(c.signed(ctx), pollTimeout+callTimeout)
	defer cancel()
	stream, err := c.stub.ReceiveMessage(call, &pb.ReceiveMessageRequest{
		Group:              &pb.Resource{Name: c.group},
		MessageQueue:       c.queue(topic),
		FilterExpression:   everything(),
		BatchSize:          receiveLimit,
		InvisibleDuration:  durationpb.New(invisible),
		LongPollingTimeout: durationpb.New(pollTimeout),
	})
	var messages []*pb.Message
	for err == nil {
		var answer *pb.ReceiveMessageResponse
		if answer, err = stream.Recv(); err != nil {
			break
		}
		if message := answer.GetMessage(); message != nil {
			messages = append(messages, message)
			if arrived != nil {
				arrived(message, t)
			}
		} else if code := answer.GetStatus().GetCode(); code != pb.Code_OK && code != pb.Code_MESSAGE_NOT_FOUND &&
			answer.GetStatus() != nil {
			t.fail(code.String())
		}
	}
	if !errors.Is(err, io.EOF) && ctx.Err() == nil {
		t.fail(failure(nil, err))
	}
	t.received += int64(len(messages))
	return messages
}

// acknowledge returns how many it could.
func acknowledge(ctx context.Context, c *client, o *options, topic string, messages []*pb.Message, t *tally) int64 {
	each := len(messages)
	if o.ackEach {
		each = 1
	}
	var done int64
	for from := 0; from < len(messages); from += each {
		request := &pb.AckMessageRequest{Group: &pb.Resource{Name: c.group}, Topic: &pb.Resource{Name: topic}}
		for _, message := range messages[from : from+each] {
			system := message.SystemProperties
			entry := &pb.AckMessageEntry{MessageId: system.MessageId, ReceiptHandle: system.GetReceiptHandle()}
			request.Entries = append(request.Entries, entry)
		}
		began := time.Now()
		call, cancel := context.WithDeadline(c.signed(ctx), began.Add(callTimeout))
		answer, err := c.stub.AckMessage(call, request)
		cancel()
		if ctx.Err() != nil && err != nil {
			break
		}
		t.latency.add(time.Since(began))
		if code := failure(answer, err); code != "" {
			t.fail("ack " + code)
			continue
		}
		done += int64(len(request.Entries))
	}
	t.acknowledged += done
	return done
}
