import { describe, expect, test } from "vitest";
import { EndpointFileError, parseEndpointFile } from "../../../../../gateway/upstream/discovery/endpoint-file.ts";

const DEFAULTS = { loadBalancingWeight: 1, healthStatus: "healthy" };

test.each([
  ["YAML", "endpoints:\n  - address: a:1\n  - address: '[::1]:2'\n    loadBalancingWeight: 2\n"],
  ["JSON", '{"endpoints":[{"address":"a:1"},{"address":"[::1]:2","loadBalancingWeight":2}]}'],
])("endpoints are read from %s", (_, text) => {
  expect(parseEndpointFile(text)).toEqual([
    { ...DEFAULTS, address: "a:1" },
    { ...DEFAULTS, address: "[::1]:2", loadBalancingWeight: 2 },
  ]);
});

test("an endpoint has every setting", () => {
  const endpoint = {
    address: "a:1",
    loadBalancingWeight: 3,
    healthStatus: "draining",
  };
  expect(parseEndpointFile(JSON.stringify({ endpoints: [endpoint] }))).toEqual([endpoint]);
});

test("an empty list is valid", () => {
  expect(parseEndpointFile("endpoints: []")).toEqual([]);
});

describe("refused, with the path in the message", () => {
  test.each([
    ["an empty file", "", "(root)"],
    ["no YAML", "endpoints: [", "not YAML"],
    ["an unknown key", "endpoints: []\nendpoint: []", "endpoint"],
    ["an unknown key of an endpoint", "endpoints: [{address: 'a:1', weight: 2}]", "endpoints.0"],
    ["no port", "endpoints: [{address: a}]", "endpoints.0.address"],
    ["a port that is none", "endpoints: [{address: 'a:70000'}]", "endpoints.0.address: expected a port"],
    ["the port 0", "endpoints: [{address: 'a:0'}]", "endpoints.0.address: expected a port"],
    ["an address twice", "endpoints: [{address: 'a:1'}, {address: 'a:1'}]", "endpoints: an address"],
    ["a weight of 0", "endpoints: [{address: 'a:1', loadBalancingWeight: 0}]", "endpoints.0.loadBalancingWeight"],
    ["an unknown status", "endpoints: [{address: 'a:1', healthStatus: well}]", "endpoints.0.healthStatus"],
  ])("%s", (_, text, where) => {
    const parse = () => parseEndpointFile(text);
    expect(parse).toThrow(EndpointFileError);
    expect(parse).toThrow(where);
  });
});
