#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string_view>
#include <thread>
#include <vector>

#include "api/served_stores.hpp"

namespace oncebox::server {

/// Keeps one store clean: ends lapsed leases, and removes what is past its retention. In small
/// batches with pauses between them, so that clients hardly notice. A store that fails is tried
/// again later, ever more rarely. A thread of its own, so that no store holds up another.
class Housekeeper {
 public:
  /// What it is given must outlive it.
  Housekeeper(ServedStore& store, const ApiParts& parts);
  Housekeeper(const Housekeeper&) = delete;
  Housekeeper& operator=(const Housekeeper&) = delete;

  void start();
  /// Waits for the batch under way.
  void stop();

 private:
  struct Job {
    std::string_view name;
    Duration interval;
    /// Does a batch; answers whether there may be more to do.
    std::function<bool()> step;
    SteadyTime next = {};
    Duration failure_pause{0};
  };

  void add_queue_jobs(ServedQueue& queue);
  void run(const std::stop_token& stop);
  void run(Job& job);

  ServedStore& store_;
  const ApiParts& parts_;
  std::vector<Job> jobs_;
  std::mutex mutex_;
  std::condition_variable_any stopping_;
  std::jthread thread_;
};

}  // namespace oncebox::server
