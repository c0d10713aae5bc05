#!/usr/bin/env bash
# The inbox contract (KIN-03 to KIN-07) as a client in any language sees it: curl against a running
# server. Prints what differs, and fails if anything does.
#
#   inbox_contract.sh http://127.0.0.1:8080
set -euo pipefail

url=$1
failures=0

# expect WHAT STATUS PATTERN [CURL ARGUMENTS]: the status, and a regular expression in the body.
expect() {
  local what=$1 status=$2 pattern=$3 answer code body
  shift 3
  answer=$(curl -sS -w '\n%{http_code}' "$@")
  code=${answer##*$'\n'}
  body=${answer%$'\n'*}
  if [[ $code != "$status" || ! $body =~ $pattern ]]; then
    printf 'failed: %s\n  expected %s and %s\n  answered %s %s\n' \
      "$what" "$status" "$pattern" "$code" "$body"
    failures=$((failures + 1))
  fi
}

post() {
  local what=$1 status=$2 pattern=$3 path=$4 body=$5
  expect "$what" "$status" "$pattern" "$url$path" -H 'Content-Type: application/json' -d "$body"
}

lease_of() {
  curl -sS "$url/v1/inbox/try-begin" -H 'Content-Type: application/json' -d "$1" |
    sed -n 's/.*"leaseId": *"\([^"]*\)".*/\1/p'
}

run="run-$$-$RANDOM"

# KIN-03: try-begin.
post 'a new key is acquired' 200 '"status":"Acquired".*"leaseId":"[0-9a-f-]{36}".*"expiresAt":"2' \
  /v1/inbox/try-begin "{\"key\":\"$run:a\",\"owner\":\"w1\",\"leaseSeconds\":60}"
post 'a key under a live lease is busy' 200 '"status":"Busy"' \
  /v1/inbox/try-begin "{\"key\":\"$run:a\",\"owner\":\"w2\"}"
post 'also for the same owner' 200 '"status":"Busy"' \
  /v1/inbox/try-begin "{\"key\":\"$run:a\",\"owner\":\"w1\"}"
post 'a lease of 0 seconds is refused' 400 '"code":"out_of_range"' \
  /v1/inbox/try-begin "{\"key\":\"$run:b\",\"leaseSeconds\":0}"
post 'a lease of 301 seconds is refused' 400 '"code":"out_of_range"' \
  /v1/inbox/try-begin "{\"key\":\"$run:b\",\"leaseSeconds\":301}"

# KIN-04: mark-processed.
lease=$(lease_of "{\"key\":\"$run:c\"}")
post 'the holder marks it' 200 '"status":"Processed"' \
  /v1/inbox/mark-processed "{\"key\":\"$run:c\",\"leaseId\":\"$lease\"}"
post 'a processed key cannot be begun' 200 '"status":"Processed"' \
  /v1/inbox/try-begin "{\"key\":\"$run:c\"}"
post 'somebody else has lost the lease' 200 '"status":"LeaseLost"' \
  /v1/inbox/mark-processed \
  "{\"key\":\"$run:a\",\"leaseId\":\"01940000-0000-7000-8000-000000000001\"}"
post 'an older client marks without a lease' 200 '"status":"Processed"' \
  /v1/inbox/mark-processed "{\"key\":\"$run:old\"}"
post 'and may do so again' 200 '"status":"Processed"' \
  /v1/inbox/mark-processed "{\"key\":\"$run:old\"}"

# KIN-05: release.
lease=$(lease_of "{\"key\":\"$run:d\"}")
post 'the holder gives it back' 200 '"status":"Released"' \
  /v1/inbox/release "{\"key\":\"$run:d\",\"leaseId\":\"$lease\"}"
post 'then it can be begun again' 200 '"status":"Acquired"' \
  /v1/inbox/try-begin "{\"key\":\"$run:d\"}"
post 'the old lease is lost' 200 '"status":"LeaseLost"' \
  /v1/inbox/release "{\"key\":\"$run:d\",\"leaseId\":\"$lease\"}"
post 'a processed key stays so' 200 '"status":"Processed"' \
  /v1/inbox/release "{\"key\":\"$run:c\",\"leaseId\":\"$lease\"}"
post 'nobody knows this one' 200 '"status":"Unknown"' \
  /v1/inbox/release "{\"key\":\"$run:unknown\",\"leaseId\":\"$lease\"}"

# KIN-06: the state of a key, whatever characters it has.
expect 'a key with colons' 200 '"status":"InProgress".*"attempts":1' "$url/v1/inbox/$run:a"
expect 'an unknown key' 200 '"status":"Unknown"' "$url/v1/inbox/$run:nobody"
post 'a key with slashes, spaces and umlauts' 200 '"status":"Acquired"' \
  /v1/inbox/try-begin "{\"key\":\"$run/über uns/ \"}"
expect 'is found with its escapes' 200 '"status":"InProgress"' \
  "$url/v1/inbox/$run%2F%C3%BCber%20uns%2F%20"
expect 'and with plain slashes' 200 '"status":"InProgress"' \
  "$url/v1/inbox/$run/%C3%BCber%20uns/%20"
expect 'but not trimmed' 200 '"status":"Unknown"' "$url/v1/inbox/$run%2F%C3%BCber%20uns%2F"
expect 'nor in another case' 200 '"status":"Unknown"' "$url/v1/inbox/$run%2F%C3%9Cber%20uns%2F%20"

# KIN-07: 4xx for what is malformed.
post 'no JSON' 400 '"code":"invalid_argument"' /v1/inbox/try-begin '{"key":'
post 'no key' 400 '"code":"invalid_argument"' /v1/inbox/try-begin '{}'
post 'an empty key' 400 '"code":"invalid_argument"' /v1/inbox/try-begin '{"key":""}'
post 'a field that is not known' 400 'leaseSeconds' \
  /v1/inbox/try-begin "{\"key\":\"$run:e\",\"leaseSecond\":5}"
expect 'a broken escape' 400 '"code":"bad_request"' "$url/v1/inbox/%zz"
expect 'another method' 405 '"code":"method_not_allowed"' "$url/v1/inbox/try-begin" -X DELETE
expect 'no such path' 404 '"code":"not_found"' "$url/v1/no-such-path"
expect 'another type' 415 '"code":"unsupported_media_type"' "$url/v1/inbox/try-begin" \
  -H 'Content-Type: text/plain' -d "{\"key\":\"$run:f\"}"

if ((failures > 0)); then
  printf '%d failures\n' "$failures"
  exit 1
fi
echo 'the inbox contract holds'
