#include "api/call_limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <variant>
#include <vector>

#include "api/answer_size.hpp"
#include "http/answers.hpp"
#include "http/token_limits.hpp"

namespace oncebox::server {

namespace {

[[noreturn]] void refuse_topic(std::string_view topic) {
  throw NotAllowed(fmt::format("this token is limited to other topics than \"{}\"", topic));
}

/// The only value that a choice among the limits can have.
const TopicPattern& only_limit(const std::vector<TopicPattern>& limits, std::string_view field) {
  if (limits.size() == 1) return limits.front();
  throw NotAllowed(fmt::format("this token is limited to some {0}s; say which {0}", field));
}

}  // namespace

void CallLimits::require_source(const Source& source) const {
  if (allows(limits_->sources, source.str())) return;
  throw NotAllowed(fmt::format("this token is limited to other sources than \"{}\"", source.str()));
}

void CallLimits::require_no_source_limit() const {
  if (limits_->sources.empty()) return;
  throw NotAllowed("this call chooses by topic, and the token is limited to sources");
}

void CallLimits::require(const Message& message) const {
  if (limits_ == nullptr) return;
  require_source(message.key.source);
  if (!allows(limits_->topics, message.topic.str())) refuse_topic(message.topic.str());
}

void CallLimits::require_replaced(QueueStore& queue, std::span<const Message> messages) const {
  if (!looks_up_topics()) return;
  std::vector<MessageKey> keys;
  keys.reserve(messages.size());
  for (const Message& message : messages) keys.push_back(message.key);
  require(queue, keys);
}

void CallLimits::require(QueueStore& queue, std::span<const MessageKey> keys) const {
  if (limits_ == nullptr) return;
  for (const MessageKey& key : keys) require_source(key.source);
  if (!looks_up_topics() || keys.empty()) return;
  look_up(queue, keys, [this](const std::optional<MessageRecord>& record) {
    if (!record || !record->message) return;
    if (!allows(limits_->topics, record->message->topic.str())) {
      throw NotAllowed("this token is limited to other topics than that of a message it names");
    }
  });
}

void CallLimits::narrow(TopicSelection& topics) const {
  if (limits_ == nullptr) return;
  require_no_source_limit();
  if (topics.only.empty()) topics.only = limits_->topics;
  for (const TopicPattern& wanted : topics.only) {
    if (!allows_all(limits_->topics, wanted)) refuse_topic(wanted.str());
  }
}

void CallLimits::narrow(MessageFilter& filter) const {
  if (limits_ == nullptr) return;
  if (!limits_->sources.empty() && !filter.source) {
    const TopicPattern& limit = only_limit(limits_->sources, "source");
    if (!limit.is_exact())
      throw NotAllowed("this token is limited to some sources; say which source");
    filter.source = Source(limit.str());
  }
  if (filter.source) require_source(*filter.source);
  if (!limits_->topics.empty() && !filter.topic) {
    filter.topic = only_limit(limits_->topics, "topic");
  }
  if (filter.topic && !allows_all(limits_->topics, *filter.topic)) {
    refuse_topic(filter.topic->str());
  }
}

void CallLimits::narrow(QueueStore& queue, wire::MessageSelection& which) const {
  if (auto* const filter = std::get_if<MessageFilter>(&which)) {
    narrow(*filter);
  } else {
    require(queue, std::get<std::vector<MessageKey>>(which));
  }
}

void CallLimits::narrow(QueueStats& stats) const {
  if (limits_ == nullptr) return;
  require_no_source_limit();
  if (limits_->topics.empty()) return;
  std::erase_if(stats.topics, [this](const TopicStats& of) {
    return !of.topic || !allows(limits_->topics, of.topic->str());
  });
}

}  // namespace oncebox::server
