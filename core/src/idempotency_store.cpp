#include "oncebox/idempotency_store.hpp"

#include <fmt/format.h>

#include "oncebox/driver/call_scope.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "valid_calls.hpp"

namespace oncebox {

namespace {

void require_key_lease(Duration lease) {
  require_in_range("lease of a key", lease, limits::kMinKeyLease, limits::kMaxKeyLease);
}

void require_retention(Duration retention) {
  require_in_range("retention of a key", retention, Duration{1}, limits::kMaxRetention);
}

}  // namespace

std::string_view to_string(KeyStatus status) noexcept {
  switch (status) {
    case KeyStatus::in_progress:
      return "in_progress";
    case KeyStatus::released:
      return "released";
    case KeyStatus::failed:
      return "failed";
    case KeyStatus::processed:
      return "processed";
  }
  return "unknown";
}

std::string_view to_string(BeginStatus status) noexcept {
  switch (status) {
    case BeginStatus::acquired:
      return "acquired";
    case BeginStatus::processed:
      return "processed";
    case BeginStatus::busy:
      return "busy";
    case BeginStatus::failed:
      return "failed";
  }
  return "unknown";
}

std::vector<BeginOutcome> IdempotencyStore::begin(std::span<const BeginRequest> requests,
                                                  const CallOptions& call) {
  require_batch_size(requests.size());
  for (const BeginRequest& request : requests) {
    require_key_lease(request.lease);
    if (request.retention) require_retention(*request.retention);
    if (!request.owner.empty()) {
      detail::require_name(request.owner, "owner", kMaxNameCodePoints);
    }
  }
  if (requests.empty()) return {};
  const CallScope scope(call);
  return do_begin(requests);
}

BeginOutcome IdempotencyStore::begin(const BeginRequest& request, const CallOptions& call) {
  return std::move(begin(batch_of_one(request), call).front());
}

std::vector<CompleteOutcome> IdempotencyStore::complete(std::span<const CompleteRequest> requests,
                                                        const CallOptions& call) {
  require_batch_size(requests.size());
  for (const CompleteRequest& request : requests) {
    if (request.retention) require_retention(*request.retention);
    if (request.result && request.result->size() > limits::kMaxResultBytes) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the result has {} bytes; at most {} are stored",
                              request.result->size(), limits::kMaxResultBytes));
    }
  }
  if (requests.empty()) return {};
  const CallScope scope(call);
  return do_complete(requests);
}

CompleteOutcome IdempotencyStore::complete(const CompleteRequest& request,
                                           const CallOptions& call) {
  return complete(batch_of_one(request), call).front();
}

std::vector<FailOutcome> IdempotencyStore::fail(std::span<const FailRequest> requests,
                                                const CallOptions& call) {
  require_batch_size(requests.size());
  if (requests.empty()) return {};
  const CallScope scope(call);
  return do_fail(requests);
}

FailOutcome IdempotencyStore::fail(const FailRequest& request, const CallOptions& call) {
  return fail(batch_of_one(request), call).front();
}

std::vector<ReleaseOutcome> IdempotencyStore::release(std::span<const ReleaseRequest> requests,
                                                      const CallOptions& call) {
  require_batch_size(requests.size());
  if (requests.empty()) return {};
  const CallScope scope(call);
  return do_release(requests);
}

ReleaseOutcome IdempotencyStore::release(const ReleaseRequest& request, const CallOptions& call) {
  return release(batch_of_one(request), call).front();
}

std::vector<KeyExtendOutcome> IdempotencyStore::extend(std::span<const KeyExtension> extensions,
                                                       const CallOptions& call) {
  require_batch_size(extensions.size());
  for (const KeyExtension& extension : extensions) require_key_lease(extension.lease);
  if (extensions.empty()) return {};
  const CallScope scope(call);
  return do_extend(extensions);
}

KeyExtendOutcome IdempotencyStore::extend(const KeyExtension& extension, const CallOptions& call) {
  return extend(batch_of_one(extension), call).front();
}

std::vector<std::optional<KeyRecord>> IdempotencyStore::find(std::span<const IdempotencyKey> keys,
                                                             const CallOptions& call) {
  require_batch_size(keys.size());
  if (keys.empty()) return {};
  const CallScope scope(call);
  return do_find(keys);
}

std::optional<KeyRecord> IdempotencyStore::find(const IdempotencyKey& key,
                                                const CallOptions& call) {
  return std::move(find(batch_of_one(key), call).front());
}

std::size_t IdempotencyStore::cleanup(std::size_t limit, const CallOptions& call) {
  require_in_range("cleanup limit", limit, 1, limits::kMaxBatchItems);
  const CallScope scope(call);
  return do_cleanup(limit);
}

bool IdempotencyStore::is_processed(const IdempotencyKey& key, const CallOptions& call) {
  const std::optional<KeyRecord> record = find(key, call);
  return record && record->status == KeyStatus::processed;
}

void IdempotencyStore::mark_processed(const IdempotencyKey& key, const CallOptions& call) {
  complete({.key = key}, call);
}

}  // namespace oncebox
