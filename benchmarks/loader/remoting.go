package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// The requests of RocketMQ's remoting protocol that are sent here.
const (
	codePull      = 11
	codeSend      = 310
	codeSendBatch = 320
	pulledAtOnce  = 32
	queuesOfTopic = 8
	// How long a pull waits for a message: as long as official clients let it.
	suspend = 15 * time.Second
	// What a stored message has before its body, with hosts of IPv4 addresses; the last four bytes are the body's length.
	beforeBody = 88
	// Flags of a pull: commit the offset, wait for a message, take the subscription from the request.
	flagCommit    = 1
	flagSuspend   = 2
	flagSubscribe = 4
)

type remotingHeader struct {
	Code      int               `json:"code"`
	Language  string            `json:"language"`
	Version   int               `json:"version"`
	Opaque    int32             `json:"opaque"`
	Flag      int               `json:"flag"`
	Remark    string            `json:"remark,omitempty"`
	ExtFields map[string]string `json:"extFields,omitempty"`
}

type remotingAnswer struct {
	header remotingHeader
	body   []byte
}

// remotingConn is a connection on which requests are in flight, each waiting for the answer with its number.
type remotingConn struct {
	net     net.Conn
	writing sync.Mutex
	lock    sync.Mutex
	waiting map[int32]chan remotingAnswer
	next    int32
	failed  error
}

func dialRemoting(endpoint string) (*remotingConn, error) {
	conn, err := net.Dial("tcp", endpoint)
	if err != nil {
		return nil, err
	}
	c := &remotingConn{net: conn, waiting: map[int32]chan remotingAnswer{}}
	go c.readAll()
	return c, nil
}

func dialAllRemoting(o *options) ([]*remotingConn, func(), error) {
	var all []*remotingConn
	end := func() {
		for _, each := range all {
			_ = each.net.Close()
		}
	}
	for range o.connections {
		c, err := dialRemoting(o.endpoint)
		if err != nil {
			end()
			return nil, nil, err
		}
		all = append(all, c)
	}
	return all, end, nil
}

func (c *remotingConn) readAll() {
	reader := bufio.NewReaderSize(c.net, 1<<18)
	err := func() error {
		var prefix [8]byte
		for {
			if _, err := io.ReadFull(reader, prefix[:]); err != nil {
				return err
			}
			length := binary.BigEndian.Uint32(prefix[:4])
			headerLength := binary.BigEndian.Uint32(prefix[4:]) & 0xFFFFFF
			rest := make([]byte, length-4)
			if _, err := io.ReadFull(reader, rest); err != nil {
				return err
			}
			var header remotingHeader
			if err := json.Unmarshal(rest[:headerLength], &header); err != nil {
				return err
			}
			if header.Flag&1 == 0 {
				continue // a request of the server, which wants no answer from a load generator
			}
			c.lock.Lock()
			waiting := c.waiting[header.Opaque]
			delete(c.waiting, header.Opaque)
			c.lock.Unlock()
			if waiting != nil {
				waiting <- remotingAnswer{header, rest[headerLength:]}
			}
		}
	}()
	c.lock.Lock()
	c.failed = err
	for number, waiting := range c.waiting {
		close(waiting)
		delete(c.waiting, number)
	}
	c.lock.Unlock()
}

func (c *remotingConn) call(ctx context.Context, code int, fields map[string]string, body []byte) (remotingAnswer, error) {
	answered := make(chan remotingAnswer, 1)
	c.lock.Lock()
	if c.failed != nil {
		c.lock.Unlock()
		return remotingAnswer{}, c.failed
	}
	c.next++
	number := c.next
	c.waiting[number] = answered
	c.lock.Unlock()
	header, err := json.Marshal(remotingHeader{
		Code: code, Language: "JAVA", Version: 513, Opaque: number, ExtFields: fields,
	})
	if err != nil {
		return remotingAnswer{}, err
	}
	frame := make([]byte, 8, 8+len(header)+len(body))
	binary.BigEndian.PutUint32(frame, uint32(4+len(header)+len(body)))
	binary.BigEndian.PutUint32(frame[4:], uint32(len(header)))
	frame = append(append(frame, header...), body...)
	c.writing.Lock()
	_, err = c.net.Write(frame)
	c.writing.Unlock()
	if err != nil {
		return remotingAnswer{}, err
	}
	timeout := time.NewTimer(callTimeout + suspend)
	defer timeout.Stop()
	select {
	case answer, open := <-answered:
		if !open {
			return remotingAnswer{}, errors.New("the server closed the connection")
		}
		return answer, nil
	case <-timeout.C:
		return remotingAnswer{}, errors.New("no answer in time")
	case <-ctx.Done():
		return remotingAnswer{}, ctx.Err()
	}
}

// remotingSend sends single messages (310), or batches of -batch (320), to the topic's queues in turn.
func remotingSend(ctx context.Context, o *options, begin func()) (*figures, error) {
	conns, end, err := dialAllRemoting(o)
	if err != nil {
		return nil, err
	}
	defer end()
	maker := newMaker(o)
	begin()
	send := func(t *tally, number int64) { remotingSendOne(ctx, conns, maker, t, number) }
	if o.rate > 0 {
		return byTheClock(ctx, o, send), nil
	}
	return asAnswersCome(ctx, o, send), nil
}

func remotingSendOne(ctx context.Context, conns []*remotingConn, m *maker, t *tally, number int64) {
	if m.o.perRequest > 1 {
		remotingSendBody(ctx, conns, m, codeSendBatch, m.remotingBatch(), "WAIT\x01true", t, number)
	} else {
		remotingSendBody(ctx, conns, m, codeSend, m.body, m.remotingProperties(), t, number)
	}
}

func remotingSendBody(
	ctx context.Context, conns []*remotingConn, m *maker, code int, body []byte, properties string, t *tally, number int64,
) {
	fields := map[string]string{
		"a": "bench", "b": m.o.topic, "c": "TBW102", "d": "4", "f": "0", "h": "0", "i": properties, "j": "0", "k": "false",
		"e": strconv.FormatInt(number%queuesOfTopic, 10),
		"g": strconv.FormatInt(time.Now().UnixMilli(), 10),
		"m": strconv.FormatBool(m.o.perRequest > 1),
	}
	began := time.Now()
	answer, err := conns[number%int64(len(conns))].call(ctx, code, fields, body)
	took := time.Since(began)
	t.Lock()
	defer t.Unlock()
	if err != nil {
		t.fail(err.Error())
	} else if answer.header.Code != 0 {
		t.fail(fmt.Sprintf("code %d", answer.header.Code))
	} else {
		t.sent += int64(m.o.perRequest)
		t.latency.add(took)
	}
}

func (m *maker) remotingProperties() string {
	return "UNIQ_KEY\x01" + m.idPrefix + fmt.Sprintf("%08X", m.sequence.Add(1)) + "\x02TAGS\x01" + m.tag + "\x02WAIT\x01true"
}

func (m *maker) remotingBatch() []byte {
	var all []byte
	for range m.o.perRequest {
		properties := m.remotingProperties()
		size := 20 + len(m.body) + 2 + len(properties)
		all = binary.BigEndian.AppendUint32(all, uint32(size))
		all = append(all, make([]byte, 12)...) // magic, checksum, flag
		all = binary.BigEndian.AppendUint32(all, uint32(len(m.body)))
		all = append(all, m.body...)
		all = binary.BigEndian.AppendUint16(all, uint16(len(properties)))
		all = append(all, properties...)
	}
	return all
}

// remotingConsume pulls all queues by 32s from their beginning, and commits with each pull what was pulled before,
// until -count messages came.
func remotingConsume(ctx context.Context, o *options, begin func()) (*figures, error) {
	conns, end, err := dialAllRemoting(o)
	if err != nil {
		return nil, err
	}
	defer end()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	begin()
	var pulled atomic.Int64
	began := time.Now()
	all := make([]*tally, o.inFlight)
	var running sync.WaitGroup
	for worker := range all {
		all[worker] = &tally{}
		running.Add(1)
		go func() {
			defer running.Done()
			offsets := map[int]int64{}
			for turn := worker; ctx.Err() == nil && pulled.Load() < o.count; turn += o.inFlight {
				queue := turn % queuesOfTopic
				bodies, next := remotingPull(ctx, conns[worker%len(conns)], o, queue, offsets[queue], 0, all[worker])
				offsets[queue] = next
				all[worker].acknowledged += int64(len(bodies))
				if pulled.Add(int64(len(bodies))) >= o.count {
					stop()
				}
			}
		}()
	}
	running.Wait()
	return summed(all, time.Since(began)), nil
}

// remotingPull makes one pull, which waits for a message at most as long as `wait`; returns the bodies of the messages
// that came, and the offset to go on at.
func remotingPull(
	ctx context.Context, c *remotingConn, o *options, queue int, offset int64, wait time.Duration, t *tally,
) ([][]byte, int64) {
	flags := flagCommit | flagSubscribe
	if wait > 0 {
		flags |= flagSuspend
	}
	fields := map[string]string{
		"consumerGroup": o.group, "topic": o.topic, "queueId": strconv.Itoa(queue),
		"queueOffset": strconv.FormatInt(offset, 10), "maxMsgNums": strconv.Itoa(pulledAtOnce),
		"sysFlag": strconv.Itoa(flags), "commitOffset": strconv.FormatInt(offset, 10),
		"suspendTimeoutMillis": strconv.FormatInt(wait.Milliseconds(), 10),
		"subscription":         "*", "subVersion": "0", "expressionType": "TAG",
	}
	answer, err := c.call(ctx, codePull, fields, nil)
	if err != nil {
		if ctx.Err() == nil {
			t.fail(err.Error())
		}
		return nil, offset
	}
	next, err := strconv.ParseInt(answer.header.ExtFields["nextBeginOffset"], 10, 64)
	if err != nil {
		t.fail(fmt.Sprintf("code %d", answer.header.Code))
		return nil, offset
	}
	bodies := make([][]byte, 0, pulledAtOnce)
	for rest := answer.body; len(rest) > 0; {
		body, size := bodyOf(rest)
		if size == 0 {
			t.fail("a message that is cut off")
			break
		}
		bodies, rest = append(bodies, body), rest[size:]
	}
	t.received += int64(len(bodies))
	return bodies, next
}

// bodyOf returns the body of the first stored message, and the size of the message; 0 when it is cut off.
func bodyOf(stored []byte) ([]byte, int) {
	if len(stored) < beforeBody {
		return nil, 0
	}
	size := int(binary.BigEndian.Uint32(stored))
	length := int(binary.BigEndian.Uint32(stored[beforeBody-4:]))
	if size < beforeBody || size > len(stored) || length > size-beforeBody {
		return nil, 0
	}
	return stored[beforeBody:][:length], size
}
