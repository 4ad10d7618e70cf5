#!/bin/sh
# The HTTP side with nothing but curl: create, stream, leave a background run and come back to it, cancel.
#
#   sh examples/curl.sh
#
# ANTIPHON_URL points elsewhere than http://127.0.0.1:8787/v1, ANTIPHON_API_KEY brings a key.
set -eu
url=${ANTIPHON_URL:-http://127.0.0.1:8787/v1}
key=${ANTIPHON_API_KEY:-any}

call() { curl --silent --show-error --fail --no-buffer --max-time 30 --header "Authorization: Bearer $key" "$@"; }
create() { call "$url/responses" --header 'Content-Type: application/json' --data "$1"; }
id_of() { grep -o 'resp_[0-9a-f]*' | head -n 1; }

echo '--- one answer, as JSON'
create '{"model": "antiphon/echo", "input": "hello from curl"}'

echo; echo '--- the same, as a stream of events'
create '{"model": "antiphon/echo", "input": "hello again", "stream": true}'

echo '--- a run in the background: we are gone at once, the run goes on'
id=$(create '{"model": "antiphon/demo", "input": "nobody listens", "background": true}' | id_of)
echo "$id"

echo '--- come back: every event after number 3, then the live ones, until [DONE]'
call "$url/responses/$id?stream=true&starting_after=3"

echo '--- a run that is cancelled'
id=$(create '{"model": "antiphon/demo", "input": "never mind", "background": true}' | id_of)
call --request POST "$url/responses/$id/cancel" > /dev/null
call "$url/responses/$id" | grep -o '"status": *"cancelled"' | head -n 1
