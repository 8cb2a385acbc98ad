// A gRPC server with another implementation of the protocol: grpc-go plays what each request asks for, whatever its
// method. A request is JSON, an answer the messages that stand in it. Prints `ready HOST:PORT`.
//
//	go run . [certificate.pem key.pem]
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// play is what a request asks for.
type play struct {
	// The messages of the answer, in the bytes of the contract.
	Messages [][]byte
	// How often they are sent; 0 for once.
	Times int
	// The wait before the last of them, in milliseconds.
	PauseMs int
	// The status that ends the answer, and its words.
	Code    codes.Code
	Details string
	// Whether the answer never ends by itself.
	Stays bool
	// Whether the server is to end gracefully once the first message has gone.
	Leaves bool
}

// raw leaves messages as the bytes that they are.
type raw struct{}

func (raw) Name() string                        { return "proto" }
func (raw) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }
func (raw) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = append([]byte(nil), data...)
	return nil
}

// left counts the calls whose callers left before their end.
var left atomic.Int64

func main() {
	options := []grpc.ServerOption{
		grpc.ForceServerCodec(raw{}),
		grpc.MaxConcurrentStreams(10),
		grpc.MaxRecvMsgSize(64 << 20),
	}
	if len(os.Args) == 3 {
		secured, err := credentials.NewServerTLSFromFile(os.Args[1], os.Args[2])
		check(err)
		options = append(options, grpc.Creds(secured))
	}
	var server *grpc.Server
	options = append(options, grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		return answer(stream, func() { go server.GracefulStop() })
	}))
	server = grpc.NewServer(options...)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println("ready", listener.Addr())
	// Whoever has started it may be gone.
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	check(server.Serve(listener))
}

func answer(stream grpc.ServerStream, leave func()) error {
	var request []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	var asked play
	if err := json.Unmarshal(request, &asked); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	deadline, hasDeadline := stream.Context().Deadline()
	stream.SetTrailer(metadata.Pairs(
		"left", strconv.FormatInt(left.Load(), 10),
		"has-deadline", strconv.FormatBool(hasDeadline && time.Until(deadline) > 0),
	))
	for time := range max(1, asked.Times) {
		for at, message := range asked.Messages {
			isLast := time == max(1, asked.Times)-1 && at == len(asked.Messages)-1
			if err := send(stream, message, asked, isLast); err != nil {
				return err
			}
			if at == 0 && asked.Leaves {
				leave()
			}
		}
	}
	if asked.Stays {
		<-stream.Context().Done()
		left.Add(1)
		return stream.Context().Err()
	}
	return status.Error(asked.Code, asked.Details)
}

func send(stream grpc.ServerStream, message []byte, asked play, isLast bool) error {
	if isLast && asked.PauseMs > 0 {
		pause, cancel := context.WithTimeout(stream.Context(), time.Duration(asked.PauseMs)*time.Millisecond)
		<-pause.Done()
		cancel()
	}
	return stream.SendMsg(&message)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
