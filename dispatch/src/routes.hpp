#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/dispatch/handler_hooks.hpp"
#include "oncebox/dispatch/handlers.hpp"
#include "oncebox/dispatch/no_handler_policy.hpp"
#include "oncebox/topic_pattern.hpp"
#include "token_bucket.hpp"

namespace oncebox::dispatcher {

/// For a store without transactions: throws `unsupported` when a handler wants one. Better at the
/// start than with the first message.
void refuse_transactional(const Handlers& handlers);

/// A handler that is one also of this publishes: its spans say so, and its `RetryAfter` makes no
/// delay shorter.
class PublishesMessages {
 protected:
  PublishesMessages() = default;
  virtual ~PublishesMessages() = default;
};

/// A topic pattern with its handler and what its limits leave free. A message takes its place when
/// it is claimed, so that whatever is claimed can also be run. Safe from any thread.
class Route {
 public:
  /// `registration` is one of `handlers`, whose middleware is around it.
  Route(const Handlers::Registration& registration, const Handlers& handlers, TimePoint now);

  [[nodiscard]] const TopicPattern& pattern() const noexcept { return registration_.pattern; }
  /// All of them but one are null.
  [[nodiscard]] Handler* handler() const noexcept { return registration_.handler.get(); }
  [[nodiscard]] TransactionalHandler* transactional_handler() const noexcept {
    return registration_.transactional.get();
  }
  [[nodiscard]] BatchHandler* batch_handler() const noexcept { return registration_.batch.get(); }
  [[nodiscard]] AsyncHandler* async_handler() const noexcept { return registration_.async.get(); }
  /// To run around the handler that holds no thread.
  [[nodiscard]] std::span<const AsyncMiddleware> around_async() const noexcept {
    return around_async_;
  }
  [[nodiscard]] bool publishes() const noexcept { return publishes_; }
  /// Messages in one call of a handler.
  [[nodiscard]] std::size_t max_batch() const noexcept { return registration_.max_batch; }
  [[nodiscard]] bool is_limited() const noexcept { return limited_; }

  /// How many more messages may be claimed now. When there are none, the next `end` tells.
  [[nodiscard]] std::size_t room(TimePoint now);
  /// When there is room again, if that is a matter of time; otherwise `kMaxTime`.
  [[nodiscard]] TimePoint room_at(TimePoint now);

  /// A message of this route was claimed; its handler starts; it ended; or it never started. The
  /// last three answer whether a claim found no room before and should be tried again.
  void admit(TimePoint now);
  bool begin(TimePoint now);
  bool end() noexcept;
  bool give_back(TimePoint now);

 private:
  Handlers::Registration registration_;
  std::vector<AsyncMiddleware> around_async_;
  bool publishes_;
  bool limited_;
  std::atomic<std::size_t> held_ = 0;  // counted for limited routes only
  std::atomic<bool> room_is_wanted_ = false;
  std::unique_ptr<TokenBucket> bucket_;
};

/// One claim to make.
struct ClaimPlan {
  TopicSelection topics;
  std::size_t limit = 0;
  std::vector<Route*> limited = {};  ///< whose limits bound it

  /// Takes the room of the whole plan, so that claims that are made at the same time keep the
  /// limits together; and gives it back, when what was claimed has taken its own.
  void reserve(TimePoint now) const;
  /// Answers whether another claim found no room meanwhile and should be tried again.
  bool unreserve(TimePoint now) const;
};

struct ClaimPlans {
  /// Topics without limits; and those with limits that have room, for which one claim takes no more
  /// than the tightest of them allows. So there are two claims at most, however many routes.
  std::optional<ClaimPlan> unlimited;
  std::optional<ClaimPlan> limited;
  bool lacks_room = false;  ///< for some topics, because of their limits
  /// When a limit that has no room now will have some.
  TimePoint room_at = kMaxTime;
};

/// All routes, which of them rest, and what to claim for them. Safe from any thread.
class Routes {
 public:
  Routes(const Handlers& handlers, NoHandlerPolicy no_handler, TimePoint now);

  /// Null when nobody handles this topic.
  [[nodiscard]] Route* find(std::string_view topic) noexcept;

  void pause();
  void resume();
  void pause(const TopicPattern& pattern);
  void resume(const TopicPattern& pattern);
  [[nodiscard]] bool is_paused(std::string_view topic) const;
  [[nodiscard]] bool any_paused() const noexcept { return any_paused_.load(); }

  /// What may be claimed now, up to `limit` messages in each.
  [[nodiscard]] ClaimPlans plan(std::size_t limit, TimePoint now);

 private:
  [[nodiscard]] bool rests(const TopicPattern& pattern) const ONCEBOX_REQUIRES(mutex_);
  void pauses_changed() ONCEBOX_REQUIRES(mutex_);

  std::vector<std::unique_ptr<Route>> routes_;
  std::unordered_map<std::string_view, Route*> exact_;  // the names are those of the routes
  std::vector<Route*> stems_;                           // the longest first
  bool claims_unhandled_;

  mutable detail::Mutex mutex_;
  bool all_paused_ ONCEBOX_GUARDED_BY(mutex_) = false;
  std::vector<TopicPattern> paused_ ONCEBOX_GUARDED_BY(mutex_);
  std::atomic<bool> any_paused_ = false;  // written under the lock
};

}  // namespace oncebox::dispatcher
