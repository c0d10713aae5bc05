#include "oncebox/queue_types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "oncebox/error.hpp"

namespace oncebox {

std::string_view to_string(EnqueueStatus status) noexcept {
  switch (status) {
    case EnqueueStatus::accepted:
      return "accepted";
    case EnqueueStatus::duplicate:
      return "duplicate";
    case EnqueueStatus::updated:
      return "updated";
    case EnqueueStatus::superseding:
      return "superseding";
    case EnqueueStatus::duplicate_done:
      return "duplicate_done";
    case EnqueueStatus::duplicate_dead:
      return "duplicate_dead";
    case EnqueueStatus::revived:
      return "revived";
    case EnqueueStatus::rejected:
      return "rejected";
    case EnqueueStatus::quarantined:
      return "quarantined";
  }
  return "unknown";
}

bool brings_work(const EnqueueOutcome& outcome) noexcept {
  switch (outcome.status) {
    case EnqueueStatus::accepted:
    case EnqueueStatus::duplicate:
    case EnqueueStatus::updated:
    case EnqueueStatus::superseding:
    case EnqueueStatus::revived:
      return true;
    case EnqueueStatus::duplicate_done:
    case EnqueueStatus::duplicate_dead:
    case EnqueueStatus::rejected:
    case EnqueueStatus::quarantined:
      return false;
  }
  return false;
}

std::size_t bytes_of(const MessageRecord& record) noexcept {
  std::size_t bytes = 0;
  if (record.message) bytes += bytes_of(*record.message);
  for (const Attempt& attempt : record.attempts) {
    bytes += sizeof(Attempt) + attempt.error.size() + attempt.error_kind.size();
  }
  return bytes;
}

std::string_view to_string(ObservedState state) noexcept {
  switch (state) {
    case ObservedState::unseen:
      return "unseen";
    case ObservedState::seen:
      return "seen";
    case ObservedState::waiting:
      return "waiting";
    case ObservedState::ready:
      return "ready";
    case ObservedState::leased:
      return "leased";
    case ObservedState::done:
      return "done";
    case ObservedState::dead:
      return "dead";
  }
  return "unknown";
}

std::string_view to_string(MarkOutcome outcome) noexcept {
  switch (outcome) {
    case MarkOutcome::marked:
      return "marked";
    case MarkOutcome::already:
      return "already";
    case MarkOutcome::unknown:
      return "unknown";
    case MarkOutcome::refused:
      return "refused";
  }
  return "unknown";
}

std::string_view to_string(SettleStatus status) noexcept {
  switch (status) {
    case SettleStatus::settled:
      return "settled";
    case SettleStatus::superseded:
      return "superseded";
    case SettleStatus::lease_lost:
      return "lease_lost";
  }
  return "unknown";
}

void ReapResult::add(Death death) {
  if (deaths.size() < kMaxDeaths) deaths.push_back(std::move(death));
  ++buried;
}

void ReapResult::add(ReapResult more) {
  const std::size_t told = std::min(kMaxDeaths - deaths.size(), more.deaths.size());
  deaths.reserve(deaths.size() + told);  // what fails for lack of memory changes nothing
  const auto end = more.deaths.begin() + static_cast<std::ptrdiff_t>(told);
  std::move(more.deaths.begin(), end, std::back_inserter(deaths));
  released += more.released;
  buried += more.buried;
}

WorkerName worker_of(const ClaimRequest& request) {
  return request.worker ? *request.worker : this_process();
}

std::string_view to_string(PolicyOrigin origin) noexcept {
  switch (origin) {
    case PolicyOrigin::worker:
      return "worker";
    case PolicyOrigin::topic:
      return "topic";
    case PolicyOrigin::queue:
      return "queue";
  }
  return "";
}

std::string_view to_string(SettledDeath death) noexcept {
  switch (death) {
    case SettledDeath::failed:
      return "failed";
    case SettledDeath::attempts:
      return "attempts";
  }
  return "unknown";
}

MessageId quarantine_id(const MessageKey& key, const ContentHash& hash) {
  // Lengths in front keep ("ab", "c") and ("a", "bc") apart.
  const std::string text = fmt::format("{}:{}{}:{}{}:{}", key.source.str().size(), key.source.str(),
                                       key.message_id.str().size(), key.message_id.str(),
                                       hash.algorithm(), hash.digest());
  constexpr std::size_t kDigits = 32;
  return MessageId("quarantine:" + to_hex(sha256(text)).substr(0, kDigits));
}

Message quarantined_copy(const Message& original) {
  if (!original.hash) {
    throw Error(ErrorCode::internal, "a message without a hash cannot be quarantined");
  }
  Message copy = original;
  copy.key.message_id = quarantine_id(original.key, *original.hash);
  // A message may come with as many headers as are allowed; where it came from matters more than
  // one of them, so the last gives way.
  if (copy.headers.size() == Headers::kMaxEntries &&
      !copy.headers.get(header_names::kQuarantinedFrom)) {
    copy.headers.erase(std::prev(copy.headers.end())->first);
  }
  copy.headers.set(header_names::kQuarantinedFrom, original.key.message_id.str());
  return copy;
}

}  // namespace oncebox
