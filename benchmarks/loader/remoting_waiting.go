package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const codeMaxOffset = 30

// remotingEndToEnd sends -rate messages a second, and takes the time from the begin of a send until a pull that waits,
// one for each queue as official clients have, returns its message.
func remotingEndToEnd(ctx context.Context, o *options, begin func()) (*figures, error) {
	producers, endProducers, err := dialAllRemoting(o)
	if err != nil {
		return nil, err
	}
	defer endProducers()
	consumer, err := dialRemoting(o.endpoint)
	if err != nil {
		return nil, err
	}
	defer func() { _ = consumer.net.Close() }()
	offsets, err := remotingEnds(ctx, consumer, o)
	if err != nil {
		return nil, err
	}
	consuming, stop := context.WithCancel(ctx)
	defer stop()
	begin()
	var received atomic.Int64
	all := make([]*tally, queuesOfTopic)
	var running sync.WaitGroup
	for queue := range all {
		all[queue] = &tally{}
		running.Add(1)
		go func() {
			defer running.Done()
			for consuming.Err() == nil {
				received.Add(remotingWait(consuming, consumer, o, queue, &offsets[queue], all[queue]))
			}
		}()
	}
	maker := newMaker(o)
	found := byTheClock(ctx, o, func(t *tally, number int64) {
		body := append([]byte(nil), maker.body...)
		binary.LittleEndian.PutUint64(body, uint64(time.Now().UnixNano()))
		remotingSendBody(ctx, producers, maker, codeSend, body, maker.remotingProperties(), t, number)
	})
	for patience := time.Now().Add(graceful); received.Load() < found.Sent && time.Now().Before(patience); {
		if !sleepUntil(ctx, time.Now().Add(10*time.Millisecond)) {
			break
		}
	}
	stop()
	running.Wait()
	whole := summed(all, time.Duration(found.Seconds*float64(time.Second)))
	whole.Sent, whole.ScheduleLag = found.Sent, found.ScheduleLag
	for code, count := range found.Errors {
		whole.Errors[code] += count
	}
	if missing := whole.Sent - whole.Received; missing != 0 {
		whole.Errors["messages that were not received"] += missing
	}
	return whole, nil
}

// remotingEnds returns the offset of each queue at which its next message will be.
func remotingEnds(ctx context.Context, c *remotingConn, o *options) ([]int64, error) {
	ends := make([]int64, queuesOfTopic)
	for queue := range ends {
		fields := map[string]string{"topic": o.topic, "queueId": strconv.Itoa(queue)}
		answer, err := c.call(ctx, codeMaxOffset, fields, nil)
		if err != nil {
			return nil, err
		}
		if ends[queue], err = strconv.ParseInt(answer.header.ExtFields["offset"], 10, 64); err != nil {
			return nil, fmt.Errorf("the end of queue %d: code %d", queue, answer.header.Code)
		}
	}
	return ends, nil
}

// remotingWait makes one pull that waits, and takes the time of its messages; returns how many came.
func remotingWait(ctx context.Context, c *remotingConn, o *options, queue int, offset *int64, t *tally) int64 {
	bodies, next := remotingPull(ctx, c, o, queue, *offset, suspend, t)
	*offset = next
	for _, body := range bodies {
		t.latency.add(time.Since(stampOf(body)))
	}
	return int64(len(bodies))
}
