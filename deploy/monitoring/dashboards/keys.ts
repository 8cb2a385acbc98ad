import { type Dashboard, quantile, rate } from "./dashboard.ts";

export const keys: Dashboard = {
  name: "keys",
  title: "svc / Keys and limits",
  text: "Refusals by limits, requests without a valid key, and the keys in use at gateways.",
  variables: [],
  rows: [
    {
      title: "Limits",
      panels: [
        {
          title: "Refused by a limit",
          text: "Requests a second that a limit of their key refused, by the limit. The log lines name the key.",
          unit: "reqps",
          queries: [[rate("svc_ratelimit_decisions_total", ["dim"], 'decision="refused"'), "{{dim}}"]],
          stacked: true,
        },
        {
          title: "Share that was refused",
          text: "The share of requests that a limit refused; 0 without limits, and without requests. If it grows, keys have outgrown their limits.",
          unit: "percentunit",
          queries: [
            [
              'sum(rate(svc_ratelimit_decisions_total{decision="refused"}[$__rate_interval])) / (sum(rate(svc_ratelimit_decisions_total[$__rate_interval])) > 0) or vector(0)',
              "refused",
            ],
          ],
        },
        {
          title: "Time to count",
          text: "The wait of requests for the counts of their key; 0 without requests. Above 10 ms the store is busy.",
          unit: "s",
          // A quantile without observations is NaN, for which no comparison holds.
          queries: [[`${quantile(0.99, "svc_ratelimit_store_seconds", [])} >= 0 or vector(0)`, "p99"]],
        },
        {
          title: "Gateways that count alone",
          text: "Gateways for which the shared store does not answer: each applies its share of every limit, or refuses.",
          unit: "short",
          queries: [["count(svc_ratelimit_store_up == 0) or vector(0)", "gateways"]],
        },
      ],
    },
    {
      title: "Use",
      panels: [
        {
          title: "Tokens by key",
          text: "Input and output tokens a second of the ten keys that use most; other: all keys without series of their own.",
          unit: "short",
          queries: [[`topk(10, ${rate("svc_key_tokens_total", ["key_id"], 'token_type!="cached"')})`, "{{key_id}}"]],
        },
        {
          title: "Requests by key",
          text: "Requests a second of the ten keys that send most of those which count against their limits.",
          unit: "reqps",
          queries: [[`topk(10, ${rate("svc_key_requests_total", ["key_id"])})`, "{{key_id}}"]],
        },
        {
          title: "Refused by key",
          text: "Requests a second that limits refused, of the ten keys with most of them: they have outgrown their limits.",
          unit: "reqps",
          queries: [[`topk(10, ${rate("svc_key_refused_total", ["key_id"])})`, "{{key_id}}"]],
        },
      ],
    },
    {
      title: "Keys",
      panels: [
        {
          title: "Without a valid key",
          text: "Requests a second without a valid key, by reason. A burst is a revoked key in use, or an attacker guessing.",
          unit: "reqps",
          queries: [[rate("svc_auth_failures_total", ["reason"]), "{{reason}}"]],
          stacked: true,
        },
        {
          title: "Key records",
          text: "Key records in use by gateway. Gateways that differ have other key files, or refuse records of the store.",
          unit: "short",
          queries: [["svc_keystore_keys", "{{instance}}"]],
        },
        {
          title: "Age of the keys in use",
          text: "The time since keys were loaded. If it is older than the newest change of the key file, that change was not loaded.",
          unit: "s",
          queries: [["time() - svc_keystore_last_success_timestamp_seconds", "{{instance}}"]],
        },
        {
          title: "Keys that cannot be used",
          text: "Gateways that use earlier keys because the newest ones are invalid or refused, and failed attempts to load them.",
          unit: "short",
          queries: [
            ["sum(svc_keystore_stale)", "gateways"],
            ["sum(increase(svc_keystore_load_errors_total[$__rate_interval]))", "attempts"],
          ],
        },
        {
          title: "Sealed texts",
          text: "Sealed texts that callers sent back, a second, by result. Many of unknown_key: gateways have different sealing keys.",
          unit: "ops",
          queries: [[rate("svc_sealed_texts_total", ["result"]), "{{result}}"]],
        },
      ],
    },
  ],
};
