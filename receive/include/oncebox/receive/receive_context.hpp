#pragma once

#include <atomic>
#include <stop_token>
#include <string_view>
#include <utility>

namespace oncebox {

/// What a handler behind a key can ask while it runs. Valid only during the call; safe to ask from
/// any thread.
class ReceiveContext {
 public:
  /// All are borrowed. A test of a handler makes its own: `ReceiveContext("key")`.
  explicit ReceiveContext(std::string_view key, int attempt = 1, std::stop_token stop = {},
                          const std::atomic<bool>* lease_lost = nullptr)
      : key_(key), attempt_(attempt), stop_(std::move(stop)), lease_lost_(lease_lost) {}

  /// As the store knows it; empty for a message without one.
  [[nodiscard]] std::string_view key() const noexcept { return key_; }
  /// How often the key was begun, this time included. More than 1: an earlier handler failed, or
  /// died and may have done half of its work.
  [[nodiscard]] int attempt() const noexcept { return attempt_; }

  /// Requested when the caller's own is, and when the lease was lost. A handler that heeds it
  /// throws: the key is then released, not marked as failed.
  [[nodiscard]] const std::stop_token& stop_token() const noexcept { return stop_; }

  /// Somebody else may be at work under this key now. Leases are extended while a handler runs, so
  /// this takes an unreachable store or a stalled process.
  [[nodiscard]] bool lease_lost() const noexcept {
    return lease_lost_ != nullptr && lease_lost_->load(std::memory_order_relaxed);
  }

 private:
  std::string_view key_;
  int attempt_;
  std::stop_token stop_;
  const std::atomic<bool>* lease_lost_;
};

}  // namespace oncebox
