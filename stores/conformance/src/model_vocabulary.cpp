#include "model_vocabulary.hpp"

#include <array>
#include <cstdint>
#include <string_view>

#include "oncebox/limits.hpp"
#include "oncebox/uuid.hpp"

namespace oncebox::conformance::vocabulary {

MessageKey key(std::size_t place) {
  constexpr std::size_t kIds = kKeys / 2;
  return {.source = place < kIds ? "bank" : "shop", .message_id = std::to_string(place % kIds + 1)};
}

Topic topic(std::size_t place) {
  static constexpr std::array<const char*, kTopics> kAll{"order.created", "order.paid", "user.new"};
  return kAll.at(place);
}

Payload payload(std::size_t place) {
  using namespace std::string_view_literals;
  static constexpr std::array<std::string_view, kPayloads> kAll{"one"sv, "two"sv, ""sv,
                                                                "\xFF\0\x80'"sv};
  return kAll.at(place);
}

Headers headers(std::size_t place) {
  switch (place) {
    case 0:
      return {};
    case 1:
      return {{"correlationId", "c-1"}};
    default:
      return {{"correlationId", "c-2"}, {"contentType", "text/plain"}};
  }
}

std::optional<ContentHash> hash(HashChoice choice, std::size_t payload_place) {
  const Payload bytes = payload(payload_place);
  switch (choice) {
    case HashChoice::none:
      return std::nullopt;
    case HashChoice::of_payload:
      return ContentHash::sha256_of(bytes);
    case HashChoice::wrong:
      return ContentHash::sha256_of(Payload("not what was sent"));
    case HashChoice::other_algorithm:
      return ContentHash("length", std::to_string(bytes.size()));
    case HashChoice::other_algorithm_wrong:
      return ContentHash("length", "-1");
  }
  return std::nullopt;
}

Priority priority(std::size_t place) {
  static constexpr std::array<int, kPriorities> kAll{0, 7, -7};
  return kAll.at(place);
}

std::optional<PartitionKey> partition(std::size_t place) {
  if (place == 0) return std::nullopt;
  return PartitionKey("lane-" + std::to_string(place));
}

OwnerToken owner(std::size_t place) {
  Uuid::Bytes bytes{};
  bytes.back() = static_cast<std::uint8_t>(place + 1);
  return OwnerToken(Uuid(bytes));
}

WorkerName worker(std::size_t place) { return "worker " + std::to_string(place); }

std::string error_kind(std::size_t place) {
  return place == 0 ? "" : "Kind" + std::to_string(place);
}

std::string error(std::size_t place) {
  switch (place) {
    case 0:
      return "";
    case 1:
      return "timeout";
    case 2:
      return "refused: timeout";
    case 3:
      return "Timeout\xFF";
    default: {
      std::string text = "x";  // one byte, so that the cut falls inside a character
      while (text.size() < limits::kMaxErrorBytes + 3) text += "\xC3\xA9";
      return text;
    }
  }
}

std::string reason(std::size_t place) {
  static constexpr std::array<const char*, kReasons> kAll{"", "fixed", "asked for by the sender"};
  return kAll.at(place);
}

TopicSelection topic_selection(std::size_t place) {
  switch (place) {
    case 0:
      return {};
    case 1:
      return {.only = {"order.*"}, .except = {}};
    case 2:
      return {.only = {}, .except = {"order.paid"}};
    case 3:
      return {.only = {"user.new", "order.paid"}, .except = {}};
    default:
      return {.only = {"*", "order.created"}, .except = {"order.c*", "user"}};
  }
}

TopicPattern topic_pattern(std::size_t place) {
  static constexpr std::array<const char*, kTopicPatterns> kAll{"order.created", "order.*", "*",
                                                                "user"};
  return kAll.at(place);
}

IdempotencyKey idempotency_key(std::size_t place) {
  static constexpr std::array<const char*, kIdempotencyKeys> kAll{"pay:1", " pay:1 ", "PAY:1",
                                                                  "\xC3\xBC/%2F:?#"};
  return kAll.at(place);
}

}  // namespace oncebox::conformance::vocabulary
