#pragma once

#include "oncebox/clock.hpp"
#include "oncebox/log.hpp"
#include "oncebox/observer.hpp"
#include "oncebox/surroundings.hpp"
#include "oncebox/tracing.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox {

/// Who hears of each queue of a store, by the store's name. An empty one hears nothing.
struct QueueObservers {
  ObserverOfStore inbox = {};
  ObserverOfStore outbox = {};
  ObserverOfStore deliveries = {};
};

/// `SurroundingsOfStores` for an object that works on several queues of each store.
///
///     SetPublishing publishing(stores, publishers, {}, {.logger = logger, .tracer = &exporter});
struct SurroundingsOfQueues {
  Logger& logger = detail::no_log();
  QueueObservers observers = {};
  const Clock& clock = SystemClock::shared();
  Tracer* tracer = nullptr;  ///< null: no span is begun

  [[nodiscard]] SurroundingsOfStores of(QueueKind queue) const {
    switch (queue) {
      case QueueKind::outbox:
        return {logger, observers.outbox, clock, tracer};
      case QueueKind::deliveries:
        return {logger, observers.deliveries, clock, tracer};
      case QueueKind::inbox:
        break;
    }
    return {logger, observers.inbox, clock, tracer};
  }
};

}  // namespace oncebox
