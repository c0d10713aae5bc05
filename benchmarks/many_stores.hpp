#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "figure.hpp"
#include "oncebox/dispatch/store_selection.hpp"
#include "oncebox/fleet/store_set.hpp"

/// What one dispatcher over many stores costs and does, whatever the stores are.
namespace oncebox::bench {

/// What a dispatcher over these stores costs while none of them has anything to do: processor time,
/// wake-ups, memory, threads and open files. Answers after so long.
void measure_idle(Report& report, const std::string& name, StoreSet& stores,
                  std::chrono::seconds during);

using MakeSelection = std::function<std::unique_ptr<StoreSelection>()>;

struct Neighbours {
  std::size_t small_rate = 10;    ///< messages a second of each small tenant
  std::size_t large_rate = 0;     ///< of the large one; 0: it has nothing to do
  std::size_t large_backlog = 0;  ///< messages of the large one that wait from the start
};

/// The time from the call of enqueue to the first line of the handler for all but the first store
/// of the set, the large tenant. Handlers wait a millisecond, as for a call of another service.
struct Waits {
  double p50_us = 0;
  double p99_us = 0;
};
[[nodiscard]] Waits measure_waits(StoreSet& stores, const MakeSelection& selection,
                                  const Neighbours& neighbours, std::chrono::seconds during);

}  // namespace oncebox::bench
