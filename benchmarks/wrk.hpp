#pragma once

#include <cstdint>
#include <string>

namespace oncebox::bench {

/// What wrk measured.
struct Load {
  double rate = 0;    ///< requests, or what the script counts, in a second
  double p50_us = 0;  ///< of one request
  double p99_us = 0;
};

/// Runs wrk on 127.0.0.1 with a script of benchmarks/http. Throws `std::runtime_error` when it
/// fails, or when any request did.
struct WrkRun {
  std::string script;  ///< a file's path
  std::uint16_t port = 0;
  int connections = 64;
  int threads = 1;
  int seconds = 6;
};
[[nodiscard]] Load run_wrk(const WrkRun& run);

}  // namespace oncebox::bench
