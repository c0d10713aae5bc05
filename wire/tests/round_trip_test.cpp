// Whatever is written can be read back: any bytes, any headers, any state.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "json_text.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/retry_policy.hpp"
#include "oncebox/wire/encoding.hpp"
#include "oncebox/wire/message_json.hpp"
#include "oncebox/wire/queue_json.hpp"

namespace oncebox::wire {
namespace {

namespace gen = rc::gen;

template <class Property>
void expect_always(Property property) {
  EXPECT_TRUE(rc::check(property));
}

rc::Gen<std::string> pieces_of(std::vector<std::string> pieces) {
  return gen::map(gen::container<std::vector<std::string>>(gen::elementOf(pieces)),
                  [](const std::vector<std::string>& parts) {
                    std::string text;
                    for (const std::string& part : parts) text += part;
                    return text;
                  });
}

rc::Gen<std::string> texts() {
  return pieces_of({"a", "Z", " ", "\"", "\\", "/", "ü", "😀", "\n", "\x7f", "\x01", "\u2028", "{",
                    "}", "*", "\\u0000", "%"});
}

rc::Gen<std::string> json_values() {
  return gen::elementOf(std::vector<std::string>{
      "{}", "[]", "null", "-0", "1e400", "0.10", "123456789012345678901234567890",
      R"({"a":1,"a":2})", R"({"\u0000":"\ud83d\ude00"})", R"(["\"]}",{"b" : [ ] }])", "[ 1 ]",
      "\"text\"", " 1", "1 ", "[1,]", std::string(40, '[') + std::string(40, ']')});
}

rc::Gen<std::string> any_bytes() { return gen::container<std::string>(gen::arbitrary<char>()); }

rc::Gen<std::string> payloads() {
  return gen::oneOf(texts(), json_values(), any_bytes(),
                    pieces_of({"{", "}", "[", "]", "\"a\"", ":", ",", "1", " ", "true"}));
}

rc::Gen<std::string> names() {
  return gen::map(texts(),
                  [](const std::string& text) { return std::string(clip_text("n" + text, 200)); });
}

rc::Gen<Headers> headers() {
  const auto types = gen::elementOf(std::vector<std::string>{
      "", "application/json", "application/json; charset=utf-8", "text/plain", "a/b+json",
      "application/octet-stream", "APPLICATION/OCTET-STREAM; x"});
  return gen::apply(
      [](const std::vector<std::pair<std::string, std::string>>& entries, bool typed,
         const std::string& type) {
        Headers all;
        for (const auto& [name, value] : entries) all.set(name, value);
        if (typed) all.set(header_names::kContentType, type);
        return all;
      },
      gen::resize(8, gen::container<std::vector<std::pair<std::string, std::string>>>(
                         gen::pair(names(), texts()))),
      gen::arbitrary<bool>(), types);
}

rc::Gen<TimePoint> times() {
  return gen::map(gen::inRange<Duration::rep>(0, kMaxTime.time_since_epoch().count() + 1),
                  [](Duration::rep ms) { return TimePoint(Duration(ms)); });
}

rc::Gen<AttemptLimit> attempt_limits() {
  return gen::apply(
      [](int max_attempts, Duration::rep ms, bool has_age) {
        AttemptLimit limit{max_attempts};
        if (has_age) limit.give_up_after = Duration(ms);
        return limit;
      },
      gen::inRange(1, std::numeric_limits<int>::max()),
      gen::inRange<Duration::rep>(1, limits::kMaxDelay.count() + 1), gen::arbitrary<bool>());
}

template <class Type>
std::optional<Type> sometimes(const rc::Gen<Type>& values) {
  if (*gen::arbitrary<bool>()) return std::nullopt;
  return *values;
}

ContentHash some_hash() {
  std::string digest = *any_bytes();
  digest.resize(1 + digest.size() % ContentHash::kMaxDigestBytes);
  return ContentHash(*gen::elementOf(std::vector<std::string>{"sha256", "md5", "x-1"}), digest);
}

Message some_message() {
  Message message{.key = {*names(), *names()},
                  .topic = *names(),
                  .payload = *payloads(),
                  .headers = *headers(),
                  .priority = *gen::inRange(Priority::kMin, Priority::kMax + 1),
                  .due_at = sometimes(times()),
                  .expires_at = sometimes(times())};
  if (*gen::arbitrary<bool>()) message.hash = some_hash();
  if (*gen::arbitrary<bool>()) message.partition_key = PartitionKey(*names());
  return message;
}

MessageHistory some_history() {
  const auto counts = gen::inRange(0, std::numeric_limits<int>::max());
  return {.attempt = *counts,
          .deliveries = *counts,
          .lapses = *counts,
          .duplicates = *counts,
          .content_version = *counts,
          .first_seen_at = *times(),
          .last_seen_at = *times(),
          .last_error = sometimes(texts())};
}

MessageRecord some_record() {
  MessageRecord record{.key = {*names(), *names()},
                       .status = static_cast<Status>(*gen::inRange(0, 4)),
                       .state = static_cast<State>(*gen::inRange(0, 6)),
                       .history = some_history(),
                       .eligible_at = sometimes(times()),
                       .finished_at = sometimes(times())};
  if (*gen::arbitrary<bool>()) {
    record.message = some_message();
    record.key = record.message->key;
    record.hash = record.message->hash;
  } else if (*gen::arbitrary<bool>()) {
    record.hash = some_hash();
  }
  if (*gen::arbitrary<bool>()) {
    record.lease =
        MessageLease{OwnerToken::generate(), DeliveryNumber{*gen::arbitrary<std::uint64_t>()},
                     *times(), sometimes(times())};
    if (*gen::arbitrary<bool>()) record.lease->worker = "shop-3:8124";
  }
  for (int number = *gen::inRange(0, 3); number > 0; --number) {
    record.attempts.push_back(
        {.number = number,
         .worker = "shop-3:8124",
         .begun_at = sometimes(times()),
         .ended_at = *times(),
         .outcome = *gen::element(AttemptOutcome::abandoned, AttemptOutcome::lapsed,
                                  AttemptOutcome::cancelled, AttemptOutcome::marked_dead),
         .error_kind = *texts(),
         .error = *texts()});
  }
  if (*gen::arbitrary<bool>()) {
    record.revivals = {.count = 1, .last_at = *times(), .last_reason = sometimes(texts())};
  }
  return record;
}

TEST(RoundTrip, OfAnyMessage) {
  expect_always([] {
    const Message message = some_message();
    RC_ASSERT(read_message(write_message(message), MessageDefaults{}) == message);
  });
}

TEST(RoundTrip, OfAnyRecord) {
  expect_always([] {
    const MessageRecord record = some_record();
    RC_ASSERT(read_record(write_record(record)) == record);
  });
}

TEST(RoundTrip, OfAnyClaimedMessages) {
  expect_always([] {
    const OwnerToken owner = OwnerToken::generate();
    std::vector<ClaimedMessage> claimed;
    for (int count = *gen::inRange(0, 4); count > 0; --count) {
      claimed.push_back({.message = some_message(),
                         .history = some_history(),
                         .owner = owner,
                         .delivery = DeliveryNumber{*gen::arbitrary<std::uint64_t>()},
                         .locked_until = *times(),
                         .eligible_at = *times(),
                         .revived_at = sometimes(times()),
                         .attempt_limit = sometimes(attempt_limits())});
    }
    RC_ASSERT(read_claimed(write_claimed(owner, {claimed})).messages == claimed);
  });
}

TEST(RoundTrip, ASentPayloadOfAnyBytesIsStoredAsItWas) {
  expect_always([] {
    const std::string value = *json_values();
    const std::string json = R"({"topic":"t","payload":)" + value + "}";
    if (!is_json(json, 32)) return;
    const std::size_t begin = value.find_first_not_of(' ');
    const std::string trimmed = value.substr(begin, value.find_last_not_of(' ') + 1 - begin);
    if (trimmed == "null") return;
    const Message message =
        read_message(json, {.make_id = [](std::size_t) { return MessageId("m"); }});
    RC_ASSERT(message.payload.bytes() == (trimmed.front() == '"' ? "text" : trimmed));
  });
}

TEST(RoundTrip, OfAnyBytesInBase64AndPercentEscapes) {
  expect_always([] {
    const std::string bytes = *any_bytes();
    RC_ASSERT(from_base64(to_base64(bytes)) == bytes);
    RC_ASSERT(percent_decode(percent_encode(bytes)) == bytes);
  });
}

// Nothing that comes in may do more than be refused.
TEST(RandomText, IsReadOrRefused) {
  expect_always([] {
    const std::string json = *gen::oneOf(
        any_bytes(), pieces_of({"{", "}", "[", "]", "\"topic\"", "\"payload\"", "\"items\"", ":",
                                ",", "1", "-", "e", ".", " ", "\"", "\\", "\\u", "d800", "null"}));
    const auto read = [&](auto reader) {
      try {
        (void)reader(json);
      } catch (const Error& error) {
        RC_ASSERT(error.code() == ErrorCode::invalid_argument ||
                  error.code() == ErrorCode::out_of_range);
      }
    };
    read([](const std::string& text) { return read_message(text, MessageDefaults{}); });
    read([](const std::string& text) { return read_messages(text, MessageDefaults{}); });
    read(read_settlements);
    read(read_claim);
    read(read_claimed);
  });
}

}  // namespace
}  // namespace oncebox::wire
