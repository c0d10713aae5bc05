#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "oncebox/endpoint_store.hpp"
#include "oncebox/wire/encoding.hpp"
#include "oncebox/wire/operator_json.hpp"

/// Endpoints as JSON:
/// `{"name": "crm", "url": "https://…", "topics"?: ["order.*"], "secrets"?: ["env:…"],
///   "headers"?: {…}, "timeoutSeconds"?: 30, "allowPrivate"?: false, "disableAfterSeconds"?: …}`,
/// in an answer with `"failingSince"?`, `"lastFailure"?`, `"disabledAt"?` and `"disabledReason"?`.
namespace oncebox::wire {

struct EndpointSave {
  Endpoint endpoint;
  std::string reason = {};
};
[[nodiscard]] EndpointSave read_endpoint_save(std::string_view json);
[[nodiscard]] std::string write_endpoint_save(const EndpointSave& call);
/// `{"status": "Created"}`.
[[nodiscard]] std::string write_endpoint_saved(EndpointSaved saved);
[[nodiscard]] EndpointSaved read_endpoint_saved(std::string_view json);

struct EndpointListQuery {
  std::optional<std::int64_t> known_version = {};
  EndpointSecrets secrets = EndpointSecrets::leave_out;
};
[[nodiscard]] EndpointListQuery read_endpoint_query(std::span<const QueryParameter> parameters);
[[nodiscard]] std::string write_endpoint_query(const EndpointListQuery& query);
/// `{"version": 7, "endpoints": […]}`; without the endpoints when the version is the known one.
[[nodiscard]] std::string write_endpoints(const std::optional<EndpointList>& list,
                                          std::int64_t known_version);
[[nodiscard]] std::optional<EndpointList> read_endpoints(std::string_view json);
/// One of them.
[[nodiscard]] std::string write_endpoint(const EndpointRecord& record);

struct EndpointRemoval {
  EndpointName name;
  std::string reason = {};
};
[[nodiscard]] EndpointRemoval read_endpoint_removal(std::string_view json);
[[nodiscard]] std::string write_endpoint_removal(const EndpointRemoval& call);

/// `{"name": "crm", "event": "Enabled", "at"?: …, "reason"?: "…"}`.
struct EndpointNote {
  EndpointName name;
  EndpointEvent event;
};
/// `now` is for an event without a time.
[[nodiscard]] EndpointNote read_endpoint_note(std::string_view json, TimePoint now);
[[nodiscard]] std::string write_endpoint_note(const EndpointNote& call);
/// `{"changed": true, "known": true, …}` with the members of the status.
[[nodiscard]] std::string write_endpoint_noted(const std::optional<EndpointNoted>& noted);
[[nodiscard]] std::optional<EndpointNoted> read_endpoint_noted(std::string_view json);

/// What an endpoint is to have again: one of `{"since": …, "until"?: …}`, `{"failed": true}` and
/// `{"source": …, "messageId": …}`, with `"perSecond"?`, `"dryRun"?` and `"reason"?`.
struct EndpointResend {
  TimeRange sent = {};                 ///< with a beginning: all that was sent since
  bool failed = false;                 ///< all that failed for good
  std::optional<MessageKey> key = {};  ///< one message
  std::optional<double> per_second = {};
  bool dry_run = false;  ///< only count
  std::string reason = {};
};
[[nodiscard]] EndpointResend read_endpoint_resend(std::string_view json);
[[nodiscard]] std::string write_endpoint_resend(const EndpointResend& call);
/// `{"count": 7, "underWay": 1, "notWanted": 0, "dryRun": false}`.
struct EndpointResent {
  std::size_t count = 0;
  std::size_t under_way = 0;
  std::size_t not_wanted = 0;
  bool dry_run = false;
};
[[nodiscard]] std::string write_endpoint_resent(const EndpointResent& resent);
[[nodiscard]] EndpointResent read_endpoint_resent(std::string_view json);

/// `{"waitSeconds"?: 30}`: after that nobody is to deliver it any more.
[[nodiscard]] Duration read_endpoint_test(std::string_view json, Duration usual);
/// `{"source": "oncebox", "messageId": "…@crm"}`.
[[nodiscard]] std::string write_endpoint_tested(const MessageKey& delivery);

/// What is sent to a webhook when an endpoint was disabled, in the form of Standard Webhooks:
/// `{"type": "oncebox.endpoint.disabled", "timestamp": …, "data": {"store": …, "endpoint": …,
/// "failingSince"?: …, "disabledAt": …, "disabledReason": …}}`
struct DisabledEndpoint {
  std::string_view store;
  const EndpointName& endpoint;
  const EndpointStatus& status;
};
[[nodiscard]] std::string write_disabled_endpoint(const DisabledEndpoint& notice, TimePoint now);

/// The subject of an entry in the audit trail: the endpoint without its secrets, or its name.
[[nodiscard]] std::string audit_subject(Endpoint endpoint);
[[nodiscard]] std::string audit_subject(const EndpointName& name);

}  // namespace oncebox::wire
