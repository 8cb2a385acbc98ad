import { expect, test } from "vitest";
import { AllowedNetworks, isNetwork } from "../../../../gateway/keys/allowed-networks.ts";

const allowed = new AllowedNetworks(["10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "::1", "0.0.0.0/32"]);

test.each([
  ["10.255.0.1", true],
  ["11.0.0.1", false],
  ["192.0.2.7", true],
  ["192.0.2.8", false],
  ["2001:db8:1::9", true],
  ["2001:db9::1", false],
  ["0:0:0:0:0:0:0:1", true],
  ["0.0.0.1", false],
  ["", false],
  ["localhost", false],
])("%s is one of them: %s", (address, expected) => {
  expect(allowed.has(address)).toBe(expected);
});

test("everything is a network of its own", () => {
  const everywhere = new AllowedNetworks(["0.0.0.0/0", "::/0"]);
  expect(["1.2.3.4", "2001::1"].every((address) => everywhere.has(address))).toBe(true);
});

test.each(["10.0.0.0/33", "::/129", "10.0.0", "fe80::1%eth0", "", "10.0.0.0/8/8", "10.0.0.0/-1", "10.0.0.0/ 8", "x/8"])(
  "%j is no network",
  (text) => expect(isNetwork(text)).toBe(false),
);
