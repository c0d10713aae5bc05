#pragma once

#include "http/http_message.hpp"
#include "oncebox/headers.hpp"

namespace oncebox::server {

/// The headers of the message that a webhook becomes, by the fields of its request: `contentType`,
/// `idempotencyKey`, `traceparent` and `tracestate` by their HTTP names; `correlationId`,
/// `causationId`, `partitionKey` and `timestamp` as our own publisher sends them
/// (`Oncebox-Correlation-Id` …, percent-encoded). Where those are not there, `X-Correlation-Id`,
/// `X-Causation-Id` and `webhook-timestamp` count.
///
/// A value that cannot be a header, or is not of its form, counts as absent: the message matters
/// more to its sender than what goes with it.
[[nodiscard]] Headers webhook_headers(const Request& request);

}  // namespace oncebox::server
