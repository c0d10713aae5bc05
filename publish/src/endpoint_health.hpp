#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "oncebox/call_options.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/endpoint_store.hpp"
#include "publishing_store.hpp"

namespace oncebox::publish {

/// Notes in the stores how endpoints work, on a thread of its own, because those who tell it are
/// the threads of clients, which must not wait for a store. Knows also which receivers have asked
/// this process for time. Safe from any thread.
class EndpointHealth {
 public:
  /// Borrowed until `close` has returned.
  explicit EndpointHealth(const PublishingParts& parts);
  ~EndpointHealth() { close(); }
  EndpointHealth(const EndpointHealth&) = delete;
  EndpointHealth& operator=(const EndpointHealth&) = delete;

  /// An endpoint has accepted a delivery, or failed by this; `known` is what was known of it when
  /// the delivery began. Where there is no memory, the next delivery tells the same.
  void on_worked(std::string_view store, const EndpointRecord& known) noexcept;
  void on_failed(std::string_view store, const EndpointRecord& known,
                 const std::exception_ptr& failure) noexcept;

  /// Counts what this process has noted in stores. Who takes it before a look at the endpoints of
  /// a store sees all that was noted until then.
  using Moment = std::uint64_t;
  [[nodiscard]] Moment now() const noexcept { return noted_.load(); }

  /// Throws `NotNow` while the receiver wants nothing, unless the endpoint was changed or enabled
  /// since it said so. `known` is what a look that began at that moment, or later, has found.
  void require_ready(std::string_view store, const EndpointRecord& known, Moment looked_at);

  /// Returns when everything that it was told is noted, or some seconds later: what is left by then
  /// is dropped, so that no store that hangs keeps the process from its end. From then on nothing
  /// has an effect.
  void close() noexcept;

 private:
  struct Note {
    std::string store;
    EndpointName endpoint;
    EndpointEvent event;
  };
  using Place = std::pair<std::string, std::string>;  // store and endpoint
  /// A receiver has asked for time.
  struct Hold {
    TimePoint until{};
    Endpoint endpoint;  ///< as it was then
    /// From when on its status tells that it fails, until somebody enables it; nothing: not yet, or
    /// not any more, because it has worked.
    std::optional<Moment> fails_since = {};
  };

  [[nodiscard]] static bool is_of(const Note& note, std::string_view store,
                                  const EndpointName& endpoint);
  void hold(std::string_view store, const EndpointRecord& known, Duration delay)
      ONCEBOX_REQUIRES(mutex_);
  [[nodiscard]] Hold* hold_of(const Place& place) ONCEBOX_REQUIRES(mutex_);
  void add_failure(std::string_view store, const EndpointRecord& known) ONCEBOX_REQUIRES(mutex_);
  void add(std::string_view store, const EndpointName& endpoint, EndpointEvent event)
      ONCEBOX_REQUIRES(mutex_);
  void run();
  [[nodiscard]] std::optional<Note> next_note() ONCEBOX_EXCLUDES(mutex_);
  void write(const Note& note) noexcept;
  void on_written(const Note& note) ONCEBOX_EXCLUDES(mutex_);
  void announce(const Note& note, const EndpointStatus& status) const;

  const PublishingParts& parts_;
  std::stop_source ends_;  ///< calls of stores, also the one under way
  const CallOptions limits_{.stop = ends_.get_token()};
  std::atomic<Moment> noted_ = 0;

  detail::Mutex mutex_;
  detail::Condition changed_;
  detail::TimedCondition finished_;
  std::deque<Note> notes_ ONCEBOX_GUARDED_BY(mutex_);
  /// Those that have failed here, and not worked since: what is known of one may be older.
  std::set<Place> failing_ ONCEBOX_GUARDED_BY(mutex_);
  std::map<Place, Hold> holds_ ONCEBOX_GUARDED_BY(mutex_);
  bool is_closed_ ONCEBOX_GUARDED_BY(mutex_) = false;
  bool is_finished_ ONCEBOX_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last: it uses the members above
};

}  // namespace oncebox::publish
