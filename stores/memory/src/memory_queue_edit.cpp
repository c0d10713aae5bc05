#include <unordered_set>
#include <utility>

#include "memory_queue.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::memory {

std::size_t bytes_of(const ReplacedContent& replaced) noexcept {
  return bytes_of(*replaced.content) + replaced.replaced_by.size() + replaced.reason.size();
}

/// Everything that an edit allocates, so that making it cannot fail.
struct MemoryQueue::PreparedEdit {
  std::unique_ptr<const Content> content;
  ContentHash hash;
  ReplacedContent replaced;  // without its content, which the row still has
};

void MemoryQueue::require_payload_size(const Payload& payload) const {
  oncebox::require_payload_size(payload.size(), options_.max_payload_bytes);
}

MemoryQueue::PreparedEdit MemoryQueue::prepare(Row& row, const Payload& payload,
                                               const ReviveOptions& options, TimePoint now) {
  if (row.replaced == nullptr) row.replaced = std::make_unique<std::vector<ReplacedContent>>();
  PastContentTotals kept{.contents = row.replaced->size()};
  for (const ReplacedContent& replaced : *row.replaced) {
    kept.bytes += replaced.content->payload.size();
  }
  require_room_for_past_content(kept, row.content->payload.size());
  row.replaced->reserve(row.replaced->size() + 1);
  return {.content = std::make_unique<const Content>(
              Content{row.content->topic, payload, row.content->headers}),
          .hash = ContentHash::sha256_of(payload),
          .replaced = {.content_version = row.state.history.content_version,
                       .content = nullptr,
                       .hash = row.state.hash,
                       .replaced_at = now,
                       .replaced_by = clip_text(options.actor, limits::kMaxActorBytes),
                       .reason = clip_text(options.reason, limits::kMaxReasonBytes)}};
}

void MemoryQueue::replace_content(Row& row, PreparedEdit edit) noexcept {
  edit.replaced.content = std::exchange(row.content, std::move(edit.content));
  rows_.bytes +=
      bytes_of(*row.content) + bytes_of(edit.replaced) - bytes_of(*edit.replaced.content);
  row.replaced->push_back(std::move(edit.replaced));
  take_edit(row.state, std::move(edit.hash));
}

std::vector<ReviveOutcome> MemoryQueue::do_revive_edited(std::span<const EditedMessage> edits,
                                                         const ReviveOptions& options) {
  for (const EditedMessage& edit : edits) require_payload_size(edit.payload);
  std::vector<ReviveOutcome> outcomes;
  outcomes.reserve(edits.size());
  std::vector<Row*> rows;
  std::vector<PreparedEdit> prepared;
  std::unordered_set<const Row*> named;
  {
    const detail::Lock lock(mutex_);
    const TimePoint now = read_clock();
    std::size_t new_bytes = 0;
    for (const EditedMessage& edit : edits) {
      Row* const row = rows_.index.find(edit.key);
      if (row == nullptr) {
        outcomes.push_back(ReviveOutcome::unknown);
      } else if (row->state.status != Status::dead || named.contains(row)) {
        outcomes.push_back(ReviveOutcome::not_dead);
      } else if (row->content == nullptr) {
        outcomes.push_back(ReviveOutcome::no_content);
      } else {
        prepared.push_back(prepare(*row, edit.payload, options, now));
        const PreparedEdit& last = prepared.back();
        new_bytes += bytes_of(*last.content) + last.replaced.replaced_by.size() +
                     last.replaced.reason.size();
        rows.push_back(row);
        named.insert(row);
        outcomes.push_back(ReviveOutcome::revived);
      }
    }
    rows_.require_room(0, new_bytes);
    revive_rows(rows, options, now);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      replace_content(*rows[i], std::move(prepared[i]));
    }
  }
  listeners_.notify();
  return outcomes;
}

std::vector<PastContent> MemoryQueue::do_past_contents(const MessageKey& key) {
  const detail::Lock lock(mutex_);
  std::vector<PastContent> past;
  const Row* const row = rows_.index.find(key);
  if (row == nullptr || row->replaced == nullptr) return past;
  for (const ReplacedContent& replaced : *row->replaced) {
    past.push_back({.content_version = replaced.content_version,
                    .payload = replaced.content->payload,
                    .hash = replaced.hash,
                    .replaced_at = replaced.replaced_at,
                    .replaced_by = replaced.replaced_by,
                    .reason = replaced.reason});
  }
  return past;
}

}  // namespace oncebox::memory
