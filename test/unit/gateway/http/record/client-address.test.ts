import { describe, expect, test } from "vitest";
import { clientAddress, loggedNetwork, networkOf } from "../../../../../gateway/http/record/client-address.ts";

describe("the address of a client", () => {
  test.each([
    ["10.0.0.1", undefined, 0, "10.0.0.1"],
    ["::ffff:10.0.0.1", undefined, 0, "10.0.0.1"],
    ["2001:db8::1", undefined, 0, "2001:db8::1"],
    [undefined, undefined, 0, ""],
    ["10.0.0.1", "192.0.2.7", 0, "10.0.0.1"],
    ["10.0.0.1", "192.0.2.7", 1, "192.0.2.7"],
    ["10.0.0.1", "6.6.6.6, 192.0.2.7", 1, "192.0.2.7"],
    ["10.0.0.1", "6.6.6.6, 192.0.2.7 , 10.1.1.1", 2, "192.0.2.7"],
    ["10.0.0.1", "6.6.6.6,::ffff:192.0.2.7", 1, "192.0.2.7"],
    ["10.0.0.1", "2001:db8::7", 1, "2001:db8::7"],
    ["10.0.0.1", "192.0.2.7", 2, "10.0.0.1"],
    ["10.0.0.1", undefined, 1, "10.0.0.1"],
    ["10.0.0.1", "", 1, "10.0.0.1"],
    ["10.0.0.1", "192.0.2.7, unknown", 1, "10.0.0.1"],
    ["10.0.0.1", "192.0.2.7:443", 1, "10.0.0.1"],
  ] as const)("of %s with %j behind %i proxies is %s", (remote, forwarded, hops, address) => {
    expect(clientAddress(remote, forwarded, hops)).toBe(address);
  });
});

test.each([
  ["192.0.2.171", "192.0.2.0/24"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"],
  ["::1", "0:0:0::/48"],
  ["", undefined],
  ["unknown", undefined],
])("of the address %j %s is logged", (address, network) => {
  expect(loggedNetwork(address)).toBe(network);
});

describe("the network of an address", () => {
  test.each([
    ["192.0.2.1", "192.0.2.1"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:0DB8:0001:0002:ffff::1", "2001:db8:1:2::/64"],
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
    ["::", "0:0:0:0::/64"],
    ["1::", "1:0:0:0::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
    ["64:ff9b::192.0.2.33", "64:ff9b:0:0::/64"],
    ["1:2:3:4:5:6:192.0.2.33", "1:2:3:4::/64"],
    ["", ""],
  ])("of %s is %s", (address, network) => {
    expect(networkOf(address)).toBe(network);
  });
});
