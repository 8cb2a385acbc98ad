// Calls a model over gRPC with only an address and a key: the contract comes by reflection.
//
//	go run . 127.0.0.1:50050 "$KEY" "Count from 1 to 12."
//
// A permanent program should generate stubs from the .proto files (buf, protoc-gen-go). For a gateway with TLS, replace
// insecure by credentials.NewTLS.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

const service = "svc.inference.v1.InferenceService"

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: generate ADDRESS KEY PROMPT")
	}
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	// Every call sends the key, those of reflection included.
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+os.Args[2])

	generate := describe(ctx, connection)
	request := dynamicpb.NewMessage(generate.Input())
	check(protojson.Unmarshal([]byte(fmt.Sprintf(
		`{"model": "svc-qwen", "messages": [{"role": "ROLE_USER", "parts": [{"text": {"text": %q}}]}]}`, os.Args[3],
	)), request))
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/"+service+"/Generate")
	check(err)
	check(stream.SendMsg(request))
	check(stream.CloseSend())
	for {
		response := dynamicpb.NewMessage(generate.Output())
		err := stream.RecvMsg(response)
		if errors.Is(err, io.EOF) {
			fmt.Println()
			return
		}
		check(err)
		events := response.Get(generate.Output().Fields().ByName("events")).List()
		for at := range events.Len() {
			event := events.Get(at).Message()
			delta := event.Descriptor().Fields().ByName("block_delta")
			if event.Has(delta) {
				fmt.Print(event.Get(delta).Message().Get(delta.Message().Fields().ByName("text")))
			}
		}
	}
}

// describe gets the contract from the server and returns the descriptor of Generate.
func describe(ctx context.Context, connection *grpc.ClientConn) protoreflect.MethodDescriptor {
	stream, err := reflection.NewServerReflectionClient(connection).ServerReflectionInfo(ctx)
	check(err)
	defer stream.CloseSend()
	check(stream.Send(&reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service},
	}))
	answer, err := stream.Recv()
	check(err)
	set := &descriptorpb.FileDescriptorSet{}
	for _, bytes := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := &descriptorpb.FileDescriptorProto{}
		check(proto.Unmarshal(bytes, file))
		set.File = append(set.File, file)
	}
	files, err := protodesc.NewFiles(set)
	check(err)
	found, err := files.FindDescriptorByName(service + ".Generate")
	check(err)
	return found.(protoreflect.MethodDescriptor)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
