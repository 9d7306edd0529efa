package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	clientVersion  = "5.1.4"
	callTimeout    = 3 * time.Second
	setupTimeout   = 60 * time.Second
	heartbeatEvery = 10 * time.Second
	receiveLimit   = 32
	pollTimeout    = 10 * time.Second
	invisible      = 60 * time.Second
	// Connections that are being opened at the same time.
	connectingLimit = 16
)

var clientNumber atomic.Int64

// client is one connection with what an official client keeps on it.
type client struct {
	conn   *grpc.ClientConn
	stub   pb.MessagingServiceClient
	id     string
	host   string
	group  string
	kind   pb.ClientType
	queues map[string][]*pb.MessageQueue
	user   user
	turn   atomic.Int64
	// endStream ends the Telemetry stream and the heartbeats.
	endStream context.CancelFunc
}

// connect opens a connection of a producer, or of a consumer when a group is given, and waits for its settings.
func connect(ctx context.Context, o *options, group string) (*client, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	security, err := transport(o)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(
		o.endpoint,
		grpc.WithTransportCredentials(security),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)),
		// An error is a figure, and what could be sent again need not be kept.
		grpc.WithDisableRetry(),
	)
	if err != nil {
		return nil, err
	}
	c := &client{
		conn: conn, stub: pb.NewMessagingServiceClient(conn), host: host, group: group,
		id:     fmt.Sprintf("%s@%d@%d@%s", host, os.Getpid(), clientNumber.Add(1), strings.ReplaceAll(uuid.NewString(), "-", "")[:10]),
		kind:   pb.ClientType_PRODUCER,
		queues: map[string][]*pb.MessageQueue{},
		user:   user{accessKey: o.accessKey, secret: []byte(os.Getenv(secretVariable))},
	}
	if group != "" {
		c.kind = pb.ClientType_SIMPLE_CONSUMER
	}
	if err := c.open(ctx, o); err != nil {
		c.close()
		return nil, fmt.Errorf("connect to %s: %w", o.endpoint, err)
	}
	return c, nil
}

func (c *client) close() {
	if c.endStream != nil {
		c.endStream()
	}
	_ = c.conn.Close()
}

func (c *client) open(ctx context.Context, o *options) error {
	topics := topicsOf(o)
	if c.group == "" {
		// Producers learn of the others as they go.
		topics = topics[:1]
	}
	for _, topic := range topics {
		if err := c.route(ctx, o, topic); err != nil {
			return err
		}
	}
	lasting, end := context.WithCancel(c.signed(ctx))
	c.endStream = end
	stream, err := c.stub.Telemetry(lasting)
	if err != nil {
		return err
	}
	settings := &pb.TelemetryCommand{Command: &pb.TelemetryCommand_Settings{Settings: c.settings(o, topics)}}
	if err := stream.Send(settings); err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				return
			}
		}
	}()
	if err := c.heartbeat(ctx); err != nil {
		return err
	}
	go c.keepAlive(lasting)
	return nil
}

func (c *client) keepAlive(ctx context.Context) {
	ticker := time.NewTicker(heartbeatEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = c.heartbeat(ctx) // a server that is too busy is seen in the figures
		}
	}
}

func (c *client) heartbeat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(c.signed(ctx), setupTimeout)
	defer cancel()
	request := &pb.HeartbeatRequest{ClientType: c.kind}
	if c.group != "" {
		request.Group = &pb.Resource{Name: c.group}
	}
	answer, err := c.stub.Heartbeat(ctx, request)
	return refusal("heartbeat", answer, err)
}

func (c *client) route(ctx context.Context, o *options, topic string) error {
	ctx, cancel := context.WithTimeout(c.signed(ctx), setupTimeout)
	defer cancel()
	answer, err := c.stub.QueryRoute(ctx, &pb.QueryRouteRequest{Topic: &pb.Resource{Name: topic}, Endpoints: accessPoint(o)})
	if err := refusal("route of "+topic, answer, err); err != nil {
		return err
	}
	c.queues[topic] = answer.MessageQueues
	return nil
}

// queue is the next in turn, as simple consumers choose it.
func (c *client) queue(topic string) *pb.MessageQueue {
	all := c.queues[topic]
	return all[int(c.turn.Add(1))%len(all)]
}

func (c *client) settings(o *options, topics []string) *pb.Settings {
	settings := &pb.Settings{
		ClientType:     &c.kind,
		AccessPoint:    accessPoint(o),
		RequestTimeout: durationpb.New(callTimeout),
		UserAgent:      &pb.UA{Language: pb.Language_GOLANG, Version: clientVersion, Platform: "linux", Hostname: c.host},
	}
	if c.group != "" {
		subscription := &pb.Subscription{
			Group:              &pb.Resource{Name: c.group},
			LongPollingTimeout: durationpb.New(pollTimeout),
		}
		for _, topic := range topics {
			entry := &pb.SubscriptionEntry{Topic: &pb.Resource{Name: topic}, Expression: everything()}
			subscription.Subscriptions = append(subscription.Subscriptions, entry)
		}
		settings.PubSub = &pb.Settings_Subscription{Subscription: subscription}
		return settings
	}
	publishing := &pb.Publishing{}
	for _, topic := range topics {
		publishing.Topics = append(publishing.Topics, &pb.Resource{Name: topic})
	}
	settings.PubSub = &pb.Settings_Publishing{Publishing: publishing}
	return settings
}

// signed adds the metadata that official clients send with each call.
func (c *client) signed(ctx context.Context) context.Context {
	date := time.Now().Format("20060102T150405Z")
	headers := metadata.MD{
		"x-mq-language":       {"GO"},
		"x-mq-protocol":       {"v2"},
		"x-mq-request-id":     {uuid.NewString()},
		"x-mq-client-version": {clientVersion},
		"x-mq-client-id":      {c.id},
		"x-mq-namespace":      {""},
		"x-mq-date-time":      {date},
	}
	if c.user.accessKey != "" {
		headers.Set("authorization", c.user.authorization(date))
	}
	return metadata.NewOutgoingContext(ctx, headers)
}

func everything() *pb.FilterExpression {
	return &pb.FilterExpression{Type: pb.FilterType_TAG, Expression: "*"}
}

// topicsOf are the topics that a work is spread over.
func topicsOf(o *options) []string {
	if o.topics == 1 {
		return []string{o.topic}
	}
	all := make([]string, o.topics)
	for number := range all {
		all[number] = o.topic + "-" + strconv.Itoa(number)
	}
	return all
}

func accessPoint(o *options) *pb.Endpoints {
	host, port, _ := strings.Cut(o.endpoint, ":")
	number, _ := strconv.Atoi(port)
	return &pb.Endpoints{
		Scheme:    pb.AddressScheme_IPv4,
		Addresses: []*pb.Address{{Host: host, Port: int32(number)}},
	}
}

type answered interface{ GetStatus() *pb.Status }

// failure is the name of what went wrong; empty if nothing did.
func failure(answer answered, err error) string {
	if err != nil {
		if code := status.Code(err); code != codes.Unknown {
			return "grpc " + code.String()
		}
		return err.Error()
	}
	if code := answer.GetStatus().GetCode(); code != pb.Code_OK {
		return code.String()
	}
	return ""
}

func refusal(what string, answer answered, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if answer.GetStatus().GetCode() != pb.Code_OK {
		return fmt.Errorf("%s: %s", what, answer.GetStatus())
	}
	return nil
}

// connectAll opens the connections of a work, a few at a time.
func connectAll(ctx context.Context, o *options, group func(number int) string, wanted int) ([]*client, error) {
	all, failures := make([]*client, wanted), make([]error, wanted)
	var running sync.WaitGroup
	free := make(chan struct{}, connectingLimit)
	for number := range all {
		free <- struct{}{}
		running.Add(1)
		go func() {
			defer running.Done()
			all[number], failures[number] = connect(ctx, o, group(number))
			<-free
		}()
	}
	running.Wait()
	if err := errors.Join(failures...); err != nil {
		closeAll(all)
		return nil, err
	}
	return all, nil
}

func closeAll(clients []*client) {
	for _, c := range clients {
		if c != nil {
			c.close()
		}
	}
}
