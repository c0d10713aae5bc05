#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace oncebox::dispatcher {

struct InFlight;

/// The messages that were claimed and wait for a worker. The caller of `push` has seen to it that
/// there is room. Safe from any thread.
class ReadyMessages {
 public:
  virtual ~ReadyMessages() = default;

  [[nodiscard]] virtual std::size_t size() const noexcept = 0;

  /// Puts these in and wakes as many workers as can use them. False, and nothing happened, once it
  /// is closed, or when there is no memory for them.
  virtual bool push(std::span<InFlight* const> messages) = 0;

  /// Null when it is empty.
  virtual InFlight* try_pop() noexcept = 0;
  /// Waits while it is empty, after it has called `on_wait`; null once it is closed.
  virtual InFlight* pop(const std::function<void()>& on_wait) = 0;

  /// Takes out those that are `chosen`. The others keep their order.
  virtual std::vector<InFlight*> extract(const std::function<bool(const InFlight&)>& chosen) = 0;

  /// Takes everything out and wakes every worker. Nothing can be put in any more.
  virtual std::vector<InFlight*> close() noexcept = 0;
};

}  // namespace oncebox::dispatcher
