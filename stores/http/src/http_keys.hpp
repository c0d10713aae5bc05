#pragma once

#include <string_view>

#include "http_client.hpp"
#include "oncebox/idempotency_store.hpp"

namespace oncebox::http {

/// The idempotency keys of the service.
///
/// A lease that was handed out without the service is known by its id: a UUID of version 8, which
/// the service never makes. Whatever process holds it, completing it later is unconditional, and
/// everything else about it is answered here.
class HttpKeys final : public IdempotencyStore {
 public:
  explicit HttpKeys(HttpClient& client) : client_(client) {}

 private:
  std::vector<BeginOutcome> do_begin(std::span<const BeginRequest> requests) override;
  std::vector<CompleteOutcome> do_complete(std::span<const CompleteRequest> requests) override;
  std::vector<FailOutcome> do_fail(std::span<const FailRequest> requests) override;
  std::vector<ReleaseOutcome> do_release(std::span<const ReleaseRequest> requests) override;
  std::vector<KeyExtendOutcome> do_extend(std::span<const KeyExtension> extensions) override;
  std::vector<std::optional<KeyRecord>> do_find(std::span<const IdempotencyKey> keys) override;
  std::size_t do_cleanup(std::size_t limit) override;

  /// What `call` answers, or `open` when the service cannot be reached and the options say so.
  template <class Call, class Open>
  auto fail_open(std::string_view name, Call call, Open open);

  /// Calls the service for those items whose lease it knows, and answers `own` for the others.
  template <class Outcome, class Item, class Call, class Own>
  std::vector<Outcome> for_known_leases(std::span<const Item> items, Call call, Own own);

  HttpClient& client_;
};

}  // namespace oncebox::http
