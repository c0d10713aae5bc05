#pragma once

#include <chrono>
#include <cstddef>

namespace oncebox::bench {

/// What this process has used so far.
struct ProcessUsage {
  std::chrono::microseconds processor{0};
  std::size_t wake_ups = 0;  ///< of all threads, the ended ones too: each time one had waited
  double resident_mebibytes = 0;
  std::size_t threads = 0;
  std::size_t open_files = 0;

  [[nodiscard]] static ProcessUsage now();
};

/// Lets this process open as many files as the system allows.
void allow_many_files();

}  // namespace oncebox::bench
