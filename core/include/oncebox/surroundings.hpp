#pragma once

#include <string>

#include "oncebox/clock.hpp"
#include "oncebox/log.hpp"
#include "oncebox/observer.hpp"
#include "oncebox/tracing.hpp"

namespace oncebox {

namespace detail {

/// What objects have that were given no logger or observer. They have no state: all may share them.
[[nodiscard]] Logger& no_log() noexcept;
[[nodiscard]] Observer& no_observer() noexcept;

}  // namespace detail

/// Where an object logs, who hears what it does, its clock, and who is told of its spans: the last
/// argument of all that take more than one of them. Each is borrowed, must outlive the object, and
/// has a default: no log, nobody, the machine's clock, nobody. Some objects do not use all of them.
///
///     Dispatcher dispatcher(store->inbox(), handlers, {.workers = 8}, {.logger = logger});
struct Surroundings {
  Logger& logger = detail::no_log();
  Observer& observer = detail::no_observer();
  const Clock& clock = SystemClock::shared();
  Tracer* tracer = nullptr;  ///< null: no span is begun
};

/// The same for an object that works on many stores, each of which may have an observer of its own.
///
///     SetDispatcher dispatcher(stores, handlers, {}, {}, {.observers = metrics.observers()});
struct SurroundingsOfStores {
  Logger& logger = detail::no_log();
  ObserverOfStore observers = {};  ///< empty: nobody
  const Clock& clock = SystemClock::shared();
  Tracer* tracer = nullptr;  ///< null: no span is begun

  [[nodiscard]] Observer& observer_of(const std::string& store) const {
    return observers ? observers(store) : detail::no_observer();
  }
  [[nodiscard]] Surroundings of(const std::string& store) const {
    return {logger, observer_of(store), clock, tracer};
  }
};

}  // namespace oncebox
