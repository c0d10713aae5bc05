#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backend.hpp"

namespace oncebox::simulation {

/// How a run went.
struct Outcome {
  std::uint64_t seed = 0;
  std::size_t steps = 0;
  std::size_t messages = 0;
  std::uint64_t fingerprint = 0;  ///< of everything that happened, in its order
  std::string violation = {};     ///< empty: every rule held
  std::string story = {};         ///< what happened last, one line for each event

  [[nodiscard]] bool is_good() const noexcept { return violation.empty(); }
};

/// Some processes with a dispatcher each, some stores on some database servers. For a while
/// messages are sent, servers fail, hang and are slow, stores come and go, processes stop and
/// start; then everything is well again, and everything has to come to its end. The seed decides
/// all of it.
Outcome run(std::uint64_t seed, Planted planted = Planted::nothing);

}  // namespace oncebox::simulation
