#pragma once

#include <concepts>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "oncebox/clock.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/engine/store_calls.hpp"

namespace oncebox::engine {

/// Closes stores and inboxes on threads of its own. The last holder of a store closes it, and an
/// inbox commits the messages it has taken: both may hang as long as the database does, which must
/// hold up neither the thread that lets go of them, nor those of other database servers. One of the
/// threads is always there. Safe from any thread, but for the destructor.
///
/// `server` stands for the database server that a thing belongs to.
class Closing {
 public:
  /// The clock is borrowed. Throws when there is no thread to be had.
  explicit Closing(const Clock& clock);
  /// Waits until everything is closed, and everything that it made is gone.
  ~Closing();
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;

  /// Runs this, which must not throw; without memory right here.
  template <std::invocable Job>
  void run(const std::string& server, Job job) noexcept {
    try {
      const StoreCalls::Lane lane = calls_.add({.server = server});
      lane.post(std::make_unique<PostedJob<Job>>(std::move(job)));
    } catch (const std::exception&) {
      job();
    }
  }

  /// Lets go of a thing; without memory right here.
  void let_go(const std::string& server, std::shared_ptr<void> thing) noexcept {
    run(server, [thing = std::move(thing)]() mutable { thing.reset(); });
  }

  /// Makes a thing that is destroyed here, once nobody holds it any more. That needs no memory.
  template <class T, class... Arguments>
  [[nodiscard]] std::shared_ptr<T> make(const std::string& server, Arguments&&... arguments) {
    auto made = std::make_unique<Made<T>>(*this, calls_.add({.server = server}),
                                          std::forward<Arguments>(arguments)...);
    T* const thing = &made->thing;
    return {thing, [last = made.release()](T*) noexcept {
              const StoreCalls::Lane lane = std::move(last->lane);
              lane.post(std::unique_ptr<StoreCalls::Call>(last));
            }};
  }

 private:
  template <class Job>
  struct PostedJob final : StoreCalls::Call {
    explicit PostedJob(Job to_run) : job(std::move(to_run)) {}
    void run() noexcept override { job(); }

    Job job;
  };

  class Alive {
   public:
    explicit Alive(Closing& closing);
    ~Alive();
    Alive(const Alive&) = delete;
    Alive& operator=(const Alive&) = delete;

   private:
    Closing& closing_;
  };

  /// A thing, and the call that ends with it.
  template <class T>
  struct Made final : StoreCalls::Call {
    template <class... Arguments>
    explicit Made(Closing& closing, StoreCalls::Lane its_lane, Arguments&&... arguments)
        : alive(closing), lane(std::move(its_lane)), thing(std::forward<Arguments>(arguments)...) {}
    void run() noexcept override {}

    const Alive alive;
    StoreCalls::Lane lane;
    T thing;
  };

  detail::Mutex mutex_;
  detail::Condition none_is_alive_;
  std::size_t alive_ ONCEBOX_GUARDED_BY(mutex_) = 0;  ///< of what was made
  StoreCalls calls_;                                  // last: its threads use the members above
};

}  // namespace oncebox::engine
