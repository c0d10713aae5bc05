#include "oncebox/dead_group.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "oncebox/error.hpp"

namespace oncebox {

namespace {

constexpr std::size_t kFingerprintDigits = 16;

bool is_fingerprint(std::string_view text) {
  return text.size() == kFingerprintDigits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

std::string DeadGroupId::str() const {
  return topic ? fmt::format("{}:{}", topic->str(), fingerprint) : fingerprint;
}

DeadGroupId DeadGroupId::parse(std::string_view text) {
  const std::size_t at = text.size() - std::min(text.size(), kFingerprintDigits);
  const std::string_view fingerprint = text.substr(at);
  const std::string_view before = text.substr(0, at);
  if (!is_fingerprint(fingerprint) || (!before.empty() && !before.ends_with(':'))) {
    throw Error(ErrorCode::invalid_argument,
                "a group of dead messages is named by its topic, a colon and 16 hexadecimal "
                "digits, for example order.created:00ff17a92c03d5e8");
  }
  DeadGroupId id{.fingerprint = std::string(fingerprint)};
  if (!before.empty()) id.topic = Topic(std::string(before.substr(0, before.size() - 1)));
  return id;
}

bool DeadGroupId::contains(const MessageRecord& record) const {
  const bool same_topic = record.message ? topic && *topic == record.message->topic : !topic;
  return record.status == Status::dead && same_topic && fingerprint == error_fingerprint(record);
}

DeadGroupId dead_group_of(const MessageRecord& record) {
  DeadGroupId id{.fingerprint = error_fingerprint(record)};
  if (record.message) id.topic = record.message->topic;
  return id;
}

}  // namespace oncebox
