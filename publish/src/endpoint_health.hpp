#pragma once

#include <deque>
#include <exception>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

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

  /// Throws `NotNow` while the receiver wants nothing.
  void require_ready(std::string_view store, const EndpointName& endpoint);

  /// Returns when everything that it was told is noted; from then on nothing has an effect.
  void close() noexcept;

 private:
  struct Note {
    std::string store;
    EndpointName endpoint;
    EndpointEvent event;
  };
  using Place = std::pair<std::string, std::string>;  // store and endpoint

  void hold(std::string_view store, const EndpointName& endpoint, Duration delay)
      ONCEBOX_REQUIRES(mutex_);
  void add_failure(std::string_view store, const EndpointRecord& known) ONCEBOX_REQUIRES(mutex_);
  void add(std::string_view store, const EndpointName& endpoint, EndpointEvent event)
      ONCEBOX_REQUIRES(mutex_);
  void run();
  void write(const Note& note) const noexcept;
  void announce(const Note& note, const EndpointStatus& status) const;

  const PublishingParts& parts_;

  detail::Mutex mutex_;
  detail::Condition changed_;
  std::deque<Note> notes_ ONCEBOX_GUARDED_BY(mutex_);
  /// Of which it was noted here that they fail, and not since that they work: what is known of one
  /// may be older.
  std::set<Place> failing_ ONCEBOX_GUARDED_BY(mutex_);
  std::map<Place, TimePoint> holds_ ONCEBOX_GUARDED_BY(mutex_);  // until when
  bool is_closed_ ONCEBOX_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last: it uses the members above
};

}  // namespace oncebox::publish
