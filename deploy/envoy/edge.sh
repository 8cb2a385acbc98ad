#!/usr/bin/env bash
# Runs the command of its arguments, an Envoy with envoy.yaml, and drains it on SIGTERM, which alone would cut its
# answers: readiness fails and callers are asked to reconnect, the public port closes once load balancers had time to
# notice, and Envoy ends with its last answer. The container's runtime limits the time.
set -u
ADMIN=127.0.0.1/9900
GRACE_S=15

"$@" &
envoy=$!

admin() {
  exec 3<>"/dev/tcp/$ADMIN" || return
  printf '%s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n' "$1" >&3
  cat <&3
  exec 3>&-
} 2>/dev/null

# Whether answers run, or it is not known while Envoy lives. A WebSocket is a request until its end, and its client opens
# another one at once.
answering() {
  local left=0 known='' name value
  kill -0 "$envoy" 2>/dev/null || return
  while read -r name value; do
    value=${value%$'\r'}
    case $name in
      http.public.downstream_rq_active:) left=$((left + value)) known=1 ;;
      http.public.downstream_cx_upgrades_active:) left=$((left - value)) ;;
    esac
  done < <(admin 'GET /stats?filter=^http.public.downstream_.*_active$')
  [ -z "$known" ] || [ "$left" -gt 0 ]
}

drain() {
  trap '' TERM
  admin 'POST /healthcheck/fail' >/dev/null
  sleep "$GRACE_S"
  admin 'POST /drain_listeners?inboundonly' >/dev/null
  while answering; do sleep 1; done
  kill -TERM "$envoy"
}

trap drain TERM
# A signal ends the first wait; the second one is for the end of Envoy.
wait "$envoy"
wait "$envoy"
