#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/message.hpp"
#include "oncebox/queue_types.hpp"

namespace oncebox {

/// Hears what a queue does, to count and time it. Each call has an empty body here, so that an
/// observer overrides only what it wants. Implementations are safe to call from any thread, return
/// quickly and do not throw. What they are given is valid only during the call.
class Observer {
 public:
  virtual ~Observer() = default;

  /// One message was offered to the queue.
  virtual void on_enqueue(const Message& /*message*/, const EnqueueOutcome& /*outcome*/) noexcept {}

  /// One key was observed.
  virtual void on_observe(const MessageKey& /*key*/, const ObserveOutcome& /*outcome*/) noexcept {}

  /// One message was marked or not: by `marked` as dead it went dead.
  virtual void on_mark(const Mark& /*mark*/, MarkOutcome /*outcome*/) noexcept {}

  /// A claim was answered; `messages` may be 0. `limit` is what was asked for.
  virtual void on_claim(std::size_t /*messages*/, std::size_t /*limit*/) noexcept {}

  /// One message was handed out, `waited` after it became claimable.
  virtual void on_delivery(const ClaimedMessage& /*claimed*/, Duration /*waited*/) noexcept {}

  /// One delivery was settled or not. Releases, which count no attempt, are told, too.
  virtual void on_settle(const Settlement& /*settlement*/,
                         const SettleOutcome& /*outcome*/) noexcept {}

  /// A handler begins with a message, `waited` after it became claimable.
  virtual void on_handler_start(const ClaimedMessage& /*claimed*/, Duration /*waited*/) noexcept {}

  /// A handler has ended, and this will be settled.
  virtual void on_handler_end(const ClaimedMessage& /*claimed*/, const Verdict& /*verdict*/,
                              std::chrono::nanoseconds /*took*/) noexcept {}

  /// A dispatcher has put a message among the dead, durably. Its payload and headers are whole.
  virtual void on_dead(const ClaimedMessage& /*claimed*/, std::string_view /*error*/) noexcept {}

  /// A dispatcher's lease of a message that it holds was lost: somebody else may have it.
  virtual void on_lease_lost(const MessageKey& /*key*/) noexcept {}

  /// An operator cancelled a message, and it went dead.
  virtual void on_cancel(const MessageKey& /*key*/) noexcept {}

  /// Leases were reaped and messages buried, by a reap or by a claim.
  virtual void on_reap(const ReapResult& /*result*/) noexcept {}

  /// A call of the store took this long, and failed or not. `call` is the name of the method.
  virtual void on_store_call(std::string_view /*call*/, std::size_t /*items*/,
                             std::chrono::nanoseconds /*took*/, bool /*failed*/) noexcept {}
};

/// The observer of the inbox of a store, by the store's name; it must outlive the object that asks
/// for it.
using ObserverOfStore = std::function<Observer&(const std::string& store)>;

}  // namespace oncebox
