#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/error.hpp"
#include "oncebox/idempotency_store.hpp"
#include "oncebox/log.hpp"
#include "oncebox/receive/receive_context.hpp"
#include "oncebox/receive/receiver_options.hpp"

/// The part of a receiver that does not depend on what is received.
namespace oncebox::detail {

/// The key under which a selected one is stored: prefix, scope, key. Without a scope a slash at its
/// beginning is doubled, so that it is never one with a scope, which begins with a single slash.
/// Throws `invalid_argument` for a text that is no key.
[[nodiscard]] std::string stored_key(std::string_view prefix, std::string_view scope,
                                     std::string_view key);
/// Prefix and name; what is too long for a key is the prefix and "/sha256/" with the digest of the
/// name instead.
[[nodiscard]] std::string stored_key(std::string_view prefix, std::string_view name);

/// Why a message has to come again when the store of its key fails with this.
[[nodiscard]] std::string keys_away_text(const Error& error);

/// Lets one caller at a time work under a key, and keeps the leases of the keys that are held: one
/// thread for all of them, which runs only while there are any. Everything is safe from any thread.
class KeyGate {
 public:
  /// The store is borrowed; so are logger and clock, where null means none and the machine's.
  /// Throws as `ReceiverOptions::validate` does.
  KeyGate(IdempotencyStore& keys, const ReceiverOptions& options, Logger* logger,
          const Clock* clock);
  ~KeyGate();
  KeyGate(const KeyGate&) = delete;
  KeyGate& operator=(const KeyGate&) = delete;

  /// Begins the key; waits while it is busy, if the options say so.
  [[nodiscard]] BeginOutcome enter(const IdempotencyKey& key, const std::string& owner,
                                   const std::stop_token& stop);

  /// Looks at the clock now: for leases, and for callers that wait.
  void wake();

  /// Logs that a stored result cannot be replayed.
  void warn_of_stored_result(const IdempotencyKey& key) noexcept;

 private:
  friend class HeldKey;
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

/// A key that was acquired. Its lease is extended for as long as this object lives; one of the
/// verdicts ends the work.
class HeldKey {
 public:
  /// `caller` is the stop token of the receiver's caller. The gate is borrowed.
  HeldKey(KeyGate& gate, const IdempotencyKey& key, const BeginOutcome& begun,
          const std::stop_token& caller);
  ~HeldKey();
  HeldKey(const HeldKey&) = delete;
  HeldKey& operator=(const HeldKey&) = delete;

  [[nodiscard]] ReceiveContext& context() noexcept;

  /// False: another caller has begun the key meanwhile. A result that is too large is left out, and
  /// logged. Throws `UnrecordedSuccess` when the store does not take it.
  bool complete(std::optional<std::string> result);
  /// Marks the key as failed with the exception that is being handled, or releases it when that is
  /// the answer to a stop token.
  void fail_with_current_exception() noexcept;
  void release() noexcept;
  /// Logs that a result cannot be stored.
  void warn_of_result() noexcept;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::detail
