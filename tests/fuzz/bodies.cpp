#include "bodies.hpp"

#include <algorithm>
#include <array>

#include "fuzz_input.hpp"
#include "oncebox/wire/audit_json.hpp"
#include "oncebox/wire/edit_json.hpp"
#include "oncebox/wire/encoding.hpp"
#include "oncebox/wire/endpoint_json.hpp"
#include "oncebox/wire/health_json.hpp"
#include "oncebox/wire/key_json.hpp"
#include "oncebox/wire/message_json.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "oncebox/wire/policy_json.hpp"
#include "oncebox/wire/problem.hpp"
#include "oncebox/wire/queue_json.hpp"
#include "oncebox/wire/worker_json.hpp"

namespace oncebox::fuzz {

namespace {

const wire::MessageDefaults kDefaults = {.source = "fuzz", .make_id = [](std::size_t place) {
                                           return MessageId(std::to_string(place));
                                         }};
const OwnerToken kOwner = OwnerToken::parse("01940000-0000-7000-8000-000000000001");

template <auto Read, auto Write>
std::string rewrite(std::string_view body) {
  return Write(Read(body));
}

template <auto Read>
std::string only_read(std::string_view body) {
  (void)Read(body);
  return {};
}

template <auto Read>
std::string read_with_retention(std::string_view body) {
  (void)Read(body, defaults::kKeyRetention);
  return {};
}

template <auto Read, auto Write>
std::string rewrite_with_retention(std::string_view body) {
  return Write(Read(body, defaults::kKeyRetention));
}

template <wire::LeaseRule Rule>
std::string read_mark_processed(std::string_view body) {
  (void)wire::read_mark_processed(body, Rule, defaults::kKeyRetention);
  return {};
}

template <class Action>
std::string rewrite_act(std::string_view body) {
  return wire::write_act(wire::read_act(body, Action{}));
}

std::string rewrite_message(std::string_view body) {
  const Message message = wire::read_message(body, kDefaults);
  const std::string written = wire::write_message(message);
  require(wire::read_message(written, kDefaults) == message, "a message comes back");
  return written;
}

std::string rewrite_messages(std::string_view body) {
  return wire::write_messages(wire::read_messages(body, kDefaults));
}

std::string rewrite_record(std::string_view body) {
  const MessageRecord record = wire::read_record(body);
  const std::string written = wire::write_record(record);
  require(wire::read_record(written) == record, "a record comes back");
  return written;
}

std::string rewrite_page(std::string_view body) {
  return wire::write_page(wire::read_page(body), ListPayloads::include);
}

std::string rewrite_found(std::string_view body) {
  return wire::write_found(wire::read_found(body));
}

std::string rewrite_claimed(std::string_view body) {
  return wire::write_claimed(kOwner, wire::read_claimed(body));
}

std::string rewrite_policy(std::string_view body) {
  const TopicRule rule = wire::read_policy(body);
  const std::string written = wire::write_policy(rule);
  require(wire::read_policy(written) == rule, "a rule comes back");
  return written;
}

std::string rewrite_cleanup(std::string_view body) {
  return wire::write_cleanup(wire::read_cleanup(body, {}));
}

std::string rewrite_endpoints(std::string_view body) {
  constexpr std::int64_t kKnownVersion = 7;
  return wire::write_endpoints(wire::read_endpoints(body), kKnownVersion);
}

std::string rewrite_endpoint_note(std::string_view body) {
  return wire::write_endpoint_note(wire::read_endpoint_note(body, TimePoint{}));
}

std::string rewrite_edit(std::string_view body) {
  const wire::EditCall call = wire::read_edit(body);
  return wire::write_edit(call.edits, call.options);
}

std::string rewrite_health(std::string_view body) {
  const wire::ServiceHealth health = wire::read_health(body);
  return wire::write_health(health.report, health.discovery);
}

std::string read_foreign_error(std::string_view body) {
  for (const int status : {200, 302, 400, 404, 429, 500, 503}) {
    require(wire::error_of(status, body).what() != nullptr, "every answer is an error");
  }
  return {};
}

std::string read_encodings(std::string_view text) {
  const auto bytes = wire::from_base64(text);
  if (bytes) require(wire::to_base64(*bytes) == text, "base64 has one form");
  require(wire::from_base64(wire::to_base64(text)) == text, "base64 comes back");
  require(wire::percent_decode(wire::percent_encode(text)) == text, "escapes come back");
  (void)wire::percent_decode(text);
  return {};
}

constexpr auto kBodies = std::to_array<Body>({
    {"acted", rewrite<wire::read_acted, wire::write_acted>},
    {"audit_cleanup", rewrite<wire::read_audit_cleanup, wire::write_audit_cleanup>},
    {"audit_page", rewrite<wire::read_audit_page, wire::write_audit_page>},
    {"begins", rewrite_with_retention<wire::read_begins, wire::write_begins>},
    {"begun", rewrite<wire::read_begun, wire::write_begun>},
    {"cancel", rewrite_act<Cancel>},
    {"claim", rewrite<wire::read_claim, wire::write_claim>},
    {"claimed", rewrite_claimed},
    {"cleaned_up", rewrite<wire::read_cleaned_up, wire::write_cleaned_up>},
    {"cleanup", rewrite_cleanup},
    {"completed", rewrite<wire::read_completed, wire::write_completed>},
    {"completions", rewrite_with_retention<wire::read_completions, wire::write_completions>},
    {"count", rewrite<wire::read_count, wire::write_count>},
    {"delete", rewrite_act<Delete>},
    {"edit", rewrite_edit},
    {"encodings", read_encodings},
    {"endpoint_note", rewrite_endpoint_note},
    {"endpoint_noted", rewrite<wire::read_endpoint_noted, wire::write_endpoint_noted>},
    {"endpoint_removal", rewrite<wire::read_endpoint_removal, wire::write_endpoint_removal>},
    {"endpoint_save", rewrite<wire::read_endpoint_save, wire::write_endpoint_save>},
    {"endpoint_saved", rewrite<wire::read_endpoint_saved, wire::write_endpoint_saved>},
    {"endpoints", rewrite_endpoints},
    {"enqueued", only_read<wire::read_enqueued>},
    {"extended", rewrite<wire::read_extended, wire::write_extended>},
    {"extensions", rewrite<wire::read_extensions, wire::write_extensions>},
    {"filter", rewrite<wire::read_filter, wire::write_filter>},
    {"find", rewrite<wire::read_find, wire::write_find>},
    {"found", rewrite_found},
    {"health", rewrite_health},
    {"key_extensions", rewrite<wire::read_key_extensions, wire::write_key_extensions>},
    {"key_failures", rewrite<wire::read_key_failures, wire::write_key_failures>},
    {"key_names", rewrite<wire::read_key_names, wire::write_key_names>},
    {"key_records", rewrite<wire::read_key_records, wire::write_key_records>},
    {"key_releases", rewrite<wire::read_key_releases, wire::write_key_releases>},
    {"keys_extended", rewrite<wire::read_keys_extended, wire::write_keys_extended>},
    {"keys_failed", rewrite<wire::read_keys_failed, wire::write_keys_failed>},
    {"keys_released", rewrite<wire::read_keys_released, wire::write_keys_released>},
    {"limit", rewrite<wire::read_limit, wire::write_limit>},
    {"mark_processed", read_mark_processed<wire::LeaseRule::optional>},
    {"mark_processed_with_lease", read_mark_processed<wire::LeaseRule::required>},
    {"marked", rewrite<wire::read_marked, wire::write_marked>},
    {"marks", rewrite<wire::read_marks, wire::write_marks>},
    {"message", rewrite_message},
    {"messages", rewrite_messages},
    {"next_due", rewrite<wire::read_next_due, wire::write_next_due>},
    {"observations", rewrite<wire::read_observations, wire::write_observations>},
    {"observed", rewrite<wire::read_observed, wire::write_observed>},
    {"page", rewrite_page},
    {"past_contents", rewrite<wire::read_past_contents, wire::write_past_contents>},
    {"policies", rewrite<wire::read_policies, wire::write_policies>},
    {"policy", rewrite_policy},
    {"policy_call", rewrite<wire::read_policy_call, wire::write_policy_call>},
    {"problem", read_foreign_error},
    {"purge", rewrite<wire::read_purge, wire::write_purge>},
    {"purged", rewrite<wire::read_purged, wire::write_purged>},
    {"reap", rewrite<wire::read_reap, wire::write_reap>},
    {"reaped", rewrite<wire::read_reaped, wire::write_reaped>},
    {"record", rewrite_record},
    {"release", only_read<wire::read_release>},
    {"reschedule", rewrite_act<Reschedule>},
    {"revive", rewrite<wire::read_revive, wire::write_revive>},
    {"revived", rewrite<wire::read_revived, wire::write_revived>},
    {"run_now", rewrite_act<RunNow>},
    {"settled", rewrite<wire::read_settled, wire::write_settled>},
    {"settlements", rewrite<wire::read_settlements, wire::write_settlements>},
    {"stats", rewrite<wire::read_stats, wire::write_stats>},
    {"topic_call", only_read<wire::read_topic_call>},
    {"topics", rewrite<wire::read_topics, wire::write_topics>},
    {"try_begin", read_with_retention<wire::read_try_begin>},
    {"workers", rewrite<wire::read_workers, wire::write_workers>},
});

}  // namespace

std::span<const Body> bodies() { return kBodies; }

const Body* find_body(std::string_view name) {
  const auto found = std::ranges::find(kBodies, name, &Body::name);
  return found == kBodies.end() ? nullptr : &*found;
}

}  // namespace oncebox::fuzz
