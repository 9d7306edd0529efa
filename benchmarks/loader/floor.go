package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	pb "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
)

const floorQueues = 8

// floorServer answers what a producer calls, each call with a constant, and stores nothing: the least that a call of
// this protocol costs on gRPC's library for Go.
type floorServer struct {
	pb.UnimplementedMessagingServiceServer
	route *pb.QueryRouteResponse
	sent  *pb.SendMessageResponse
}

var floorOK = &pb.Status{Code: pb.Code_OK, Message: "OK"}

func newFloorServer(o *options) *floorServer {
	broker := &pb.Broker{Name: "floor", Endpoints: accessPoint(o)}
	route := &pb.QueryRouteResponse{Status: floorOK}
	for number := range floorQueues {
		route.MessageQueues = append(route.MessageQueues, &pb.MessageQueue{
			Topic:              &pb.Resource{Name: o.topic},
			Id:                 int32(number),
			Permission:         pb.Permission_READ_WRITE,
			Broker:             broker,
			AcceptMessageTypes: []pb.MessageType{pb.MessageType_NORMAL},
		})
	}
	entry := &pb.SendResultEntry{
		Status:        floorOK,
		MessageId:     "010000000000000000000000000000000000",
		TransactionId: "010000000000000000000000000000000000",
		Offset:        1,
	}
	sent := &pb.SendMessageResponse{Status: floorOK, Entries: []*pb.SendResultEntry{entry}}
	return &floorServer{route: route, sent: sent}
}

func (s *floorServer) QueryRoute(context.Context, *pb.QueryRouteRequest) (*pb.QueryRouteResponse, error) {
	return s.route, nil
}

func (s *floorServer) Heartbeat(context.Context, *pb.HeartbeatRequest) (*pb.HeartbeatResponse, error) {
	return &pb.HeartbeatResponse{Status: floorOK}, nil
}

func (s *floorServer) SendMessage(context.Context, *pb.SendMessageRequest) (*pb.SendMessageResponse, error) {
	return s.sent, nil
}

// Telemetry gives the settings back that the client sends.
func (s *floorServer) Telemetry(stream pb.MessagingService_TelemetryServer) error {
	for {
		command, err := stream.Recv()
		if err != nil {
			return nil
		}
		if command.GetSettings() == nil {
			continue
		}
		command.Status = floorOK
		if err := stream.Send(command); err != nil {
			return nil
		}
	}
}

// serveFloor prints `ready`, and serves until a signal ends it.
func serveFloor(o *options) error {
	listener, err := net.Listen("tcp", o.endpoint)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	pb.RegisterMessagingServiceServer(server, newFloorServer(o))
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ended
		server.Stop()
	}()
	fmt.Println("ready")
	return server.Serve(listener)
}
