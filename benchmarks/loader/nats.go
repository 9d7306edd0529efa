package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// jetStreams opens the connections, and makes the stream on the first.
func jetStreams(ctx context.Context, o *options, wanted int) ([]jetstream.JetStream, func(), error) {
	var all []jetstream.JetStream
	var connections []*nats.Conn
	end := func() {
		for _, each := range connections {
			each.Close()
		}
	}
	for range wanted {
		connection, err := nats.Connect("nats://" + o.endpoint)
		if err != nil {
			end()
			return nil, nil, err
		}
		connections = append(connections, connection)
		each, err := jetstream.New(connection)
		if err != nil {
			end()
			return nil, nil, err
		}
		all = append(all, each)
	}
	_, err := all[0].CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: o.topic, Subjects: []string{o.topic}, Storage: jetstream.FileStorage,
	})
	if err != nil {
		end()
		return nil, nil, fmt.Errorf("stream %s: %w", o.topic, err)
	}
	return all, end, nil
}

// natsSend publishes and waits for the acknowledgement; with -batch it waits for a window of so many at once.
func natsSend(ctx context.Context, o *options, begin func()) (*figures, error) {
	streams, end, err := jetStreams(ctx, o, o.connections)
	if err != nil {
		return nil, err
	}
	defer end()
	body := newMaker(o).body
	begin()
	publish := func(t *tally, number int64) {
		stream := streams[number%int64(len(streams))]
		began := time.Now()
		sent, err := publishWindow(ctx, stream, o, body)
		took := time.Since(began)
		t.Lock()
		defer t.Unlock()
		if err != nil {
			t.fail(err.Error())
			return
		}
		t.sent += sent
		t.latency.add(took)
	}
	if o.rate > 0 {
		return byTheClock(ctx, o, publish), nil
	}
	return asAnswersCome(ctx, o, publish), nil
}

func publishWindow(ctx context.Context, stream jetstream.JetStream, o *options, body []byte) (int64, error) {
	if o.perRequest == 1 {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		_, err := stream.Publish(call, o.topic, body)
		return 1, err
	}
	futures := make([]jetstream.PubAckFuture, o.perRequest)
	for index := range futures {
		var err error
		if futures[index], err = stream.PublishAsync(o.topic, body); err != nil {
			return 0, err
		}
	}
	for _, future := range futures {
		select {
		case <-future.Ok():
		case err := <-future.Err():
			return 0, err
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return int64(len(futures)), nil
}

func natsConsumer(ctx context.Context, stream jetstream.JetStream, o *options) (jetstream.Consumer, error) {
	return stream.CreateOrUpdateConsumer(ctx, o.topic, jetstream.ConsumerConfig{
		Durable: o.group, AckPolicy: jetstream.AckExplicitPolicy, AckWait: invisible, MaxAckPending: 100_000,
	})
}

// natsConsume fetches up to 32 messages at a time and acknowledges each, until -count were.
func natsConsume(ctx context.Context, o *options, begin func()) (*figures, error) {
	streams, end, err := jetStreams(ctx, o, o.connections)
	if err != nil {
		return nil, err
	}
	defer end()
	if _, err := natsConsumer(ctx, streams[0], o); err != nil {
		return nil, err
	}
	begin()
	var acknowledged atomic.Int64
	began := time.Now()
	all := make([]*tally, o.inFlight)
	failed := make(chan error, o.inFlight)
	var running sync.WaitGroup
	for worker := range all {
		all[worker] = &tally{}
		running.Add(1)
		go func() {
			defer running.Done()
			consumer, err := streams[worker%len(streams)].Consumer(ctx, o.topic, o.group)
			if err != nil {
				failed <- err
				return
			}
			for acknowledged.Load() < o.count && ctx.Err() == nil {
				acknowledged.Add(fetch(consumer, all[worker], nil))
			}
		}()
	}
	running.Wait()
	took := time.Since(began)
	if len(failed) > 0 {
		return nil, <-failed
	}
	for _, each := range streams {
		// Acknowledgements go without an answer: the server has read them all when it has answered this.
		if err := each.Conn().Flush(); err != nil {
			return nil, err
		}
	}
	return summed(all, took), nil
}

func fetch(consumer jetstream.Consumer, t *tally, arrived func(jetstream.Msg)) int64 {
	batch, err := consumer.Fetch(receiveLimit, jetstream.FetchMaxWait(time.Second))
	if err != nil {
		t.fail(err.Error())
		return 0
	}
	var done int64
	for message := range batch.Messages() {
		if arrived != nil {
			arrived(message)
		}
		t.received++
		if err := message.Ack(); err != nil {
			t.fail("ack " + err.Error())
			continue
		}
		done++
	}
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
		t.fail(err.Error())
	}
	t.acknowledged += done
	return done
}

// natsEndToEnd is endToEnd with a pull consumer that asks ahead.
func natsEndToEnd(ctx context.Context, o *options, begin func()) (*figures, error) {
	streams, end, err := jetStreams(ctx, o, o.connections+1)
	if err != nil {
		return nil, err
	}
	defer end()
	consumer, err := natsConsumer(ctx, streams[o.connections], o)
	if err != nil {
		return nil, err
	}
	t := &tally{}
	var received atomic.Int64
	consuming, err := consumer.Consume(func(message jetstream.Msg) {
		took := time.Since(stampOf(message.Data()))
		_ = message.Ack() // one that is lost is delivered again, and counted
		t.Lock()
		t.latency.add(took)
		t.received++
		t.Unlock()
		received.Add(1)
	})
	if err != nil {
		return nil, err
	}
	defer consuming.Stop()
	begin()
	maker := newMaker(o)
	found := byTheClock(ctx, o, func(t *tally, number int64) {
		body := append([]byte(nil), maker.body...)
		binary.LittleEndian.PutUint64(body, uint64(time.Now().UnixNano()))
		_, err := publishWindow(ctx, streams[number%int64(o.connections)], o, body)
		t.Lock()
		defer t.Unlock()
		if err != nil {
			t.fail(err.Error())
			return
		}
		t.sent++
	})
	for deadline := time.Now().Add(graceful); received.Load() < found.Sent && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	all := summed([]*tally{t}, time.Duration(found.Seconds*float64(time.Second)))
	all.Sent, all.ScheduleLag = found.Sent, found.ScheduleLag
	for code, count := range found.Errors {
		all.Errors[code] += count
	}
	return all, nil
}
