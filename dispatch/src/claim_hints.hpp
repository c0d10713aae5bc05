#pragma once

#include <cstddef>

#include "oncebox/clock.hpp"

/// What workers and settlers tell the claiming thread. All calls may come from any thread, and
/// return at once.
namespace oncebox::dispatcher {

struct Origin;

/// About the buffer and the limits.
class RoomHints {
 public:
  virtual ~RoomHints() = default;

  virtual void on_admitted(Origin& origin, std::size_t bytes) noexcept = 0;
  virtual void on_payload_freed(Origin& origin, std::size_t bytes) noexcept = 0;
  /// A message has left the buffer, or was settled.
  virtual void on_room() noexcept = 0;
  /// A worker begins to wait for a message.
  virtual void on_idle() noexcept = 0;
  /// A message of a limited route has ended.
  virtual void on_limit_eased() noexcept = 0;
};

/// About one store.
class WorkHints {
 public:
  virtual ~WorkHints() = default;

  /// A message will be claimable at this time.
  virtual void on_due(TimePoint time) noexcept = 0;
  /// One may be claimable now.
  virtual void on_claimable() noexcept = 0;
};

}  // namespace oncebox::dispatcher
