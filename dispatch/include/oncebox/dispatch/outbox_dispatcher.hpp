#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "oncebox/clock.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/dispatch/handlers.hpp"
#include "oncebox/dispatch/publisher.hpp"
#include "oncebox/dispatch/running_stats.hpp"
#include "oncebox/log.hpp"
#include "oncebox/observer.hpp"
#include "oncebox/queue_store.hpp"
#include "oncebox/retry_policy.hpp"
#include "oncebox/store.hpp"
#include "oncebox/topic_pattern.hpp"

namespace oncebox {

/// Which publisher serves which topics. An exact pattern wins over the longest stem.
///
///     Publishers publishers(broker);                            // for all topics
///     publishers.on("mail.*", webhooks, {.max_concurrency = 4});  // but for these
class Publishers {
 public:
  Publishers() = default;
  /// One for all topics. Throws as `on` does.
  template <std::derived_from<Publisher> Any>
  Publishers(std::shared_ptr<Any> publisher) {
    on("*", std::shared_ptr<Publisher>(std::move(publisher)));
  }

  /// Throws `conflict` when the pattern has a publisher already, `invalid_argument` when the
  /// pointer is null, and as `HandlerOptions::validate` does; then nothing changed.
  Publishers& on(TopicPattern pattern, std::shared_ptr<Publisher> publisher,
                 const HandlerOptions& options = {});

  /// One that holds no thread until its transport answers.
  Publishers& on_async(TopicPattern pattern, std::shared_ptr<AsyncPublisher> publisher,
                       const HandlerOptions& options = {});

  /// A function, as `callable_publisher` makes it one.
  template <class Callable>
    requires std::invocable<Callable&, const ClaimedMessage&, HandlerContext&>
  Publishers& on(TopicPattern pattern, Callable callable, const HandlerOptions& options = {}) {
    return on(std::move(pattern), callable_publisher(std::move(callable)), options);
  }

  /// These are as those of `Handlers`.
  Publishers& around(Middleware middleware) {
    handlers_.around(std::move(middleware));
    return *this;
  }
  Publishers& around_async(AsyncMiddleware middleware) {
    handlers_.around_async(std::move(middleware));
    return *this;
  }
  Publishers& on_dead(TopicPattern pattern, DeadHandler handler) {
    handlers_.on_dead(std::move(pattern), std::move(handler));
    return *this;
  }

  [[nodiscard]] const Handlers& handlers() const noexcept { return handlers_; }

 private:
  Handlers handlers_;
};

/// Publishes the messages of an outbox: a `Dispatcher` whose handlers are publishers. What that
/// promises holds here, in these words:
///
/// - A message is marked as dispatched, done, only after its publisher has returned. When the
///   process dies between, it is published again: at least once.
/// - Messages of one partition key are published one after the other, in their order, retries
///   included. A dead one is out of the way.
/// - One that fails is tried again by the retry policy of its topic, `outbox_retry_policy` unless
///   the options have another, and dead in the end; those of other keys are not held up. Dead ones
///   are kept, and can be revived as those of an inbox.
/// - It wakes when a message is committed, and by polling only where the store cannot tell.
/// - A topic without a publisher is treated by `DispatcherOptions::no_handler`.
///
/// Any number of them, in any number of processes, may work on one outbox. Safe from any thread,
/// also from a publisher, except for construction and destruction.
class OutboxDispatcher {
 public:
  /// Publishers and options are copied; everything else is borrowed and must outlive this object.
  /// Throws as `DispatcherOptions::validate` does.
  OutboxDispatcher(QueueStore& outbox, const Publishers& publishers,
                   const DispatcherOptions& options = {}, const Surroundings& surroundings = {});
  /// For the outbox of a store.
  OutboxDispatcher(Store& store, const Publishers& publishers,
                   const DispatcherOptions& options = {}, const Surroundings& surroundings = {});

  /// These are as those of `Dispatcher`.
  void start() { dispatcher_.start(); }
  StopResult stop(const StopOptions& options = {}) { return dispatcher_.stop(options); }
  StopResult stop_now() { return dispatcher_.stop_now(); }
  void pause() { dispatcher_.pause(); }
  void resume() { dispatcher_.resume(); }
  void pause(const TopicPattern& pattern) { dispatcher_.pause(pattern); }
  void resume(const TopicPattern& pattern) { dispatcher_.resume(pattern); }
  void wake() noexcept { dispatcher_.wake(); }
  [[nodiscard]] bool wait_until_idle(const IdleOptions& options = {}) {
    return dispatcher_.wait_until_idle(options);
  }

  /// `handled` counts what was published.
  [[nodiscard]] RunningStats stats() const { return dispatcher_.stats(); }
  [[nodiscard]] const OwnerToken& owner() const noexcept { return dispatcher_.owner(); }

 private:
  Dispatcher dispatcher_;
};

}  // namespace oncebox
