import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { expect, test } from "vitest";
import { decodeBounded } from "../../../../../gateway/formats/contract/request.ts";
import { GenerateRequest } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { generateRequest } from "../../../../support/requests/generate-request.ts";
import { thrownBy } from "../thrown-by.ts";

const read = (bytes: Uint8Array) => decodeBounded(bytes, (reader) => GenerateRequest.decode(reader));

test("a message is read as it was written", () => {
  const request = generateRequest({ maxOutputTokens: 7 });
  expect(read(GenerateRequest.encode(request).finish())).toEqual(request);
});

test("G1 bytes that are not a message are not quoted", () => {
  const whole = Buffer.from(GenerateRequest.encode(generateRequest({}, "secret words")).finish());
  const error = thrownBy(() => read(whole.subarray(0, -3)));
  expect(error.detail).toBe("message_unreadable");
  expect(error.message).not.toContain("secret");
});

test("G1 a message of too many pieces costs no more than finding that out", () => {
  // An empty field is two bytes on the wire, and an object in memory.
  const pieces = new BinaryWriter();
  for (let at = 0; at < 200_001; at += 1) pieces.uint32((2 << 3) | 2).uint32(0);
  expect(thrownBy(() => read(pieces.finish())).detail).toBe("message_pieces");
});
