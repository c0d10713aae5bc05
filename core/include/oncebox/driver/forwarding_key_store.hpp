#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "oncebox/idempotency_store.hpp"

namespace oncebox {

/// Keys that do what others do, for those who change a part of it: override a call, or `forward`
/// for all of them.
class ForwardingKeyStore : public IdempotencyStore {
 public:
  /// Borrows the other one, which must outlive this.
  explicit ForwardingKeyStore(IdempotencyStore& below) : below_(below) {}

 protected:
  [[nodiscard]] IdempotencyStore& below() const noexcept { return below_; }

  /// Makes a call of the store below, of this name ("begin", "complete" …). May throw instead, or
  /// afterwards.
  virtual void forward(std::string_view /*name*/, const std::function<void()>& call) { call(); }

  std::vector<BeginOutcome> do_begin(std::span<const BeginRequest> requests) override {
    return answer("begin", [&] { return below_.begin(requests); });
  }
  std::optional<BeginStatus> do_recognise(std::string_view key,
                                          FailedKeyPolicy on_failed) override {
    return answer("recognise", [&] { return below_.recognise(key, on_failed); });
  }
  std::vector<CompleteOutcome> do_complete(std::span<const CompleteRequest> requests) override {
    return answer("complete", [&] { return below_.complete(requests); });
  }
  std::vector<FailOutcome> do_fail(std::span<const FailRequest> requests) override {
    return answer("fail", [&] { return below_.fail(requests); });
  }
  std::vector<ReleaseOutcome> do_release(std::span<const ReleaseRequest> requests) override {
    return answer("release", [&] { return below_.release(requests); });
  }
  std::vector<KeyExtendOutcome> do_extend(std::span<const KeyExtension> extensions) override {
    return answer("extend", [&] { return below_.extend(extensions); });
  }
  std::vector<std::optional<KeyRecord>> do_find(std::span<const IdempotencyKey> keys) override {
    return answer("find", [&] { return below_.find(keys); });
  }
  std::size_t do_cleanup(std::size_t limit) override {
    return answer("cleanup", [&] { return below_.cleanup(limit); });
  }

 private:
  template <class Call>
  std::invoke_result_t<Call> answer(std::string_view name, Call call) {
    std::optional<std::invoke_result_t<Call>> result;
    forward(name, [&] { result.emplace(call()); });
    return std::move(*result);
  }

  IdempotencyStore& below_;
};

}  // namespace oncebox
