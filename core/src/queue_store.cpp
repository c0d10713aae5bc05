#include "oncebox/queue_store.hpp"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "oncebox/driver/answer_room.hpp"
#include "oncebox/driver/call_scope.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "valid_calls.hpp"

namespace oncebox {

namespace {

void require_lease(Duration lease) {
  require_in_range("lease", lease, limits::kMinLease, limits::kMaxLease);
}

void require_delay(const char* what, const std::optional<Duration>& delay) {
  if (delay) require_in_range(what, *delay, Duration{1}, limits::kMaxDelay);
}

void require_valid(const TopicSelection& topics) {
  require_in_range("number of topic patterns", topics.only.size() + topics.except.size(), 0,
                   limits::kMaxTopicPatterns);
  std::size_t bytes = 0;
  for (const TopicPattern& pattern : topics.only) bytes += pattern.str().size();
  for (const TopicPattern& pattern : topics.except) bytes += pattern.str().size();
  require_in_range("number of bytes of the topic patterns", bytes, 0,
                   limits::kMaxTopicPatternBytes);
}

void require_valid(const ClaimRequest& request) {
  require_lease(request.lease);
  require_in_range("claim limit", request.limit, 1, limits::kMaxBatchItems);
  require_in_range("bytes of a claim", request.max_bytes, 1, limits::kMaxClaimBytes);
  require_valid(request.topics);
}

using Found = std::optional<MessageRecord>;

/// The keys of a call, each once, in the order in which they first come.
struct DistinctKeys {
  explicit DistinctKeys(std::span<const MessageKey> all) {
    std::unordered_map<MessageKey, std::size_t> known;
    places.reserve(all.size());
    for (const MessageKey& key : all) {
      const auto [place, is_new] = known.try_emplace(key, keys.size());
      if (is_new) keys.push_back(key);
      places.push_back(place->second);
    }
  }

  /// The records of the first of these keys, for the first of all keys.
  [[nodiscard]] std::vector<Found> spread(const std::vector<Found>& records,
                                          std::size_t max_bytes) const {
    std::vector<Found> all;
    AnswerRoom room(max_bytes);
    for (const std::size_t place : places) {
      if (place >= records.size()) break;
      if (records[place] && !room.take(bytes_of(*records[place]))) break;
      all.push_back(records[place]);
    }
    return all;
  }

  std::vector<MessageKey> keys;
  std::vector<std::size_t> places;  ///< in `keys`, of each of all
};

}  // namespace

void require_valid_batch(std::span<const Message> messages) {
  require_batch_size(messages.size());
  for (const Message& message : messages) require_schedule(message.due_at, message.expires_at);
}

std::vector<EnqueueOutcome> QueueStore::enqueue(std::span<const Message> messages,
                                                const EnqueueOptions& options,
                                                const CallOptions& call) {
  require_valid_batch(messages);
  if (messages.empty()) return {};
  const CallScope scope(call);
  return do_enqueue(messages, options);
}

EnqueueOutcome QueueStore::enqueue(const Message& message, const EnqueueOptions& options,
                                   const CallOptions& call) {
  return enqueue(batch_of_one(message), options, call).front();
}

std::vector<ObserveOutcome> QueueStore::observe(std::span<const Observation> observations,
                                                const CallOptions& call) {
  require_batch_size(observations.size());
  if (observations.empty()) return {};
  const CallScope scope(call);
  return do_observe(observations);
}

ObserveOutcome QueueStore::observe(const Observation& observation, const CallOptions& call) {
  return observe(batch_of_one(observation), call).front();
}

std::vector<MarkOutcome> QueueStore::mark(std::span<const Mark> marks, const CallOptions& call) {
  require_batch_size(marks.size());
  if (marks.empty()) return {};
  const CallScope scope(call);
  return do_mark(marks);
}

MarkOutcome QueueStore::mark(const Mark& mark, const CallOptions& call) {
  return this->mark(batch_of_one(mark), call).front();
}

ClaimResult QueueStore::claim(const ClaimRequest& request, const CallOptions& call) {
  require_valid(request);
  const CallScope scope(call);
  return do_claim(request);
}

std::vector<SettleOutcome> QueueStore::settle(std::span<const Settlement> settlements,
                                              const CallOptions& call) {
  require_batch_size(settlements.size());
  for (const Settlement& settlement : settlements) {
    if (const auto* abandon = std::get_if<Abandon>(&settlement.verdict)) {
      require_delay("delay of an abandon", abandon->delay);
      if (abandon->limit) abandon->limit->validate();
    } else if (const auto* release = std::get_if<Release>(&settlement.verdict)) {
      require_delay("delay of a release", release->delay);
    }
  }
  if (settlements.empty()) return {};
  const CallScope scope(call);
  return do_settle(settlements);
}

SettleOutcome QueueStore::settle(const Settlement& settlement, const CallOptions& call) {
  return settle(batch_of_one(settlement), call).front();
}

std::vector<ExtendOutcome> QueueStore::extend(std::span<const LeaseExtension> extensions,
                                              const CallOptions& call) {
  require_batch_size(extensions.size());
  for (const LeaseExtension& extension : extensions) require_lease(extension.lease);
  if (extensions.empty()) return {};
  const CallScope scope(call);
  return do_extend(extensions);
}

ExtendOutcome QueueStore::extend(const LeaseExtension& extension, const CallOptions& call) {
  return extend(batch_of_one(extension), call).front();
}

ReapResult QueueStore::reap(const ReapRequest& request, const CallOptions& call) {
  require_in_range("reap limit", request.limit, 1, limits::kMaxBatchItems);
  const CallScope scope(call);
  return do_reap(request);
}

std::optional<TimePoint> QueueStore::next_due(const TopicSelection& topics,
                                              const CallOptions& call) {
  require_valid(topics);
  const CallScope scope(call);
  return do_next_due(topics);
}

void QueueStore::listen(std::weak_ptr<WorkListener> listener) { do_listen(std::move(listener)); }

void QueueStore::offer(const std::shared_ptr<ClaimOffer>& offer) {
  require_valid(offer->request());
  do_offer(offer);
}

std::vector<std::optional<MessageRecord>> QueueStore::find(std::span<const MessageKey> keys,
                                                           const CallOptions& call) {
  std::vector<Found> found = find_some(keys, {}, call);
  while (found.size() < keys.size()) {
    std::ranges::move(find_some(keys.subspan(found.size()), {}, call), std::back_inserter(found));
  }
  return found;
}

std::vector<std::optional<MessageRecord>> QueueStore::find_some(std::span<const MessageKey> keys,
                                                                const FindOptions& options,
                                                                const CallOptions& call) {
  require_batch_size(keys.size());
  require_in_range("bytes of an answer", options.max_bytes, 1, limits::kMaxClaimBytes);
  if (keys.empty()) return {};
  const CallScope scope(call);
  if (keys.size() == 1) return do_find(keys, options);
  const DistinctKeys distinct(keys);
  std::vector<Found> records = do_find(distinct.keys, options);
  if (distinct.keys.size() == keys.size()) return records;
  return distinct.spread(records, options.max_bytes);
}

std::optional<MessageRecord> QueueStore::find(const MessageKey& key, const CallOptions& call) {
  return std::move(find(batch_of_one(key), call).front());
}

}  // namespace oncebox
