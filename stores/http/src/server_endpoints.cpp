#include "oncebox/http/server_endpoints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "http_client.hpp"
#include "oncebox/wire/endpoint_json.hpp"

namespace oncebox::http {

namespace {

constexpr Duration kResendTimeout = std::chrono::minutes{10};

Options with_time(Options options) {
  options.call_timeout = std::max(options.call_timeout, kResendTimeout);
  return options;
}

}  // namespace

ServerResent resend_to_endpoint(const Options& options, const EndpointName& name,
                                const ServerResend& wanted) {
  HttpClient client(with_time(options));
  const ApiCall call{.path = fmt::format("/endpoints/{}/resend", name.str()),
                     .body = wire::write_endpoint_resend({.sent = {.from = wanted.since},
                                                          .failed = wanted.failed,
                                                          .key = wanted.key,
                                                          .per_second = wanted.per_second,
                                                          .dry_run = wanted.dry_run,
                                                          .reason = wanted.reason})};
  const wire::EndpointResent resent = client.call(call, wire::read_endpoint_resent);
  return {resent.count, resent.under_way, resent.not_wanted};
}

}  // namespace oncebox::http
