// Every body that the service, or a client of it, reads. What can be read can be written, and what
// was written reads as the same.

#include <array>

#include "fuzz_input.hpp"
#include "oncebox/wire/audit_json.hpp"
#include "oncebox/wire/edit_json.hpp"
#include "oncebox/wire/encoding.hpp"
#include "oncebox/wire/key_json.hpp"
#include "oncebox/wire/message_json.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "oncebox/wire/problem.hpp"
#include "oncebox/wire/queue_json.hpp"

namespace {

using namespace oncebox;

const wire::MessageDefaults kDefaults = {.source = "fuzz", .make_id = [](std::size_t place) {
                                           return MessageId(std::to_string(place));
                                         }};
const OwnerToken kOwner = OwnerToken::parse("01940000-0000-7000-8000-000000000001");

/// Reads a body and writes it again; empty when there is no writer of its form.
using Rewrite = std::string (*)(std::string_view body);

template <auto kRead, auto kWrite>
std::string rewrite(std::string_view body) {
  return kWrite(kRead(body));
}

template <auto kRead>
std::string only_read(std::string_view body) {
  (void)kRead(body);
  return {};
}

std::string rewrite_act(std::string_view body) {
  return wire::write_act(wire::read_act(body, Reschedule{}));
}

std::string rewrite_message(std::string_view body) {
  const Message message = wire::read_message(body, kDefaults);
  const std::string written = wire::write_message(message);
  fuzz::require(wire::read_message(written, kDefaults) == message, "a message comes back");
  return written;
}

std::string rewrite_messages(std::string_view body) {
  return wire::write_messages(wire::read_messages(body, kDefaults));
}

std::string rewrite_record(std::string_view body) {
  const MessageRecord record = wire::read_record(body);
  const std::string written = wire::write_record(record);
  fuzz::require(wire::read_record(written) == record, "a record comes back");
  return written;
}

std::string rewrite_found(std::string_view body) {
  return wire::write_found(wire::read_found(body));
}

std::string rewrite_page(std::string_view body) {
  return wire::write_page(wire::read_page(body), ListPayloads::include);
}

std::string rewrite_claimed(std::string_view body) {
  return wire::write_claimed(kOwner, wire::read_claimed(body));
}

std::string rewrite_cleanup(std::string_view body) {
  return wire::write_cleanup(wire::read_cleanup(body, {}));
}

std::string rewrite_edit(std::string_view body) {
  const wire::EditCall call = wire::read_edit(body);
  return wire::write_edit(call.edits, call.options);
}

std::string rewrite_begins(std::string_view body) {
  return wire::write_begins(wire::read_begins(body, defaults::kKeyRetention));
}

std::string rewrite_completions(std::string_view body) {
  return wire::write_completions(wire::read_completions(body, defaults::kKeyRetention));
}

std::string read_contract(std::string_view body) {
  using namespace std::chrono_literals;
  fuzz::may_refuse([&] { (void)wire::read_try_begin(body, 1h); });
  fuzz::may_refuse([&] { (void)wire::read_mark_processed(body, wire::LeaseRule::optional, 1h); });
  fuzz::may_refuse([&] { (void)wire::read_mark_processed(body, wire::LeaseRule::required, 1h); });
  fuzz::may_refuse([&] { (void)wire::read_release(body); });
  return {};
}

std::string read_foreign_error(std::string_view body) {
  for (const int status : {200, 302, 400, 404, 429, 500, 503}) {
    fuzz::require(wire::error_of(status, body).what() != nullptr, "every answer is an error");
  }
  return {};
}

std::string read_encodings(std::string_view text) {
  const auto bytes = wire::from_base64(text);
  if (bytes) fuzz::require(wire::to_base64(*bytes) == text, "base64 has one form");
  fuzz::require(wire::from_base64(wire::to_base64(text)) == text, "base64 comes back");
  fuzz::require(wire::percent_decode(wire::percent_encode(text)) == text, "escapes come back");
  (void)wire::percent_decode(text);
  return {};
}

constexpr std::array<Rewrite, 37> kBodies = {
    rewrite_message,
    rewrite_messages,
    rewrite_record,
    rewrite_page,
    rewrite_claimed,
    rewrite_cleanup,
    read_contract,
    read_foreign_error,
    read_encodings,
    rewrite<wire::read_observations, wire::write_observations>,
    rewrite<wire::read_observed, wire::write_observed>,
    rewrite<wire::read_marks, wire::write_marks>,
    rewrite<wire::read_find, wire::write_find>,
    rewrite_found,
    rewrite<wire::read_claim, wire::write_claim>,
    rewrite<wire::read_settlements, wire::write_settlements>,
    rewrite<wire::read_extensions, wire::write_extensions>,
    rewrite<wire::read_extended, wire::write_extended>,
    rewrite<wire::read_reap, wire::write_reap>,
    rewrite<wire::read_topics, wire::write_topics>,
    rewrite<wire::read_next_due, wire::write_next_due>,
    rewrite<wire::read_filter, wire::write_filter>,
    rewrite<wire::read_stats, wire::write_stats>,
    rewrite<wire::read_revive, wire::write_revive>,
    rewrite<wire::read_purge, wire::write_purge>,
    rewrite_begins,
    rewrite<wire::read_begun, wire::write_begun>,
    rewrite_completions,
    rewrite<wire::read_key_failures, wire::write_key_failures>,
    rewrite<wire::read_key_extensions, wire::write_key_extensions>,
    rewrite<wire::read_key_records, wire::write_key_records>,
    only_read<wire::read_topic_call>,
    rewrite_edit,
    rewrite<wire::read_past_contents, wire::write_past_contents>,
    rewrite<wire::read_audit_page, wire::write_audit_page>,
    rewrite<wire::read_audit_cleanup, wire::write_audit_cleanup>,
    rewrite_act,
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const Rewrite rewrite_body = kBodies[input.choice(kBodies.size())];
  std::string written;
  fuzz::may_refuse([&] { written = rewrite_body(input.rest()); });
  if (!written.empty()) {
    fuzz::require(rewrite_body(written) == written, "what was written reads as the same");
  }
  return 0;
}
