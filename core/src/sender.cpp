#include "oncebox/sender.hpp"

#include "oncebox/causation.hpp"
#include "oncebox/error.hpp"

namespace oncebox::detail {

SentMessages::SentMessages(Topic topic, std::string_view key) : topic_(std::move(topic)) {
  if (!key.empty()) key_.emplace(key);
}

void SentMessages::add(Payload payload, SendOptions options) {
  std::optional<MessageId> id = id_for(options.name);
  if (!options.name.empty() && !names_.insert(options.name).second) {
    throw Error(ErrorCode::conflict, "a message of the same name was sent already");
  }
  messages_.push_back({.topic = topic_,
                       .payload = std::move(payload),
                       .id = std::move(id),
                       .headers = std::move(options.headers),
                       .partition_key = std::move(options.partition_key),
                       .priority = options.priority,
                       .due_at = options.due_at,
                       .expires_at = options.expires_at});
}

std::optional<MessageId> SentMessages::id_for(const std::string& name) const {
  if (!key_) return std::nullopt;
  const std::string& topic = topic_.str();
  return derived_id(
      *key_, name.empty() ? topic + '#' + std::to_string(messages_.size()) : topic + '/' + name);
}

}  // namespace oncebox::detail
