package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	mrand "math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// send fills the connections with requests; the next one goes when one is answered, or by the clock if there is a rate.
func send(ctx context.Context, o *options, begin func()) (*figures, error) {
	clients, err := connectAll(ctx, o, same(""), o.connections)
	if err != nil {
		return nil, err
	}
	defer closeAll(clients)
	maker := newMaker(o)
	begin()
	if o.rate > 0 {
		return byTheClock(ctx, o, func(t *tally, number int64) { sendOne(ctx, clients, maker, t, number) }), nil
	}
	return asAnswersCome(ctx, o, func(t *tally, number int64) { sendOne(ctx, clients, maker, t, number) }), nil
}

func sendOne(ctx context.Context, clients []*client, maker *maker, t *tally, number int64) {
	c := clients[number%int64(len(clients))]
	request := &pb.SendMessageRequest{Messages: maker.batch(number, c.host)}
	began := time.Now()
	call, cancel := context.WithDeadline(c.signed(ctx), began.Add(callTimeout))
	answer, err := c.stub.SendMessage(call, request)
	cancel()
	took := time.Since(began)
	t.Lock()
	defer t.Unlock()
	if code := failure(answer, err); code != "" {
		t.fail(code)
		t.refused.add(took)
		return
	}
	// Not that of entries: Apache RocketMQ answers a batch with a single one.
	t.sent += int64(len(request.Messages))
	t.latency.add(took)
}

// asAnswersCome keeps -in-flight requests going until -count messages are sent, or -seconds are over.
func asAnswersCome(ctx context.Context, o *options, do func(t *tally, number int64)) *figures {
	var next atomic.Int64
	requests := (o.count + int64(o.perRequest) - 1) / int64(o.perRequest)
	began := time.Now()
	end := began.Add(time.Duration(o.seconds * float64(time.Second)))
	all := make([]*tally, o.inFlight)
	var running sync.WaitGroup
	for worker := range all {
		all[worker] = &tally{}
		running.Add(1)
		go func() {
			defer running.Done()
			for ctx.Err() == nil {
				number := next.Add(1) - 1
				if o.count > 0 && number >= requests || o.count == 0 && !time.Now().Before(end) {
					return
				}
				do(all[worker], number)
			}
		}()
	}
	running.Wait()
	return summed(all, time.Since(began))
}

// byTheClock begins -rate works a second for -seconds, without waiting for earlier ones.
func byTheClock(ctx context.Context, o *options, do func(t *tally, number int64)) *figures {
	shared := &tally{}
	began := time.Now()
	var running sync.WaitGroup
	for number := range int64(o.rate * o.seconds) {
		due := began.Add(time.Duration(float64(number) / o.rate * float64(time.Second)))
		if !sleepUntil(ctx, due) {
			break
		}
		shared.Lock()
		shared.lag.add(time.Since(due))
		shared.Unlock()
		running.Add(1)
		go func() {
			defer running.Done()
			do(shared, number)
		}()
	}
	running.Wait()
	return summed([]*tally{shared}, time.Since(began))
}

func sleepUntil(ctx context.Context, due time.Time) bool {
	left := time.Until(due)
	if left <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// maker makes messages as official clients do.
type maker struct {
	o         *options
	body      []byte
	kind      pb.MessageType
	resources []*pb.Resource
	idPrefix  string
	sequence  atomic.Uint32
	tag       string
}

func newMaker(o *options) *maker {
	m := &maker{o: o, body: make([]byte, o.bodyBytes), tag: "bench"}
	// Nothing that can be compressed.
	source := mrand.New(mrand.NewPCG(1, 2))
	for index := range m.body {
		m.body[index] = byte(source.Uint32())
	}
	m.kind = pb.MessageType(pb.MessageType_value[o.messageType])
	for _, topic := range topicsOf(o) {
		m.resources = append(m.resources, &pb.Resource{Name: topic})
	}
	var origin [12]byte
	_, _ = rand.Read(origin[:]) // never fails
	m.idPrefix = "01" + hex.EncodeToString(origin[:])
	return m
}

func (m *maker) batch(number int64, host string) []*pb.Message {
	messages := make([]*pb.Message, m.o.perRequest)
	// The messages of one request have one topic.
	resource := m.resources[number%int64(len(m.resources))]
	for index := range messages {
		messages[index] = m.message(resource, number*int64(m.o.perRequest)+int64(index), host)
	}
	return messages
}

func (m *maker) message(topic *pb.Resource, number int64, host string) *pb.Message {
	system := &pb.SystemProperties{
		Tag:           &m.tag,
		MessageId:     m.idPrefix + fmt.Sprintf("%08X", m.sequence.Add(1)),
		BornTimestamp: timestamppb.Now(),
		BornHost:      host,
		BodyEncoding:  pb.Encoding_IDENTITY,
		MessageType:   m.kind,
	}
	switch m.kind {
	case pb.MessageType_FIFO:
		name := "group-" + strconv.FormatInt(number/int64(m.o.perRequest)%int64(m.o.groups), 10)
		system.MessageGroup = &name
	case pb.MessageType_DELAY:
		// Whole milliseconds, as servers keep them: a part of one that is cut off would look early.
		system.DeliveryTimestamp = timestamppb.New(time.Now().Add(m.o.delay).Truncate(time.Millisecond))
	}
	return &pb.Message{Topic: topic, SystemProperties: system, Body: m.body}
}

// stamped is a message whose body begins with the time.
func (m *maker) stamped(number int64, host string) *pb.Message {
	message := m.message(m.resources[0], number, host)
	message.Body = append([]byte(nil), m.body...)
	binary.LittleEndian.PutUint64(message.Body, uint64(time.Now().UnixNano()))
	return message
}

func stampOf(body []byte) time.Time {
	return time.Unix(0, int64(binary.LittleEndian.Uint64(body)))
}
