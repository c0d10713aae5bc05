#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "api/api_json.hpp"
#include "api/served_stores.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"

namespace oncebox::server {

/// `GET /v1/events`: tells those who listen how full the queues are, every second, and at once
/// that a queue may have something to claim. Also counts the queues for the metrics, more rarely
/// while nobody listens. Of many stores those in use are counted each time, and the others by
/// turns, so that a thousand that do nothing cost next to nothing. Each is counted among the calls
/// that wait for it, a few at the same time; what does not answer within a second is told when it
/// does, and holds up nobody. Safe from any thread.
class EventStreams {
 public:
  /// What it is given must outlive it, but for `stop`.
  EventStreams(ServedStores& stores, const ApiParts& parts);
  ~EventStreams();
  EventStreams(const EventStreams&) = delete;
  EventStreams& operator=(const EventStreams&) = delete;

  void start();

  /// A store has come: while somebody listens, its work is told, too.
  void on_opened(const ServedStorePtr& store);

  /// Begins a stream. Throws `overloaded` when there are too many, `unavailable` when draining.
  void add(const ExchangePtr& exchange);

  /// Ends all streams and begins none any more.
  void drain() noexcept;
  /// The same, and nothing is sampled any more.
  void stop();

 private:
  class WorkWatch;
  using StreamPtr = std::shared_ptr<ResponseStream>;

  void broadcast(const std::string& text) noexcept;
  void beat();
  /// What a store answered.
  struct Answer {
    std::weak_ptr<ServedStore> store;  ///< who keeps the answer does not keep the store
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
  void count(const ServedStorePtr& store, std::uint64_t round) noexcept;
  /// Takes note of what has come; answers how long that took.
  Duration take_answers(std::vector<QueueSample>& samples);
  void give_up_waiting();
  void note_health(const std::string& name, const Health& health);
  void show_health(const std::vector<ServedStorePtr>& stores);
  /// Sees to it that its work is told, from soon on.
  void watch(const ServedStorePtr& store);
  void begin_to_watch(const ServedStorePtr& store) noexcept;
  [[nodiscard]] std::shared_ptr<WorkWatch> new_watch(const ServedQueue& queue);

  ServedStores& stores_;
  const ApiParts& parts_;

  detail::Mutex mutex_;
  detail::TimedCondition somebody_listens_{parts_.clock};
  std::vector<StreamPtr> streams_ ONCEBOX_GUARDED_BY(mutex_);
  /// An event; empty when nobody listened while it was taken.
  std::string last_sample_ ONCEBOX_GUARDED_BY(mutex_);
  bool draining_ ONCEBOX_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<WorkWatch>> watches_ ONCEBOX_GUARDED_BY(mutex_);
  std::atomic<std::size_t> listeners_ = 0;  ///< changes under the lock

  // What calls about the stores found, for the sampling thread.
  detail::Mutex answers_mutex_;
  detail::TimedCondition answered_{parts_.clock};
  std::vector<Answer> answers_ ONCEBOX_GUARDED_BY(answers_mutex_);
  std::uint64_t round_ ONCEBOX_GUARDED_BY(answers_mutex_) = 0;
  /// Asked in this round, and not answered yet.
  std::size_t under_way_ ONCEBOX_GUARDED_BY(answers_mutex_) = 0;

  // For the sampling thread.
  std::deque<std::weak_ptr<ServedStore>> to_ask_;  ///< chosen, and not asked yet
  std::map<std::weak_ptr<ServedStore>, SteadyTime, std::owner_less<>> asked_;  ///< since when
  std::string last_quiet_;         ///< where the turns of those that are not in use are
  std::string last_failing_;       ///< and of those that did not answer
  std::set<std::string> busy_;     ///< had something unfinished when they were last counted
  std::set<std::string> failing_;  ///< did not answer when they were last asked
  std::jthread sampler_;
};

}  // namespace oncebox::server
