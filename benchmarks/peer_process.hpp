#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace oncebox::bench {

/// What a script of benchmarks/peers is asked for.
struct PeerRun {
  std::string folder;  ///< the scripts and their packages, and a link `node` to the program
  std::string script;
  std::string url;
  std::size_t count = 0;
  std::size_t batch = 0;
};

/// Runs the script and answers what it printed: rates by the names of the figures. Throws
/// `std::runtime_error` when it fails.
[[nodiscard]] std::map<std::string, double> run_peer(const PeerRun& run);

}  // namespace oncebox::bench
