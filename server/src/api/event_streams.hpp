#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "api/api_json.hpp"
#include "api/fair_places.hpp"
#include "api/served_stores.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"

namespace oncebox::server {

/// `GET /v1/events`: tells the clients that listen how full the queues are, every second, and at
/// once that a queue may have something to claim. A thread of its own, the sampler, also counts the
/// queues for the metrics, more rarely while no client listens. Stores in use are counted in every
/// round, the others by turns, so that a thousand unused stores cost next to nothing. Each store is
/// counted in its own lane, a few stores at the same time. A store that does not answer within a
/// second holds up nobody; its figures are told in the round in which it answers. Safe from any
/// thread.
class EventStreams {
 public:
  /// Both are borrowed until `stop` has returned.
  EventStreams(ServedStores& stores, const ApiParts& parts);
  ~EventStreams();
  EventStreams(const EventStreams&) = delete;
  EventStreams& operator=(const EventStreams&) = delete;

  void start();

  /// A store has come: while a client listens, the store is watched for work.
  void on_opened(const ServedStorePtr& store);

  /// Begins a stream. Throws `overloaded` when there are too many, or the caller has its share, and
  /// `unavailable` when draining.
  void add(const ExchangePtr& exchange);

  /// Ends the streams of callers whose token is not what it was.
  void check_tokens();

  /// Ends all streams and begins none any more.
  void drain() noexcept;
  /// The same, and nothing is sampled any more.
  void stop();

 private:
  class WorkWatch;
  using StreamPtr = std::shared_ptr<ResponseStream>;
  struct Listener {
    ExchangePtr exchange;
    StreamPtr stream;
    FairPlaces::Place place;
  };

  void broadcast(const std::string& text);
  /// What a store answered.
  struct Answer {
    std::weak_ptr<ServedStore> store;  ///< the answer does not keep the store open
    std::string name;
    std::uint64_t round = 0;  ///< in which it was asked
    Health health;
    std::vector<QueueSample> samples;
    Duration took{};
  };

  void sample_until_stopped(const std::stop_token& stop);
  /// Lets the sampler see that it is to stop.
  void wake_sampler() noexcept;
  /// Until then, or until the first client listens.
  void rest(const std::stop_token& stop, SteadyTime watched, SteadyTime unwatched);
  /// One round; answers how long counting took, of all stores together.
  Duration sample(const std::stop_token& stop);
  /// Which stores to count next, in this order.
  [[nodiscard]] std::vector<ServedStorePtr> choose(const std::vector<ServedStorePtr>& stores);
  [[nodiscard]] bool is_asked(const ServedStorePtr& store) const;
  /// Asks them, a few at the same time, until all are asked and have answered, or it is time.
  void ask(const std::stop_token& stop, SteadyTime until);
  /// Until no more than so many are asked and have not answered; false when that takes too long.
  [[nodiscard]] bool wait_for_answers(const std::stop_token& stop, SteadyTime until,
                                      std::size_t left) ONCEBOX_REQUIRES(answers_mutex_);
  void count(const ServedStorePtr& store, std::list<Answer> answer) noexcept;
  /// Fills the answer in.
  void count(ServedStore& store, Answer& answer);
  /// Takes note of the answers so far; returns how long the stores took to count.
  Duration take_answers(std::vector<QueueSample>& samples);
  void give_up_waiting();
  void note_health(const std::string& name, const Health& health);
  void show_health(const std::vector<ServedStorePtr>& stores);
  /// Begins to tell of its work, in the lane of the store.
  void watch(const ServedStorePtr& store);
  void begin_to_watch(const ServedStorePtr& store) noexcept;
  [[nodiscard]] std::shared_ptr<WorkWatch> new_watch(const ServedQueue& queue);

  ServedStores& stores_;
  const ApiParts& parts_;
  FairPlaces places_{parts_.options.limits.max_event_streams};

  detail::Mutex mutex_;
  detail::TimedCondition somebody_listens_{parts_.clock};
  std::vector<Listener> streams_ ONCEBOX_GUARDED_BY(mutex_);
  /// An event; empty when nobody listened while it was taken.
  std::string last_sample_ ONCEBOX_GUARDED_BY(mutex_);
  bool draining_ ONCEBOX_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<WorkWatch>> watches_ ONCEBOX_GUARDED_BY(mutex_);
  std::atomic<std::size_t> listeners_ = 0;  ///< changes under the lock

  // From the calls that count the stores to the sampler.
  detail::Mutex answers_mutex_;
  detail::TimedCondition answered_{parts_.clock};
  std::list<Answer> answers_ ONCEBOX_GUARDED_BY(answers_mutex_);
  std::uint64_t round_ ONCEBOX_GUARDED_BY(answers_mutex_) = 0;
  /// Asked in this round, and not answered yet.
  std::size_t under_way_ ONCEBOX_GUARDED_BY(answers_mutex_) = 0;

  // Only the sampler uses these.
  std::deque<std::weak_ptr<ServedStore>> to_ask_;  ///< chosen, and not asked yet
  std::map<std::weak_ptr<ServedStore>, SteadyTime, std::owner_less<>> asked_;  ///< since when
  std::string last_quiet_;         ///< the unused store that was counted last
  std::string last_failing_;       ///< the failing store that was asked last
  std::set<std::string> busy_;     ///< had something unfinished when they were last counted
  std::set<std::string> failing_;  ///< did not answer when they were last asked
  std::jthread sampler_;
  Timers::Timer heartbeat_;
};

}  // namespace oncebox::server
