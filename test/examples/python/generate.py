"""Calls a model over gRPC with only an address and a key: the contract comes by reflection.

    pip install grpcio grpcio-reflection
    python generate.py 127.0.0.1:50050 "$KEY" "Count from 1 to 12."

A gateway with TLS takes `--ca ca.pem`. The key is in the metadata of every call; use plain text only on this
machine.
"""

import argparse
import sys

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

SERVICE = "svc.inference.v1.InferenceService"


class WithKey(grpc.UnaryStreamClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Puts the key into the metadata of every call, those of reflection included."""

    def __init__(self, key):
        self._metadata = [("authorization", f"Bearer {key}")]

    def _call(self, proceed, details, request):
        return proceed(details._replace(metadata=[*(details.metadata or []), *self._metadata]), request)

    def intercept_unary_stream(self, proceed, details, request):
        return self._call(proceed, details, request)

    def intercept_stream_stream(self, proceed, details, requests):
        return self._call(proceed, details, requests)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("address")
    options.add_argument("key")
    options.add_argument("prompt")
    options.add_argument("--model", default="svc-qwen")
    options.add_argument("--ca")
    given = options.parse_args()

    if given.ca:
        with open(given.ca, "rb") as file:
            plain = grpc.secure_channel(given.address, grpc.ssl_channel_credentials(file.read()))
    else:
        plain = grpc.insecure_channel(given.address)
    channel = grpc.intercept_channel(plain, WithKey(given.key))

    pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
    method = pool.FindServiceByName(SERVICE).FindMethodByName("Generate")
    Request = message_factory.GetMessageClass(method.input_type)
    Response = message_factory.GetMessageClass(method.output_type)
    generate = channel.unary_stream(
        f"/{SERVICE}/Generate",
        request_serializer=Request.SerializeToString,
        response_deserializer=Response.FromString,
    )

    request = Request(model=given.model)
    turn = request.messages.add(role=pool.FindEnumTypeByName("svc.inference.v1.Role").values_by_name["ROLE_USER"].number)
    turn.parts.add().text.text = given.prompt
    try:
        for response in generate(request, timeout=300):
            for event in response.events:
                if event.HasField("block_delta"):
                    print(event.block_delta.text, end="", flush=True)
                elif event.HasField("finished"):
                    print(f"\n{event.finished.usage.output_tokens} tokens", file=sys.stderr)
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")


if __name__ == "__main__":
    main()
