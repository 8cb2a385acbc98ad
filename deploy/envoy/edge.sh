#!/usr/bin/env bash
# Runs the command of its arguments, an Envoy with envoy.yaml, and drains it on SIGTERM, which alone would cut its
# answers: readiness fails and callers are asked to reconnect, the public port closes once load balancers had time to
# notice, the gateways close the WebSockets that come from here, each after its answer, and Envoy ends with its last
# answer. The container's runtime limits the time.
set -u
ADMIN=127.0.0.1/9900
GRACE_S=15
# The health port of the gateways.
GATEWAY_HEALTH=9902

"$@" &
envoy=$!

# Sends a request without a body to host/port, and prints the reply.
ask() {
  exec 3<>"/dev/tcp/$1" || return
  printf '%s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n' "$2" >&3
  cat <&3
  exec 3>&-
} 2>/dev/null

# Whether answers run or WebSockets are open, or it is not known while Envoy lives.
answering() {
  local left='' name value
  kill -0 "$envoy" 2>/dev/null || return
  while read -r name value; do
    [ "$name" = http.public.downstream_rq_active: ] && left=${value%$'\r'}
  done < <(ask "$ADMIN" 'GET /stats?filter=^http.public.downstream_rq_active$')
  [ "$left" != 0 ]
}

# A WebSocket ends with its client alone, so each gateway is asked to close those of this address. One that was not
# reached is asked again.
drain_sockets() {
  local line
  while read -r line; do
    [[ $line =~ ^gateways::\[?([^]]*)\]?:[0-9]+::rq_active:: ]] || continue
    ask "${BASH_REMATCH[1]}/$GATEWAY_HEALTH" 'POST /drain_sockets' >/dev/null 2>&1 &
  done < <(ask "$ADMIN" 'GET /clusters')
}

drain() {
  local seconds=0
  trap '' TERM
  ask "$ADMIN" 'POST /healthcheck/fail' >/dev/null
  sleep "$GRACE_S"
  ask "$ADMIN" 'POST /drain_listeners?inboundonly' >/dev/null
  while answering; do
    [ $((seconds++ % 10)) = 0 ] && drain_sockets
    sleep 1
  done
  kill -TERM "$envoy"
}

trap drain TERM
# A signal ends the first wait; the second one is for the end of Envoy.
wait "$envoy"
wait "$envoy"
